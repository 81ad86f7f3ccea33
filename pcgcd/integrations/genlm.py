"""Constraints and P-GCD inside genlm-control: potentials, and token samplers for its SMC.

    constraint = ConstraintPotential(regex(r"[a-z]+"), vocabulary, budget=32)
    sampler = gcd_token_sampler(llm, constraint)

    product = ProductPotential(hmm, regex(r"[a-z]+"), vocabulary, budget=32)
    sampler = PGCDTokenSampler(llm, product, w=0.5)

    sequences = await sampler.smc(n_particles=16, ess_threshold=0.5, max_tokens=32)

A budget is what genlm calls ``max_tokens``: the end-of-sequence symbol counts, and is always there.
(:func:`pcgcd.generate` also takes a text that fills the budget without one.) Tokens are genlm's
``Token``, numbered as in the vocabulary, so tokenizers with several tokens for the same bytes work.

genlm-control is imported when the first object is made, not before: importing it takes seconds
and changes the behaviour of the package jsonschema.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.basics.numbers import check_whole_number
from pcgcd.basics.packages import package
from pcgcd.circuits import CircuitLike
from pcgcd.decoding.targets import Target, Wanted
from pcgcd.engine import PrefixState
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.integrations.histories import Histories

__all__ = [
    "ConstraintPotential",
    "PGCDTokenSampler",
    "ProductPotential",
    "gcd_token_sampler",
]

Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Context: TypeAlias = "Sequence[Any]"

_FLOOR = -80.0  # next_tokens() rounds smaller log-probabilities up to the smallest float32


class _Joined:
    """A class that gets its base class from genlm-control when its first object is made."""

    _base: tuple[str, str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the class that has both bases."""
        made: Any = cls
        return object.__new__(_joined(made))


@cache
def _joined(cls: Any) -> type:
    base = getattr(_genlm(cls._base[0]), cls._base[1])
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    result: type = type(base)(cls.__name__, (cls, base), names)
    return result


def _genlm(module: str) -> Any:
    return package(f"genlm.{module}", "this")


class _TextPotential(_Joined):
    """What the potentials share: contexts as histories of one automaton."""

    _base = ("control", "Potential")
    # Those of the base class that are used here.
    eos: Any
    lookup: dict[Any, int]
    vocab_eos: list[Any]
    make_lazy_weights: Callable[..., Any]

    def __init__(
        self,
        target: Wanted,
        vocabulary: Vocabulary,
        budget: int | None,
        hmm: CircuitLike | None = None,
        *,
        guided: bool = False,
    ) -> None:
        if budget is not None:
            check_whole_number("the budget", budget, 1)
        found = Target.of(target, vocabulary, hmm)
        if guided and found.guide is None:
            raise InvalidParameterError(
                "P-GCD needs a guide: give an HMM, or a circuit such as hmm * fa as the target"
            )
        self.vocabulary = vocabulary
        self.automaton = found.automaton
        self.budget = budget
        self.guide = found.guide
        # Every text ends with EOS, so that a budget of n tokens leaves n - 1 for the text.
        ending = Target(found.automaton.intersection(_ends_with(vocabulary)), found.guide)
        self._histories = Histories(ending.engine(guided=guided).start([budget]))
        ends = set(vocabulary.eos_ids)
        self._text_ids = [i for i in range(vocabulary.size) if i not in ends]
        token = _genlm("backend.tokenization").Token
        tokens = [token(i, vocabulary.token_bytes[i] or b"") for i in self._text_ids]
        super().__init__(tokens)  # type: ignore[call-arg]

    # -- the contract -------------------------------------------------------------------------

    async def prefix(self, context: Context) -> float:
        """The log-weight of a beginning."""
        return float((await self.batch_prefix([context]))[0])

    async def complete(self, context: Context) -> float:
        """0 if the text satisfies the constraint (within the budget), else -inf."""
        return float((await self.batch_complete([context]))[0])

    async def logw_next(self, context: Context) -> Any:
        """The log-weights of the next tokens relative to the context's."""
        rows = await self.batch_logw_next([context])
        return self.make_lazy_weights(rows.weights[0])

    async def logw_eos(self, context: Context) -> float:
        """The log-weight of ending here."""
        before = await self.prefix(context)
        self._check_alive([before], [context])
        return await self.complete(context) - before

    async def batch_prefix(self, contexts: Sequence[Context]) -> Logs:
        """See :meth:`prefix`."""
        return self._gather(contexts, self._log_prefix)

    async def batch_complete(self, contexts: Sequence[Context]) -> Logs:
        """See :meth:`complete`."""
        return self._gather(contexts, self._log_complete)

    async def batch_logw_next(self, contexts: Sequence[Context]) -> Any:
        """See :meth:`logw_next`."""
        before = await self.batch_prefix(contexts)
        self._check_alive(before, contexts)
        rows = self._gather(contexts, self._log_next, len(self.vocab_eos))
        rows[:, -1] = await self.batch_complete(contexts) - before
        return self.make_lazy_weights(rows)

    def spawn(self) -> Any:
        """One that shares everything: nothing in it is changed by use but what it remembers."""
        return self

    # -- inside -------------------------------------------------------------------------------

    def _gather(
        self,
        contexts: Sequence[Context],
        read: Callable[[PrefixState], Logs],
        width: int | None = None,
    ) -> Logs:
        """What a function says about the prefixes of contexts, in their order."""
        if not len(contexts):
            raise InvalidParameterError("a batch needs at least one context, but has none")
        histories = [(0, self._ids(context)) for context in contexts]
        result = np.empty(len(contexts) if width is None else (len(contexts), width))
        for state, places in self._histories.find(histories):
            result[places] = read(state)
        return result

    def _ids(self, context: Context) -> tuple[int, ...]:
        try:
            return tuple(self._text_ids[self.lookup[token]] for token in context)
        except (KeyError, IndexError):
            wrong = next(
                token
                for token in context
                if self.lookup.get(token, len(self._text_ids)) == len(self._text_ids)
            )
            raise VocabularyMismatchError(
                f"a context holds tokens of this potential's vocabulary (genlm's Token, with the "
                f"tokenizer's ids), but {wrong!r} is none"
            ) from None

    def _check_alive(self, before: Sequence[float] | Logs, contexts: Sequence[Context]) -> None:
        for weight, context in zip(before, contexts, strict=True):
            if weight == -np.inf:
                raise InvalidParameterError(
                    f"nothing can follow a context of weight zero, but {list(context)!r} is one"
                )

    def _log_prefix(self, state: PrefixState) -> Logs:
        viable = state.viable(within_budget=self.budget is not None)
        return state.log_so_far().masked_fill(~viable, -torch.inf).numpy()

    def _log_complete(self, state: PrefixState) -> Logs:
        after = state.advance([self.vocabulary.eos_ids[0]] * state.num_rows)
        return np.where(after.remaining >= 0, after.log_final().numpy(), -np.inf)

    def _log_next(self, state: PrefixState) -> Logs:
        """(k, tokens + 1); the last column is filled in later."""
        width = self.vocabulary.logits_size
        allowed = state.allowed(within_budget=self.budget is not None).dense(width)
        return self._columns(allowed.double().numpy())

    def _columns(self, dense: Logs) -> Logs:
        """Rows over token ids as rows over genlm's tokens, EOS last: the sum of all that end."""
        text = dense[:, self._text_ids]
        ends = np.logaddexp.reduce(dense[:, list(self.vocabulary.eos_ids)], axis=1)
        return np.concatenate([text, ends[:, None]], axis=1)


class ConstraintPotential(_TextPotential):
    """A constraint as a Boolean potential: weight 1 for what satisfies it, or still can.

    With a budget the look-ahead is that of GCD (Eq. 2): a beginning has weight 1 if some text that
    satisfies the constraint can be finished in the tokens that are left. Without one it is that of
    LCD (Eq. 1), in any number of tokens.
    """

    def __init__(self, target: Wanted, vocabulary: Vocabulary, budget: int | None = None) -> None:
        """Compile the constraint.

        Args:
            target: A constraint, an automaton over the tokens, or a circuit with one.
            vocabulary: The tokens and their bytes:
                ``Vocabulary.from_tokenizer(llm.model.tokenizer)``.
            budget: genlm's ``max_tokens``, the end of the text included.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        super().__init__(target, vocabulary, budget)

    def __repr__(self) -> str:
        return f"ConstraintPotential({self.automaton!r}, budget={self.budget})"


class ProductPotential(_TextPotential):
    """The potential of P-GCD: a beginning weighs p_hmm(C | x_1:t), a text 1 if it is in C.

    C is the set of texts that satisfy the constraint and end within the budget. For an ambiguous
    automaton beginnings are weighed by paths, texts are not.
    """

    def __init__(
        self,
        hmm: CircuitLike | None,
        target: Wanted,
        vocabulary: Vocabulary,
        budget: int,
    ) -> None:
        """Join the guide and the constraint.

        Args:
            hmm: An HMM distilled from the language model, or another circuit; None if the target
                is a circuit with a guide of its own.
            target: A constraint, an automaton over the tokens, or a circuit such as ``hmm * fa``.
            vocabulary: The tokens and their bytes.
            budget: genlm's ``max_tokens``, the end of the text included.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        super().__init__(target, vocabulary, budget, hmm, guided=True)

    def _log_prefix(self, state: PrefixState) -> Logs:
        return state.log_lookahead().numpy()

    def _log_next(self, state: PrefixState) -> Logs:
        """E[f | x_1:t, v] / E[f | x_1:t]."""
        width = self.vocabulary.logits_size
        ratio = state.next_lookaheads().dense(width).double().cpu()
        # Rounded ones, rare, are computed from the prefix that they lead to.
        unsure = (ratio > -torch.inf) & (self.log_next_tokens(state) < _FLOOR)
        unsure[:, list(self.vocabulary.eos_ids)] = False
        rows, tokens = unsure.nonzero(as_tuple=True)
        if len(rows):
            after = state.select(rows).advance(tokens).log_lookahead()
            ratio[rows, tokens] = after - state.log_lookahead()[rows]
        return self._columns(ratio.numpy())

    def log_next_tokens(self, state: PrefixState) -> torch.Tensor:
        """The log of p(v | x_1:t) of the circuit over all token ids, (k, V) float64."""
        return state.next_tokens().dense(self.vocabulary.logits_size).double().cpu()

    def __repr__(self) -> str:
        return f"ProductPotential({self.guide!r}, {self.automaton!r}, budget={self.budget})"


class _Guide(ProductPotential):
    """The HMM itself given the constraint: p_hmm(x, C) of beginnings and of texts."""

    def __init__(self, product: ProductPotential) -> None:
        self.__dict__.update(product.__dict__)
        self.__dict__.pop("_autobatched", None)

    def _log_prefix(self, state: PrefixState) -> Logs:
        return (state.log_prefix + state.log_lookahead()).numpy()

    def _log_next(self, state: PrefixState) -> Logs:
        return self._columns(self.log_next_tokens(state).numpy())

    async def batch_logw_next(self, contexts: Sequence[Context]) -> Any:
        """Normalised: what may come next, and the end."""
        rows = self._gather(contexts, self._log_next, len(self.vocab_eos))
        return self.make_lazy_weights(rows)

    async def batch_complete(self, contexts: Sequence[Context]) -> Logs:
        """The beginning's weight times the probability of the end."""
        before = await self.batch_prefix(contexts)
        rows = await self.batch_logw_next(contexts)
        return np.asarray(before + rows.weights[:, -1])


class PGCDTokenSampler(_Joined):
    """Draws tokens from q in proportion to p_lm^w * p_circuit^(1 - w), for genlm's SMC.

    The target is ``llm * product``: beginnings weigh p_lm(x_1:t) p_hmm(C | x_1:t), texts
    p_lm(x) 1{x in C}. Weights are proper, so that the evidence is unbiased for every w.

    Attributes:
        w: The weight of the language model in the proposal, between 0 and 1.
    """

    _base = ("control.sampler.token", "TokenSampler")

    def __init__(self, llm: Any, product: ProductPotential, w: float = 0.7) -> None:
        """Join a language model and a product.

        Args:
            llm: A potential over the same tokens, such as ``PromptedLLM``.
            product: The look-ahead. Give SMC its budget as ``max_tokens``.
            w: The weight of the language model.
        """
        if not 0 <= w <= 1:
            raise InvalidParameterError(f"w must lie in [0, 1], but is {w}")
        autobatched = _genlm("control.potential.autobatch").autobatched
        self.w = w
        self._llm = autobatched(llm)
        self._product = autobatched(product)
        self._guide = autobatched(_Guide(product))
        super().__init__(self._llm * self._product)  # type: ignore[call-arg]
        target = self.target
        self._places = [
            None
            if part.vocab_eos == target.vocab_eos
            else torch.tensor([part.lookup[token] for token in target.vocab_eos])
            for part in (llm, product)
        ]

    target: Any

    async def sample(self, context: Context, draw: Any = None) -> tuple[Any, float, float]:
        """A token, its importance weight, and the logarithm of its probability.

        Args:
            context: The tokens so far.
            draw: Draws from a chart of probabilities in place of genlm's configured method.
        """
        model, guide = await asyncio.gather(
            self._llm.logw_next(context), self._guide.logw_next(context)
        )
        log_p = self._aligned(model.weights, 0)
        log_q = self._aligned(guide.weights, 1).to(log_p.device)
        allowed = log_q > -torch.inf
        mixture = torch.where(allowed, (1 - self.w) * log_q, -torch.inf)
        if self.w > 0:
            mixture = torch.where(allowed, mixture + self.w * log_p, -torch.inf)
        if bool((mixture == -torch.inf).all()):  # the model excludes all: the particle dies
            return self.target.eos, -np.inf, 0.0
        weights = self.target.make_lazy_weights(mixture)
        token, _, log_prob = await _genlm("control.util").draw_from(weights, draw)
        chosen = float(log_p[self.target.lookup[token]])
        before, after = await asyncio.gather(
            self._product.prefix(context), self._product.score([*context, token])
        )
        return token, chosen + float(after) - float(before) - log_prob, log_prob

    def _aligned(self, weights: Any, part: int) -> torch.Tensor:
        """A potential's row over the target's tokens."""
        row = torch.as_tensor(weights).double()
        places = self._places[part]
        return row if places is None else row[places.to(row.device)]

    async def cleanup(self) -> None:
        """Nothing to release; the language model is its owner's."""

    def __repr__(self) -> str:
        return f"PGCDTokenSampler({self.target!r}, w={self.w})"


def gcd_token_sampler(llm: Any, constraint: ConstraintPotential) -> Any:
    """Draws tokens of the language model that the constraint allows, for genlm's SMC.

    With a budget in the potential this is GCD, and no particle dies at ``max_tokens``; without one
    it is LCD.

    Args:
        llm: A potential over the same tokens, such as ``PromptedLLM``.
        constraint: The mask. Give SMC its budget as ``max_tokens``.
    """
    return _genlm("control").direct_token_sampler(llm * constraint)


def _ends_with(vocabulary: Vocabulary) -> FiniteAutomaton:
    """Texts with an end."""
    ends = set(vocabulary.eos_ids)
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=vocabulary.logits_size,
        initial=0,
        accepting={1},
        edges=[
            (0, 0, [i for i in range(vocabulary.logits_size) if i not in ends]),
            (0, 1, sorted(ends)),
            (1, 1, sorted(ends)),
        ],
    )

"""Constraints inside ``model.generate`` of transformers.

    processor = GCDLogitsProcessor(constraint, tokenizer, budget=64)
    model.generate(**inputs, max_new_tokens=64, logits_processor=[processor])

``max_new_tokens`` must be the budget: with less the text can be cut off before it is complete, with
more the processor stops with an error where a text grows past the budget. Then every text that
ends satisfies the constraint: greedily, by sampling (temperature, top-k and top-p come after the
processor) and by beam search, in batches, with prompts of different lengths (padded on the left)
and with ``num_return_sequences``.

A beam search that is asked for more texts than there are fills up with repeated ones; what is below
-1e8 in ``sequences_scores`` is to be ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.basics.numbers import check_whole_number
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint
from pcgcd.decoding.contracts import needs_guide
from pcgcd.decoding.proposals import GCD, LCD, PGCD, Proposal
from pcgcd.decoding.targets import Target, Wanted
from pcgcd.engine import start_batch
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.integrations.histories import Histories, History
from pcgcd.integrations.scores import ScoreRule

__all__ = [
    "ConstrainedLogitsProcessor",
    "GCDLogitsProcessor",
    "LCDLogitsProcessor",
    "PGCDLogitsProcessor",
]


class ConstrainedLogitsProcessor:
    """What the processors have in common: any proposal of :mod:`pcgcd.decoding` as scores.

    A processor serves one ``generate`` call at a time. It starts afresh with prompts that are not
    the last call's texts, and with those of a call in which every text has ended. To begin a new
    text after one that was cut off, call :meth:`reset` in between. With ``prompt_length`` there is
    nothing to notice.

    transformers calls any object with two arguments; it needs no base class of theirs, and this
    module does not import transformers.
    """

    def __init__(
        self,
        target: Wanted | Sequence[Wanted],
        vocabulary: Vocabulary | Any,
        budget: int | None,
        proposal: Proposal,
        *,
        hmm: CircuitLike | None = None,
        within_budget: bool = True,
        normalised: bool = False,
        prompt_length: int | None = None,
    ) -> None:
        """Compile the constraints and check the budget.

        Args:
            target: A constraint, an automaton over tokens or a circuit such as ``hmm * fa``; or
                one for each prompt.
            vocabulary: The vocabulary, or the tokenizer. A tokenizer knows its own end-of-sequence
                token only; to let texts end in others too, give
                ``Vocabulary.from_tokenizer(tokenizer, generation_config=...)``.
            budget: The largest number of tokens, a token that ends the text included; None if
                there is no limit.
            proposal: What turns the model's scores into those of the next token.
            hmm: The guide that the proposal needs, unless the target has one.
            within_budget: Whether texts must end within the budget.
            normalised: Whether scores are given back as log-probabilities.
            prompt_length: The number of tokens before the text, padding included. By default all
                that the first call sees; with less, the prompt's end belongs to the text.
        """
        kinds = Constraint | CircuitLike
        wanted = [target] if isinstance(target, kinds) else list(target)
        if not wanted or not all(isinstance(one, kinds) for one in wanted):
            raise InvalidParameterError(
                "the processor needs a Constraint, a FiniteAutomaton, a circuit, or a list with "
                f"one of them for each prompt, but got {target!r}; put a schema into "
                "json_schema(...) and a pattern into regex(...), both in pcgcd.constraints"
            )
        if budget is not None:
            check_whole_number("the budget", budget, 1)
        widths = {one.vocab_size for one in (*wanted, hmm) if isinstance(one, CircuitLike)}
        self._exact_width = isinstance(vocabulary, Vocabulary)
        if not isinstance(vocabulary, Vocabulary):
            width = max(widths, default=None)
            vocabulary = Vocabulary.from_tokenizer(vocabulary, logits_size=width)
        wrong = widths - {vocabulary.logits_size}
        if wrong:
            raise VocabularyMismatchError(
                f"the vocabulary's logits are {vocabulary.logits_size} wide, but the automaton or "
                f"the HMM has {min(wrong)} tokens; make all of them for one model"
            )
        guided = needs_guide(proposal, "proposal", "weigh")
        targets = [Target.of(one, vocabulary, hmm) for one in wanted]
        if guided and not all(one.guide is not None for one in targets):
            raise InvalidParameterError(
                "P-GCD needs a guide: give hmm=, or a circuit such as hmm * fa as the target"
            )
        self.vocabulary = vocabulary
        self.budget = budget
        self.proposal = proposal
        self._within_budget = within_budget
        self._rule = ScoreRule(proposal, within_budget, normalised)
        limit = budget if within_budget else None
        self._start = start_batch([(one.engine(guided=guided), limit) for one in targets])
        self._asked_length = prompt_length
        self._ends = frozenset(vocabulary.eos_ids)
        self.reset()

    def reset(self) -> None:
        """Forget the texts so far: the next call is the first one of a new ``generate``."""
        self._histories = Histories(self._start)
        self._last: Tensor | None = None
        self._prompt_length = 0 if self._asked_length is None else self._asked_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores of the next tokens, -inf for those that are not allowed.

        Args:
            input_ids: Prompts and texts so far, (k, t).
            scores: The model's logits, or log-probabilities in a beam search, (k, V).

        Raises:
            DeadEndError: All allowed tokens of a row have the score -inf.
            InvalidParameterError: A text has outgrown the budget without an end.
        """
        self._check_width(scores)
        histories = self._read(input_ids)
        result = torch.full_like(scores, -torch.inf)
        going = [row for row, (_, text) in enumerate(histories) if not self._has_ended(text)]
        for row in set(range(len(histories))) - set(going):
            # What follows the end is padding, which ``generate`` puts there itself.
            result[row, self.vocabulary.eos_ids[0]] = 0.0
        alive: list[int] = []
        for state, places in self._histories.find([histories[row] for row in going]):
            viable = state.viable(within_budget=self._within_budget).tolist()
            kept = [i for i, is_alive in enumerate(viable) if is_alive]
            rows = [going[places[i]] for i in kept]
            if rows:
                width = self.vocabulary.logits_size
                result[rows, :width] = self._rule.weigh(
                    state.select(kept), scores[rows, :width], rows
                )
            alive += rows
        self._check_dead(input_ids, histories, set(going) - set(alive))
        return result

    def _check_width(self, scores: Tensor) -> None:
        width, expected = scores.shape[1], self.vocabulary.logits_size
        if width < expected or (self._exact_width and width != expected):
            raise VocabularyMismatchError(
                f"the model's scores are {width} wide, but the vocabulary says {expected}; is this "
                f"the model's tokenizer? Make the vocabulary with logits_size={width}"
            )

    def _read(self, input_ids: Tensor) -> list[History]:
        """The texts of the rows, without prompts."""
        count, length = input_ids.shape
        if self._asked_length is None:
            self._notice_new_call(input_ids)
        if self._prompt_length > length:
            raise InvalidParameterError(
                f"prompt_length is {self._prompt_length}, but the prompts have {length} tokens"
            )
        constraints = self._start.num_rows
        if count % constraints:
            raise InvalidParameterError(
                f"there are {constraints} constraints, one for each prompt, but the batch has "
                f"{count} rows; give one constraint for all, or as many as prompts"
            )
        return [
            (row * constraints // count, tuple(text))
            for row, text in enumerate(input_ids[:, self._prompt_length :].tolist())
        ]

    def _notice_new_call(self, input_ids: Tensor) -> None:
        """Begin with these prompts, unless each row is a row of the last call and one token.

        Where all texts have ended, ``generate`` asks no more: these are prompts of a new call.
        """
        last, length = self._last, input_ids.shape[1]
        texts = input_ids[:, self._prompt_length :].tolist()
        if (
            last is None
            or length <= self._prompt_length
            or not _extends(input_ids, last)
            or all(not self._ends.isdisjoint(text) for text in texts)
        ):
            self.reset()
            self._prompt_length = length
        elif length <= last.shape[1]:
            raise InvalidParameterError(
                f"after texts of {last.shape[1]} tokens, prompt included, generate comes back with "
                f"the beginning of one, {length} tokens; if this is a new call, use a new "
                f"processor or its reset(); in assisted generation, give prompt_length"
            )
        self._last = input_ids.clone()

    def _has_ended(self, text: tuple[int, ...]) -> bool:
        if not self._ends.isdisjoint(text):
            return True
        if self._within_budget and self.budget is not None and len(text) >= self.budget:
            raise InvalidParameterError(
                f"a text has {len(text)} tokens and no end, and generate asks for more, but the "
                f"budget is {self.budget}; give generate max_new_tokens={self.budget}, or call "
                "reset() if these texts are the prompts of a new call"
            )
        return False

    def _check_dead(self, input_ids: Tensor, histories: list[History], dead: set[int]) -> None:
        """Beam search fills up with beams that cannot win; but one of each prompt must live."""
        if not dead:
            return
        prompts = [tuple(row) for row in input_ids[:, : self._prompt_length].tolist()]
        kinds = [(number, prompt) for (number, _), prompt in zip(histories, prompts, strict=True)]
        living = {kind for row, kind in enumerate(kinds) if row not in dead}
        for row in sorted(dead):
            if kinds[row] not in living:
                raise InvalidParameterError(
                    f"the text of row {row} cannot be completed any more, after "
                    f"{len(histories[row][1])} tokens; put this processor last, so that no other "
                    "one changes its scores, and check prompt_length if it was given"
                )


class LCDLogitsProcessor(ConstrainedLogitsProcessor):
    """Locally constrained decoding, Eq. (1): tokens after which some text of any length is left.

    It has no budget: ``max_new_tokens`` can cut a text off before it is complete.
    """

    def __init__(
        self,
        target: Wanted | Sequence[Wanted],
        vocabulary: Vocabulary | Any,
        *,
        prompt_length: int | None = None,
    ) -> None:
        super().__init__(
            target,
            vocabulary,
            None,
            LCD(),
            within_budget=False,
            prompt_length=prompt_length,
        )


class GCDLogitsProcessor(ConstrainedLogitsProcessor):
    """Globally constrained decoding, Eq. (2): tokens after which a text fits in the budget.

    The scores of allowed tokens stay as they are, so that a beam search looks for the most probable
    text of the model that satisfies the constraint.

    >>> from pcgcd.constraints import regex
    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
    >>> processor = GCDLogitsProcessor(regex("a*b"), vocabulary, budget=2)
    >>> processor(torch.tensor([[0, 0]]), torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., -inf]])
    >>> processor(torch.tensor([[0, 0, 0]]), torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-inf, 2., -inf]])
    """

    def __init__(
        self,
        target: Wanted | Sequence[Wanted],
        vocabulary: Vocabulary | Any,
        budget: int,
        *,
        prompt_length: int | None = None,
    ) -> None:
        """See :class:`ConstrainedLogitsProcessor`.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        super().__init__(target, vocabulary, budget, GCD(), prompt_length=prompt_length)


class PGCDLogitsProcessor(ConstrainedLogitsProcessor):
    """Probabilistic GCD: log-probabilities in proportion to p_lm(x_t)^w * p_circuit(x_t)^(1 - w).

    The guide is ``hmm``, or that of a target such as ``hmm * fa``.
    """

    def __init__(
        self,
        target: Wanted | Sequence[Wanted],
        vocabulary: Vocabulary | Any,
        budget: int,
        hmm: CircuitLike | None = None,
        w: float = 0.7,
        *,
        prompt_length: int | None = None,
    ) -> None:
        """See :class:`ConstrainedLogitsProcessor`.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        super().__init__(
            target,
            vocabulary,
            budget,
            PGCD(w),
            hmm=hmm,
            normalised=True,
            prompt_length=prompt_length,
        )


def _extends(rows: Tensor, last: Tensor) -> bool:
    """Whether each row but its last token begins a row of the last call."""
    length = rows.shape[1] - 1
    if length < 0 or length > last.shape[1] or len(rows) != len(last):
        return False
    before, known = rows[:, :length], last[:, :length]
    if torch.equal(before, known):
        return True
    return set(map(tuple, before.tolist())) <= set(map(tuple, known.tolist()))

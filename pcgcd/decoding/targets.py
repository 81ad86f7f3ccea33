"""What is generated: a constraint over tokens that defines the target, and a guide towards it.

This is the one place where constraints, automata and circuits enter decoding, for
:func:`pcgcd.generate`, for logits processors and for other libraries alike. Automata are padded
with EOS here, so that masks ("within n tokens") and messages ("in exactly n steps") always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.padding import padded
from pcgcd.basics.keeping import kept_with
from pcgcd.circuits import Chain, ChainMixture, Circuit, CircuitLike, circuit_product, mixture
from pcgcd.constraints import Constraint
from pcgcd.engine import PrefixEngine, parts_of
from pcgcd.engine.compiling import engine_of, joined
from pcgcd.engine.lazy import LazyEngine
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HiddenMarkovModel

if TYPE_CHECKING:
    from pathlib import Path

    from pcgcd.automata import Vocabulary
    from pcgcd.automata.masks.lazy import TokenMasks

Wanted: TypeAlias = "Constraint | FiniteAutomaton | CircuitLike"
"""What can be asked for: a constraint, an automaton over tokens, or a circuit."""


@dataclass(frozen=True, eq=False)
class Target:
    """p_lm(x) f(x), up to its sum: f is what the automaton says, and the guide only guides.

    Attributes:
        allowed: The constraint: an automaton over tokens, padded with EOS (several are joined into
            one), or masks, where no more is needed.
        guide: A circuit that looks ahead; None if there is none.
        length: The number of tokens of a text, if the circuit is of one length.
        check: Asked of texts that have ended; f is zero where it says no. None if the automaton
            says all.
        compile: Makes the automaton of masks.
    """

    allowed: FiniteAutomaton | TokenMasks
    guide: CircuitLike | None = None
    length: int | None = None
    check: Callable[[bytes], bool] | None = None
    compile: Callable[[], FiniteAutomaton] | None = None

    @classmethod
    def of(
        cls,
        wanted: Wanted,
        vocabulary: Vocabulary,
        guide: CircuitLike | None = None,
        *,
        cache: Path | str | None = None,
    ) -> Target:
        """Read what was asked for.

        The automata among the factors of a circuit are the constraint; the rest guides. A circuit
        without an automaton only guides, and then everything is allowed.

        Args:
            wanted: A constraint, an automaton over the tokens, or a circuit.
            vocabulary: The language model's tokens.
            guide: What looks ahead, if ``wanted`` does not say.
            cache: A folder in which token automata are kept, where a guide needs them.
        """
        automata: Sequence[FiniteAutomaton] = ()
        if isinstance(wanted, Constraint):
            if guide is not None or compiles_in_its_own_way(type(wanted)):
                automata = (wanted.compile(vocabulary, cache=cache),)
        elif isinstance(wanted, CircuitLike):
            found, automata = parts_of(wanted)
            if found is not None and guide is not None:
                raise InvalidParameterError(
                    "the circuit has a guide of its own, so that hmm= must be left out; multiply "
                    "them if both are to guide"
                )
            guide = found if guide is None else guide
            _check_guide(found)
        else:
            raise InvalidParameterError(
                "the target must be a Constraint, a FiniteAutomaton or a circuit such as hmm * fa, "
                f"but is {type(wanted).__name__}; see pcgcd.constraints"
            )
        width = vocabulary.logits_size
        for name, size in [
            *(("the constraint's automaton", fa.vocab_size) for fa in automata),
            *([] if guide is None else [(_name(guide), guide.vocab_size)]),
        ]:
            if size != width:
                raise VocabularyMismatchError(
                    f"the language model has {width} tokens, but {name} has {size}; compile the "
                    "constraint with lm.vocabulary, and use an HMM distilled from this model"
                )
        fixed = next((c for c in (wanted, guide) if isinstance(c, Circuit)), None)
        length = None if fixed is None else fixed.num_variables
        if not isinstance(wanted, Constraint):
            return cls(_constraint(automata, vocabulary), guide, length)
        allowed = automata[0] if automata else wanted.masks(vocabulary)
        compiled = partial(wanted.compile, vocabulary, cache=cache)
        return cls(allowed, guide, length, wanted.checker, compiled)

    @property
    def automaton(self) -> FiniteAutomaton:
        """The constraint as a token automaton; masks are lifted when it is first asked for."""
        if isinstance(self.allowed, FiniteAutomaton):
            return self.allowed
        if self.compile is None:
            raise InvalidParameterError(
                "a target of masks needs 'compile', which makes the automaton"
            )
        # Kept by the masks: targets that differ in their guides share it.
        return kept_with(self.allowed, "_lifted", self.compile)

    @property
    def is_weighted(self) -> bool:
        """Whether f takes other values than zero and one."""
        return isinstance(self.allowed, FiniteAutomaton) and self.allowed.is_weighted

    def engine(
        self,
        prompt: Iterable[int] = (),
        *,
        guided: bool = True,
        samples: Sequence[Sequence[int]] = (),
    ) -> PrefixEngine:
        """What answers for prefixes.

        Args:
            prompt: The tokens of the prompt: a guide that copies from prompts is conditioned.
            guided: Whether the guide is asked; masks alone do not need it.
            samples: Continuations of the prompt that HMMs of the guide are adapted to.
        """
        if self.guide is not None and guided:
            return engine_of(given(self.guide, prompt, samples), self.automaton)
        if isinstance(self.allowed, FiniteAutomaton):
            return engine_of(None, self.allowed)
        return LazyEngine(self.allowed, lambda: engine_of(None, self.automaton))


def compiles_in_its_own_way(kind: type[Constraint]) -> bool:
    """Return whether a class of constraints has another automaton than its expression."""
    return kind.compile is not Constraint.compile or kind.automaton is not Constraint.automaton


def _check_guide(guide: CircuitLike | None) -> None:
    """Refuse a guide that has a constraint somewhere inside, where it would not hold."""
    for factor in () if guide is None else guide.factors:
        operands = factor.operands if isinstance(factor, ChainMixture) else ()
        if any(parts_of(operand).automata for operand in operands):
            raise InvalidParameterError(
                "the operands of a sum have different automata, so that none of them constrains "
                "the texts; write (a + b) * fa, or unite the automata with fa.union(other)"
            )


def _name(guide: CircuitLike) -> str:
    return "the HMM" if isinstance(guide, HiddenMarkovModel) else "the guide"


def _constraint(automata: Sequence[FiniteAutomaton], vocabulary: Vocabulary) -> FiniteAutomaton:
    """One padded automaton whose value on a text is f(x)."""
    ready = [padded(fa, vocabulary.eos_ids) for fa in automata]
    hard = [fa for fa in ready if not fa.is_weighted]
    if hard and len(hard) < len(ready):
        # What is weighted must be weighed once, not once for each path of a mere constraint.
        allowed = joined(hard, vocabulary.logits_size)
        hard = [allowed if allowed.is_unambiguous else allowed.determinize()]
        ready = [*hard, *(fa for fa in ready if fa.is_weighted)]
    return joined(ready, vocabulary.logits_size)


def given(
    guide: CircuitLike, prompt: Iterable[int], samples: Sequence[Sequence[int]] = ()
) -> CircuitLike:
    """Condition every HMM in a guide that has learnt to copy on a prompt.

    Args:
        guide: The guide.
        prompt: The tokens of the prompt.
        samples: Continuations of it; every HMM is adapted to them.
    """
    if isinstance(guide, HiddenMarkovModel):
        informed = guide.given(prompt)
        return informed.adapted(samples) if samples else informed
    tokens = tuple(prompt)
    if isinstance(guide, ChainMixture):
        parts = [given(part, tokens, samples) for part in guide.operands]
        return guide if _same(parts, guide.operands) else mixture(parts, guide.weights)
    if isinstance(guide, Chain) and len(guide.factors) > 1:
        factors = [given(factor, tokens, samples) for factor in guide.factors]
        return guide if _same(factors, guide.factors) else reduce(circuit_product, factors)
    return guide


def _same(new: Sequence[CircuitLike], old: Sequence[CircuitLike]) -> bool:
    return all(a is b for a, b in zip(new, old))

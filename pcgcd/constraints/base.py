"""What all constraints have in common: they are values that compose, match and compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.expressions import (
    Embedded,
    Expression,
    concatenation,
    intersection,
    repeat,
    union,
)
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.automata.lifting import lift
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.weights import language_only
from pcgcd.basics.keeping import kept_with
from pcgcd.basics.numbers import check_whole_number
from pcgcd.circuits.tables import table_html
from pcgcd.constraints import checkers
from pcgcd.constraints.checkers import Checker
from pcgcd.constraints.checks import literal_text
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from pcgcd.automata import Vocabulary
    from pcgcd.automata.masks.lazy import TokenMasks

# What is made of a large automaton may have so many times its states.
_GROWTH = 4
_MAX_DESCRIPTION = 400
_SHOWN_STATES = 60


@dataclass(frozen=True)
class Constraint:
    """A set of texts. ``a | b``, ``a & b``, ``a + b`` and ``a.star()`` make others.

    Attributes:
        expression: The set, over UTF-8 bytes.
        description: A short text for people.
        dropped: What is not exactly as asked for: keywords that were left out, if that was allowed,
            bounds that were lowered (keyword, place, from, to), depths, and closed objects.
        state_limit: How many states any automaton on the way to the automaton may have.
        reader: From a text to the value that it stands for, if that is not the text itself.
        checker: What the automaton leaves open is asked of it, once a text has ended.
    """

    expression: Expression
    description: str = "constraint"
    dropped: tuple[str, ...] = ()
    reader: Callable[[str], Any] | None = field(default=None, compare=False, repr=False)
    state_limit: int = STATE_LIMIT
    checker: Checker | None = field(default=None, repr=False)

    @classmethod
    def from_automaton(
        cls, automaton: FiniteAutomaton, description: str = "automaton"
    ) -> Constraint:
        """Make a constraint of the texts that an automaton over the 256 bytes accepts, as UTF-8.

        >>> even = FiniteAutomaton.from_edges(
        ...     num_states=2,
        ...     vocab_size=256,
        ...     initial=0,
        ...     accepting={0},
        ...     edges=[(0, 0, b"02468"), (0, 1, b"13579"), (1, 1, b"02468"), (1, 0, b"13579")],
        ... )
        >>> parity = Constraint.from_automaton(even, "digits with an even sum")
        >>> [(parity + "!").matches(text) for text in ("1340!", "12!")]
        [True, False]

        Args:
            automaton: Over bytes, without weights; it need not be deterministic.
            description: A short text for people.

        Raises:
            InvalidParameterError: The automaton is over tokens, or has weights.
        """
        if not isinstance(automaton, FiniteAutomaton):
            raise InvalidParameterError(
                f"from_automaton needs a FiniteAutomaton, but got {type(automaton).__name__}; "
                "pcgcd.automata.interop reads automata of other libraries"
            )
        if automaton.vocab_size != 256:
            raise InvalidParameterError(
                "from_automaton needs an automaton over the 256 bytes of UTF-8, but this one is "
                f"over {automaton.vocab_size} tokens; an automaton over tokens is a target "
                "already: give it to pcgcd.generate as it is"
            )
        language_only("a constraint", automaton)
        limit = max(STATE_LIMIT, _GROWTH * automaton.num_states)
        return cls(Embedded(automaton), description, state_limit=limit)

    @cached_property
    def automaton(self) -> FiniteAutomaton:
        """The automaton over bytes, built when it is first asked for.

        Raises:
            AutomatonTooLargeError: It, or one on the way to it, has more states than the limit.
        """
        return compile_expression(self.expression, state_limit=self.state_limit)

    def matches(self, text: str | bytes) -> bool:
        """Return whether the automaton accepts the text, byte by byte."""
        return self.automaton.accepts(_bytes_of(text))

    def check(self, text: str | bytes) -> bool:
        """Return whether the text is in the set, including conditions relaxed in the automaton."""
        data = _bytes_of(text)
        return self.matches(data) and (self.checker is None or self.checker(data))

    def parse(self, text: str) -> Any:
        """Parse a text of the set: into a JSON value, an instance of a type, or a function call.

        Where a constraint has no values of its own, that is the text.
        """
        return text if self.reader is None else self.reader(text)

    def compile(
        self, vocabulary: Vocabulary, *, cache: Path | str | None = None
    ) -> FiniteAutomaton:
        """Compile into a token automaton: every way to spell a text of the set, padded with EOS.

        Args:
            vocabulary: The tokens and their bytes.
            cache: A folder in which compiled automata are kept.

        Raises:
            EmptyLanguageError: No text satisfies the constraint, or none that the tokens spell.
        """
        if not self.automaton.is_empty():
            result = lift(self.automaton, vocabulary, cache=cache)
            if not result.is_empty():
                return result
        raise self._no_text(vocabulary)

    def masks(self, vocabulary: Vocabulary) -> TokenMasks:
        """Return the masks of the token automaton, lifted where they are asked for; made once.

        What GCD and LCD read. The first mask comes long before the whole token automaton would.

        Args:
            vocabulary: The tokens and their bytes.

        Raises:
            EmptyLanguageError: No text satisfies the constraint, or none that the tokens spell.
        """
        from pcgcd.automata.masks.lazy import TokenMasks  # compiled when it is first used

        kept: dict[Vocabulary, TokenMasks] = kept_with(self, "_masks", dict)
        if vocabulary not in kept:
            # Where the automaton has been made, it is not made again.
            source = vars(self).get("automaton", self.expression)
            result = TokenMasks(source, vocabulary, state_limit=self.state_limit)
            if not result.start():
                raise self._no_text(vocabulary)
            kept[vocabulary] = result
        return kept[vocabulary]

    def _no_text(self, vocabulary: Vocabulary) -> EmptyLanguageError:
        if self.automaton.is_empty():
            return EmptyLanguageError(f"no text at all satisfies {self.description}")
        return EmptyLanguageError(
            f"no text that satisfies {self.description} can be spelled with the tokens of "
            f"{vocabulary!r}; is it the vocabulary of the language model?"
        )

    # -- composition --------------------------------------------------------------------------

    def __or__(self, other: Constraint | str) -> Constraint:
        """Either of the two; a text of both is parsed by the first."""
        return self._with(other, union, "|", checkers.either, _first_that_matches)

    def __and__(self, other: Constraint | str) -> Constraint:
        """Both at once; parsed by the first that has values of its own."""
        return self._with(other, intersection, "&", checkers.both, _first_with_values)

    def __add__(self, other: Constraint | str) -> Constraint:
        """One after the other; a plain text beside a constraint leaves its values as they are."""
        result = self._with(other, concatenation, "+", checkers.in_turn)
        return replace(result, reader=_after(self, "", other)) if isinstance(other, str) else result

    def __radd__(self, other: str) -> Constraint:
        """A literal text, then this."""
        return replace(_constraint_of(other) + self, reader=_after(self, other, ""))

    def star(self) -> Constraint:
        """Repeat any number of times, also zero."""
        return self.repeat()

    def optional(self) -> Constraint:
        """Make it optional: once, or not at all."""
        return self.repeat(0, 1)

    def repeat(self, least: int = 0, most: int | None = None) -> Constraint:
        """Repeat between ``least`` and ``most`` times."""
        check_whole_number("least", least)
        if most is not None:
            check_whole_number("most", most, least)
        count = f"{{{least},{'' if most is None else most}}}"
        description = _shortened(f"({self.description}){count}")
        expression = repeat(self.expression, least, most)
        checker = checkers.repeated(self.check, least, most) if self.checker else None
        return Constraint(expression, description, self.dropped, None, self.state_limit, checker)

    def _with(
        self,
        other: Constraint | str,
        combine: object,
        sign: str,
        check: Callable[[Checker, Checker], Checker],
        readers: Callable[[Constraint, Constraint], Callable[[str], Any] | None] | None = None,
    ) -> Constraint:
        second = _constraint_of(other) if isinstance(other, str) else other
        if not isinstance(second, Constraint):
            return NotImplemented
        expression = combine(self.expression, second.expression)  # type: ignore[operator]
        description = _shortened(f"({self.description} {sign} {second.description})")
        reader = None if readers is None else readers(self, second)
        limit = max(self.state_limit, second.state_limit)
        checker = check(self.check, second.check) if self.checker or second.checker else None
        dropped = self.dropped + second.dropped
        return Constraint(expression, description, dropped, reader, limit, checker)

    def _repr_html_(self) -> str:
        """The description, and the automaton over bytes where it is small."""
        try:
            picture = compile_expression(self.expression, state_limit=_SHOWN_STATES)._repr_svg_()
            rows = []
        except AutomatonTooLargeError:
            picture = ""
            rows = [("automaton", f"over {_SHOWN_STATES} states: not drawn")]
        if self.dropped:
            rows.append(("deviations", ", ".join(self.dropped)))
        return table_html(repr(self), (), rows, picture)

    def __repr__(self) -> str:
        return f"Constraint({self.description})"


def _bytes_of(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _constraint_of(text: str) -> Constraint:
    return Constraint(literal_text(text, "a text"), repr(text))


def _first_that_matches(a: Constraint, b: Constraint) -> Callable[[str], Any] | None:
    if a.reader is None and b.reader is None:
        return None
    return lambda text: (a if a.matches(text) else b).parse(text)


def _first_with_values(a: Constraint, b: Constraint) -> Callable[[str], Any] | None:
    return a.reader or b.reader


def _after(constraint: Constraint, before: str, behind: str) -> Callable[[str], Any] | None:
    """The reader of a constraint between two plain texts."""
    if constraint.reader is None:
        return None
    return lambda text: constraint.parse(text.removeprefix(before).removesuffix(behind))


def _shortened(description: str) -> str:
    """Composed descriptions could double with each step."""
    if len(description) <= _MAX_DESCRIPTION:
        return description
    half = _MAX_DESCRIPTION // 2
    return f"{description[:half]} ... {description[-half:]}"

"""What a user asks for, made ready for SMC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcgcd.automata import FiniteAutomaton
from pcgcd.decoding.potentials import LookAhead, Potential, PrefixValidity, Terminal
from pcgcd.decoding.proposals import GCD, LCD, PGCD, Proposal, Twisted, Unconstrained
from pcgcd.decoding.smc import Task
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import Prompt

if TYPE_CHECKING:
    from pathlib import Path

    from pcgcd.automata import Vocabulary
    from pcgcd.constraints import Constraint
    from pcgcd.decoding.population import Stop
    from pcgcd.lm import LanguageModel

__all__ = ["METHODS", "Request", "choose_potential", "choose_proposal", "stop_rule"]

METHODS = ("unconstrained", "rejection", "lcd", "gcd", "pgcd", "twisted")


@dataclass(frozen=True, eq=False)
class Request:
    """One thing to generate.

    Attributes:
        constraint: A constraint, or an automaton over the language model's tokens.
        prompt: A text, token ids, or the messages of a chat.
        budget: The largest number of tokens, the one that ends the text included.
    """

    constraint: Constraint | FiniteAutomaton
    prompt: Prompt = ""
    budget: int = 128

    def task(self, lm: LanguageModel, cache: Path | str | None = None) -> Task:
        """The request in tokens.

        Raises:
            EmptyLanguageError: No text fits in the budget.
        """
        if isinstance(self.constraint, FiniteAutomaton):
            automaton = self.constraint
        elif hasattr(self.constraint, "compile"):
            automaton = self.constraint.compile(lm.vocabulary, cache=cache)
        else:
            raise InvalidParameterError(
                "the constraint must be a Constraint or a FiniteAutomaton, but is "
                f"{type(self.constraint).__name__}; see pcgcd.constraints"
            )
        return Task(tuple(lm.encode(self.prompt)), automaton, self.budget)

    def satisfied_by(self, tokens: Sequence[int], vocabulary: Vocabulary) -> bool:
        """Whether the text of the tokens satisfies the constraint, whoever made it."""
        if isinstance(self.constraint, FiniteAutomaton):
            return self.constraint.accepts(tokens)
        return self.constraint.matches(vocabulary.decode(tokens))


def choose_proposal(method: str | Proposal, w: float | None) -> Proposal:
    """The proposal of a method; without a weight of the language model, with its usual one."""
    if not isinstance(method, str):
        return method
    proposals: dict[str, Callable[[], Proposal]] = {
        "unconstrained": Unconstrained,
        "rejection": Unconstrained,
        "lcd": LCD,
        "gcd": GCD,
        "pgcd": lambda: PGCD() if w is None else PGCD(w),
        "twisted": lambda: Twisted() if w is None else Twisted(w),
    }
    if method not in proposals:
        raise InvalidParameterError(
            f"method must be one of {', '.join(METHODS)}, or a proposal, but is {method!r}"
        )
    return proposals[method]()


def choose_potential(
    potential: str | Potential | None, method: str | Proposal, w: float | None = None
) -> Potential:
    """The potential of that name; without one, the potential that goes with the method."""
    if potential is None and method == "twisted":
        return LookAhead(Twisted().w if w is None else w)
    if potential is None:
        usual = {"unconstrained": "terminal", "lcd": "local", "pgcd": "pgcd"}
        potential = usual.get(method, "prefix") if isinstance(method, str) else "prefix"
    if not isinstance(potential, str):
        return potential
    potentials: dict[str, Callable[[], Potential]] = {
        "terminal": Terminal,
        "local": lambda: PrefixValidity(within_budget=False),
        "prefix": PrefixValidity,
        "pgcd": LookAhead,
    }
    if potential not in potentials:
        raise InvalidParameterError(
            f"potential must be one of {', '.join(potentials)}, or an object with log_twist, but "
            f"is {potential!r}"
        )
    return potentials[potential]()


def stop_rule(
    stop: str | Sequence[str] | Callable[[bytes], bool] | None, vocabulary: Vocabulary
) -> Stop | None:
    """A rule over texts as a rule over tokens."""
    if stop is None:
        return None
    if callable(stop):
        rule = stop
        return lambda tokens: bool(rule(vocabulary.decode(tokens)))
    marks = [mark.encode() for mark in ([stop] if isinstance(stop, str) else stop)]
    if not all(marks):
        raise InvalidParameterError("a stop text must not be empty")

    def contains(tokens: tuple[int, ...]) -> bool:
        text = vocabulary.decode(tokens)
        return any(mark in text for mark in marks)

    return contains

"""What compiles to states of prefixes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pcgcd.automata import FiniteAutomaton

if TYPE_CHECKING:
    from pcgcd.engine.state import PrefixState


class PrefixEngine(ABC):
    """A compiled circuit. Made by :func:`pcgcd.engine.compile_circuit`, which chooses the kind.

    Attributes:
        is_fast: Whether it answers faster than the general queries of circuits.
    """

    is_fast: ClassVar[bool] = False

    @abstractmethod
    def check(self, budget: int) -> None:
        """Refuse a budget in which nothing can be accepted.

        Raises:
            EmptyLanguageError: It names the smallest budget that works.
        """

    def start(self, budgets: Sequence[int | None]) -> PrefixState:
        """Return the state before the first token, one row for each budget (tokens that may come).

        A row without a budget (None) may take any number of tokens, and cannot look ahead.

        Raises:
            EmptyLanguageError: Nothing is accepted in so many tokens; names how many would do.
        """
        from pcgcd.engine.batches import start_batch

        return start_batch([(self, budget) for budget in budgets])


@lru_cache(maxsize=8)
def everything(vocab_size: int) -> FiniteAutomaton:
    """Return the automaton of all texts: one state that takes every token."""
    return FiniteAutomaton.from_edges(
        num_states=1,
        vocab_size=vocab_size,
        initial=0,
        accepting={0},
        edges=[(0, 0, range(vocab_size))],
    )

"""The engine of a constraint without a guide: masks of a byte automaton, lifted where it is read.

GCD and LCD ask for masks only. They need neither the whole token automaton nor the tables of a
product; what asks for more (the mass of what may come, path by path) gets it from the engine of
the token automaton, which is then made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from pcgcd.basics.numbers import check_whole_number
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.prefix_engine import PrefixEngine
from pcgcd.engine.state import PrefixState
from pcgcd.engine.tracks import LazyTrack, too_short
from pcgcd.errors import EmptyLanguageError

if TYPE_CHECKING:
    from pcgcd.automata.masks.lazy import TokenMasks


class LazyEngine(PrefixEngine):
    """What answers for prefixes of a constraint, whose automaton is lifted state by state."""

    def __init__(self, masks: TokenMasks, whole: Callable[[], PrefixEngine]) -> None:
        """Hold the masks; nothing is computed yet.

        Args:
            masks: The constraint.
            whole: Makes the engine of its token automaton, for what masks do not say.
        """
        self.masks, self._make_whole = masks, whole

    @cached_property
    def whole(self) -> PrefixEngine:
        """The engine of the token automaton."""
        return self._make_whole()

    def check(self, budget: int) -> None:
        check_whole_number("the budget", budget)
        start = self.masks.start()
        if not start:
            raise EmptyLanguageError("the constraint accepts no sequence of tokens", length=budget)
        if not self.masks.can_end(start, int(budget)):
            raise too_short(budget, self.masks.shortest_length())

    def __repr__(self) -> str:
        return f"LazyEngine({self.masks.num_states} states, {self.masks.vocab_size} tokens)"


@dataclass(frozen=True, eq=False)
class _Row:
    """One prefix. Rows do not change, so equal prefixes share one and are computed once."""

    engine: LazyEngine
    track: LazyTrack
    tokens: tuple[int, ...]


class LazyState(PrefixState):
    """k prefixes, also of different constraints, of one length."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        """Hold the rows; repeated ones cost nothing."""
        self._rows = tuple(rows)

    @cached_property
    def tracks(self) -> tuple[LazyTrack, ...]:
        return tuple(row.track for row in self._rows)

    @cached_property
    def _whole(self) -> PrefixState:
        """The same prefixes in the engines of the token automata."""
        from pcgcd.engine.batches import start_batch

        rows = self._rows
        budgets = [row.track.remaining + len(row.tokens) for row in rows]
        state = start_batch([(row.engine.whole, n) for row, n in zip(rows, budgets)])
        for column in zip(*(row.tokens for row in rows), strict=True):
            state = state.advance(column)
        return state

    @property
    def log_prefix(self) -> Tensor:
        return self._whole.log_prefix

    @property
    def log_mass(self) -> Tensor:
        return self._whole.log_mass

    def _unknown_log_lookahead(self) -> Tensor:
        return self._whole._unknown_log_lookahead()

    def _scored(self, *, exactly: bool) -> Candidates:
        return self._whole._scored(exactly=exactly)

    def guide_log_probs(self, columns: Tensor | None) -> Tensor:
        return self._whole.guide_log_probs(columns)

    def _advanced(self, tokens: list[int]) -> LazyState:
        made: dict[tuple[_Row, int], _Row] = {}
        for row, token in zip(self._rows, tokens):
            if (row, token) not in made:
                after = _Row(row.engine, row.track.advance(token), (*row.tokens, token))
                made[row, token] = after
        return LazyState([made[key] for key in zip(self._rows, tokens)])

    def _selected(self, rows: list[int]) -> LazyState:
        return LazyState([self._rows[row] for row in rows])


def start_lazily(items: Sequence[tuple[LazyEngine, int]]) -> LazyState:
    """Return one row for each engine and budget; equal ones share a row."""
    made: dict[tuple[LazyEngine, int], _Row] = {}
    for engine, budget in items:
        if (engine, budget) not in made:
            track = LazyTrack(engine.masks, engine.masks.start(), budget)
            made[engine, budget] = _Row(engine, track, ())
    return LazyState([made[item] for item in items])

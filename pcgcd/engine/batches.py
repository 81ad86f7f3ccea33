"""Several circuits in one batch: each kind of state answers for its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from pcgcd.engine.candidates import Candidates
from pcgcd.engine.chain_engine import ChainEngine
from pcgcd.engine.chain_state import start_chains
from pcgcd.engine.layered import LayeredEngine
from pcgcd.engine.lazy import LazyEngine, start_lazily
from pcgcd.engine.prefix_engine import PrefixEngine
from pcgcd.engine.state import PrefixState
from pcgcd.engine.tracks import UNLIMITED, Track
from pcgcd.errors import VocabularyMismatchError


def start_batch(items: Sequence[tuple[PrefixEngine, int | None]]) -> PrefixState:
    """Several circuits and budgets in one batch, one row for each (engine, budget).

    A row without a budget (None) may take any number of tokens, and cannot look ahead.

    Raises:
        EmptyLanguageError: A budget is too small; names one that is not.
    """
    rows = [(engine, UNLIMITED if budget is None else budget) for engine, budget in items]
    for engine, budget in dict.fromkeys(rows):
        engine.check(budget)
    chains: list[tuple[ChainEngine, int]] = []
    lazy: list[tuple[LazyEngine, int]] = []
    places: tuple[list[int], list[int]] = ([], [])
    for i, (engine, budget) in enumerate(rows):
        if isinstance(engine, ChainEngine):
            chains.append((engine, int(budget)))
            places[0].append(i)
        elif isinstance(engine, LazyEngine):
            lazy.append((engine, int(budget)))
            places[1].append(i)
    layered: dict[tuple[LayeredEngine, int], list[int]] = {}
    for i, (engine, budget) in enumerate(rows):
        if isinstance(engine, LayeredEngine):
            layered.setdefault((engine, int(budget)), []).append(i)
    parts: list[tuple[PrefixState, list[int]]] = []
    if chains or not rows:
        parts.append((start_chains(chains), places[0]))
    if lazy:
        parts.append((start_lazily(lazy), places[1]))
    for (engine, budget), members in layered.items():
        parts.append((engine.start_rows(budget, len(members)), members))
    sizes = {state.vocab_size for state, members in parts if members}
    if len(sizes) > 1:
        raise VocabularyMismatchError(
            f"the circuits of a batch must share a vocabulary, but have {sorted(sizes)} tokens"
        )
    return _joined(parts)


def _joined(parts: Sequence[tuple[PrefixState, list[int]]]) -> PrefixState:
    used = [(state, members) for state, members in parts if members]
    if len(used) <= 1:
        state, members = used[0] if used else parts[0]
        order = sorted(range(len(members)), key=members.__getitem__)
        return state.select(order)
    return _MixedState([state for state, _ in used], [members for _, members in used])


class _MixedState(PrefixState):
    """Rows of several states, in any order."""

    def __init__(self, parts: Sequence[PrefixState], members: Sequence[Sequence[int]]) -> None:
        """Give each part the rows that its own rows become."""
        self._parts, self._members = tuple(parts), tuple(tuple(rows) for rows in members)

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The part of each row, and its row there."""
        found = {
            row: (part, place)
            for part, rows in enumerate(self._members)
            for place, row in enumerate(rows)
        }
        return [found[row] for row in range(len(found))]

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        return tuple(self._parts[part].tracks[row] for part, row in self._places)

    @property
    def log_prefix(self) -> Tensor:
        return self._gathered(lambda state: state.log_prefix)

    @property
    def log_mass(self) -> Tensor:
        return self._gathered(lambda state: state.log_mass)

    def log_lookahead(self) -> Tensor:
        return self._gathered(lambda state: state.log_lookahead())

    def _unknown_log_lookahead(self) -> Tensor:
        return self._gathered(lambda state: state._unknown_log_lookahead())

    def _scored(self, *, exactly: bool) -> Candidates:
        parts = [state._scored(exactly=exactly) for state in self._parts]
        return Candidates.merged(parts, self._members, self.vocab_size)

    def guide_log_probs(self, columns: Tensor | None) -> Tensor:
        parts = [
            state.guide_log_probs(None if columns is None else columns[list(rows)])
            for state, rows in zip(self._parts, self._members)
        ]
        result = parts[0].new_empty(self.num_rows, parts[0].shape[1])
        for part, rows in zip(parts, self._members):
            result[list(rows)] = part.to(result)
        return result

    def _advanced(self, tokens: list[int]) -> PrefixState:
        parts = [
            state.advance([tokens[row] for row in rows])
            for state, rows in zip(self._parts, self._members)
        ]
        return _MixedState(parts, self._members)

    def _selected(self, rows: list[int]) -> PrefixState:
        chosen: list[tuple[PrefixState, list[int]]] = []
        for part, state in enumerate(self._parts):
            places = [
                (i, self._places[row][1])
                for i, row in enumerate(rows)
                if self._places[row][0] == part
            ]
            chosen.append((state.select([row for _, row in places]), [i for i, _ in places]))
        return _joined(chosen)

    def _gathered(self, read: Callable[[PrefixState], Tensor]) -> Tensor:
        result = torch.empty(self.num_rows, dtype=torch.float64)
        for state, rows in zip(self._parts, self._members):
            result[list(rows)] = read(state).to(result)
        return result

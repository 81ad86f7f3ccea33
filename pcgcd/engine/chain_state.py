"""Prefixes in a chain, one row each: the guide's filter, and the place in the automaton."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backward import BackwardMessages
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.chain_engine import ChainEngine
from pcgcd.engine.cones import Users
from pcgcd.engine.filtering import observe
from pcgcd.engine.guide import GuideTables
from pcgcd.engine.scoring import next_tokens
from pcgcd.engine.state import LOG_SMALLEST, PrefixState
from pcgcd.engine.tracks import GraphTrack

# Which rows ask messages, and from which place of the automaton.
_Waiting = Mapping[BackwardMessages, list[tuple[int, GraphTrack]]]


@dataclass(frozen=True, eq=False)
class Row:
    """One prefix. Rows do not change, so equal prefixes share one and are computed once.

    Attributes:
        engine: Its guide and automaton.
        track: Where it stands in the automaton.
        filter: p(z_t | x_{1:t}), (H,); None before the first token. Zeros if g(x_{1:t}) = 0.
        log_forward: The log of the mass of the guide's paths along x_{1:t}.
        log_unknown: The look-ahead before the guide deemed the prefix impossible.
        budget: The number of tokens of the whole text.
        ticket: Says that the engine is used.
    """

    engine: ChainEngine
    track: GraphTrack
    filter: Tensor | None
    log_forward: float
    log_unknown: float
    budget: int
    ticket: Users.Ticket


class ChainState(PrefixState):
    """k prefixes, also of different chains; made by :meth:`ChainEngine.start`."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold the rows; repeated ones cost nothing."""
        self._rows = tuple(rows)

    @classmethod
    def concatenated(cls, states: Sequence[ChainState]) -> ChainState:
        """Return the rows of several states, one after the other; they may differ in length."""
        return cls([row for state in states for row in state._rows])

    @cached_property
    def tracks(self) -> tuple[GraphTrack, ...]:
        return tuple(row.track for row in self._rows)

    @cached_property
    def log_prefix(self) -> Tensor:
        return self._of_distinct(_log_prefixes(self._distinct[0]))

    @cached_property
    def log_mass(self) -> Tensor:
        return self._of_distinct(_log_masses(self._distinct[0]))

    def _unknown_log_lookahead(self) -> Tensor:
        return self._of_distinct([row.log_unknown for row in self._distinct[0]])

    def _scored(self, *, exactly: bool) -> Candidates:
        rows, number = self._distinct
        budgets: dict[ChainEngine, int] = {}
        for row in rows:
            budgets[row.engine] = max(row.budget, budgets.get(row.engine, 0))
        for engine, budget in budgets.items():
            engine.messages.extend(budget)
        found = next_tokens(rows, self._predicted, exactly=exactly)
        return found if len(rows) == len(self._rows) else found.rows(number)

    def guide_log_probs(self, columns: Tensor | None) -> Tensor:
        rows, number = self._distinct
        parts: dict[int, Tensor] = {}
        for guide, members in self._guides:
            asked, place = None, None
            if columns is not None:
                asked, place = columns[[number.index(i) for i in members]].unique(
                    return_inverse=True
                )
            emission = guide.rows if asked is None else guide.rows[asked.to(guide.device)]
            weights = torch.stack([self._predicted[i] for i in members]).double()
            if not guide.is_normalised:
                weights = weights * torch.stack([_free_level(rows[i]) for i in members])
            total = (weights @ guide.totals).unsqueeze(1)
            weights = (weights / total.where(total > 0, 1)).to(guide.dtype)
            with torch.no_grad():
                found = weights @ emission.to(weights.dtype).mT
            if place is not None:
                found = found.gather(1, place.to(found.device))
            parts |= dict(zip(members, found))
        return torch.stack([parts[i] for i in number]).log()

    def advance(self, tokens: Sequence[int] | Tensor) -> ChainState:
        return cast(ChainState, super().advance(tokens))

    def select(self, rows: Sequence[int] | Tensor) -> ChainState:
        return cast(ChainState, super().select(rows))

    def _advanced(self, tokens: list[int]) -> ChainState:
        old, number = self._distinct
        made: dict[tuple[int, int], int] = {}
        places = [made.setdefault(key, len(made)) for key in zip(number, tokens)]
        pairs = list(made)
        filters, log_steps = self._filters(pairs)
        rows = [
            _advanced(old[i], token, filters[at], log_steps[at])
            for at, (i, token) in enumerate(pairs)
        ]
        return ChainState([rows[place] for place in places])

    def _selected(self, rows: list[int]) -> ChainState:
        return ChainState([self._rows[row] for row in rows])

    # -- what rows share ----------------------------------------------------------------------

    @cached_property
    def _distinct(self) -> tuple[list[Row], list[int]]:
        """The different rows, and the number of each row among them."""
        made: dict[Row, int] = {}
        number = [made.setdefault(row, len(made)) for row in self._rows]
        return list(made), number

    @cached_property
    def _guides(self) -> list[tuple[GuideTables, list[int]]]:
        """The guides, and the distinct rows of each."""
        members: dict[GuideTables, list[int]] = {}
        for i, row in enumerate(self._distinct[0]):
            members.setdefault(row.engine.guide, []).append(i)
        return list(members.items())

    @cached_property
    def _predicted(self) -> list[Tensor]:
        """p(z_{t+1} | x_{1:t}) of each distinct row, (H,)."""
        rows = self._distinct[0]
        result: list[Tensor] = [torch.empty(0)] * len(rows)
        for guide, members in self._guides:
            filters = {i: given for i in members if (given := rows[i].filter) is not None}
            if filters:
                moved = guide.forward(torch.stack(list(filters.values())))
                for i, vector in zip(filters, moved):
                    result[i] = vector
            for i in members:
                if i not in filters:
                    result[i] = guide.initial
        return result

    def _filters(
        self, pairs: Sequence[tuple[int, int]]
    ) -> tuple[dict[int, Tensor], dict[int, float]]:
        """The filter of each (distinct row, token), and the log of the token's mass, by place."""
        filters: dict[int, Tensor] = {}
        log_steps: dict[int, float] = {}
        for guide, members in self._guides:
            inside = set(members)
            chosen = [at for at, (i, _) in enumerate(pairs) if i in inside]
            if guide.is_counting:
                filters |= dict.fromkeys(chosen, guide.initial)
                log_steps |= dict.fromkeys(chosen, 0.0)
                continue
            tokens = torch.tensor([pairs[at][1] for at in chosen], device=guide.device)
            before = torch.stack([self._predicted[pairs[at][0]] for at in chosen])
            after, log_mass = observe(before, guide.rows[tokens])
            filters |= dict(zip(chosen, after.to(guide.dtype)))
            log_steps |= dict(zip(chosen, log_mass.tolist()))
        return filters, log_steps

    def _of_distinct(self, values: list[float]) -> Tensor:
        return self._vector([values[i] for i in self._distinct[1]])


def start_chains(items: Sequence[tuple[ChainEngine, int]]) -> ChainState:
    """One row for each engine and budget; equal ones share a row."""
    made: dict[tuple[int, int], Row] = {}
    for engine, budget in items:
        key = (id(engine), budget)
        if key not in made:
            track = GraphTrack.start(engine.graph, budget)
            made[key] = Row(engine, track, None, 0.0, 0.0, budget, engine.users.ticket())
    return ChainState([made[id(engine), budget] for engine, budget in items])


def _advanced(row: Row, token: int, vector: Tensor, log_step: float) -> Row:
    log_unknown = row.log_unknown
    if log_step == -math.inf and row.log_forward > -math.inf and row.track.is_alive:
        # The guide knows nothing of what follows: what it said of the prefix so far stays.
        log_unknown = max(_log_masses([row])[0] - _log_prefixes([row])[0], LOG_SMALLEST)
    return Row(
        row.engine,
        row.track.advance(token),
        vector,
        row.log_forward + log_step,
        log_unknown,
        row.budget,
        row.ticket,
    )


def _log_prefixes(rows: Sequence[Row]) -> list[float]:
    """See ``log_prefix`` of :class:`PrefixState`."""
    found = [-math.inf] * len(rows)
    waiting: dict[BackwardMessages, list[tuple[int, GraphTrack]]] = {}
    for i, row in enumerate(rows):
        guide = row.engine.guide
        if row.log_forward == -math.inf:
            continue
        if guide.is_normalised:
            found[i] = row.log_forward if row.filter is not None else guide.log_initial
            continue
        free = row.engine.free_messages
        free.extend(row.budget)
        if row.filter is None:
            found[i] = free.log_mass(row.budget)
        else:
            track = GraphTrack.start(free.graph, row.track.remaining)
            waiting.setdefault(free, []).append((i, track))
    return _with_rests(rows, found, waiting)


def _log_masses(rows: Sequence[Row]) -> list[float]:
    """See ``log_mass`` of :class:`PrefixState`."""
    found = [-math.inf] * len(rows)
    waiting: dict[BackwardMessages, list[tuple[int, GraphTrack]]] = {}
    for i, row in enumerate(rows):
        if row.log_forward == -math.inf or not row.track.is_alive:
            continue
        if row.filter is None:
            found[i] = row.engine.log_mass(row.budget)
        else:
            row.engine.messages.extend(row.budget)
            waiting.setdefault(row.engine.messages, []).append((i, row.track))
    return _with_rests(rows, found, waiting)


def _with_rests(rows: Sequence[Row], found: list[float], waiting: _Waiting) -> list[float]:
    """Fill in what the messages say of some rows, those of one chain together."""
    for messages, members in waiting.items():
        filters = [vector for i, _ in members if (vector := rows[i].filter) is not None]
        rests = messages.log_rests([track for _, track in members], filters)
        for (i, _), rest in zip(members, rests, strict=True):
            found[i] = rows[i].log_forward + rest
    return found


def _free_level(row: Row) -> Tensor:
    """What the guide may go on with after the next token, (H,) float64, up to a factor."""
    free, r = row.engine.free_messages, max(row.track.remaining - 1, 0)
    free.extend(row.budget)
    free.ask({r: np.zeros(1, dtype=np.int64)})
    return free.level(r).rows[0].double()

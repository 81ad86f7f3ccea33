"""Backward messages: the mass of all ways to finish, for each number of tokens that remain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.cones import ConeLevels, Users
from pcgcd.engine.recursion import Level, Recursion
from pcgcd.engine.tracks import UNLIMITED, GraphTrack
from pcgcd.errors import InvalidParameterError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# More tokens than any text that is looked ahead in.
_HORIZON = UNLIMITED >> 1


class BackwardMessages:
    """The levels of one guide and one automaton, made as far as they are needed.

    They depend on the number of remaining tokens only, so all prompts and budgets share them. Level
    r has a row for each state that accepts in exactly r steps and that a prefix of at most
    ``budget - r`` tokens can reach. Where all of these rows would take more than the limit of
    memory, only what prefixes ask for is computed, and some of it is kept; see
    :mod:`pcgcd.engine.cones`.
    """

    def __init__(self, recursion: Recursion, users: Users, memory_limit: int) -> None:
        self.graph, self._guide = recursion.graph, recursion.guide
        self._recursion, self._users, self._memory_limit = recursion, users, memory_limit
        self._levels: dict[int, Level] = {}
        self._cones: ConeLevels | None = None
        self.budget = 0

    def _is_certain(self, budget: int) -> bool:
        """Whether whatever follows has the mass one (or goes on for ever, and is not summed)."""
        if not self.graph.accepts_everything:
            return False
        return budget > _HORIZON or self._guide.is_normalised

    @cached_property
    def _certain(self) -> Level:
        ones = torch.ones(1, self._guide.num_hidden, device=self._guide.device)
        return Level(ones.to(self._recursion.dtype), np.zeros(1))

    @property
    def is_complete(self) -> bool:
        """Whether every level is kept."""
        return self._cones is None

    @property
    def nbytes(self) -> int:
        """The memory of the levels that are kept."""
        if self._cones is not None:
            return self._cones.nbytes
        return sum(level.nbytes for level in self._levels.values())

    def extend(self, budget: int) -> None:
        """Make the levels 0..budget-1 for texts of up to ``budget`` tokens, if there is room."""
        if budget <= self.budget or self._is_certain(budget):
            return
        if budget > _HORIZON:
            raise InvalidParameterError("looking ahead needs a budget, but there is none")
        self.budget = budget
        if self._cones is not None:
            return
        counts = [self.graph.alive(r).count(budget - r) for r in range(budget)]
        if sum(counts) * self._recursion.row_bytes > self._memory_limit:
            self._cones = ConeLevels(self._recursion, self._memory_limit, self._levels, self._users)
            return
        for r, count in enumerate(counts):
            self._levels[r] = self._extended(self._levels.get(r), r, count)

    def ask(self, wanted: Mapping[int, Indices]) -> None:
        """Make sure that the levels of some numbers of remaining tokens have some slots."""
        if self._cones is not None:
            self._cones.ask(wanted)

    def level(self, r: int) -> Level:
        """Return the messages for r more tokens, with the slots that were asked for last."""
        if self._is_certain(r):
            return self._certain
        return self._levels[r] if self._cones is None else self._cones[r]

    def prepare(self, budget: int) -> None:
        """Make what the first token of a text of so many tokens needs."""
        self.extend(budget)
        if budget > 0 and not self._is_certain(budget):
            self.ask({budget - 1: self._first_edges(budget)[1]})

    def log_mass(self, budget: int) -> float:
        """The logarithm of the mass of all texts of so many tokens, each counted by its paths."""
        graph = self.graph
        if not graph.is_alive(graph.initial, budget):
            return -math.inf
        if budget == 0:
            return math.log(int(graph.accepting[graph.initial].sum()))
        self.prepare(budget)
        edges, slots = self._first_edges(budget)
        level = self.level(budget - 1)
        sums, log_sums = self._recursion.labels
        label, target = graph.label[edges], level.find(slots)
        terms = sums[label].double() * level.rows[target].double()
        dots = (terms @ self._guide.initial.double()).cpu().numpy()
        with np.errstate(divide="ignore"):
            logs = np.log(dots) + log_sums[label] + level.log_scale[target]
        return float(np.logaddexp.reduce(logs + graph.log_weights(edges)))

    def _first_edges(self, budget: int) -> tuple[Indices, Indices]:
        """The edges of the first token of texts of so many tokens, and the slots they lead to."""
        slot, edges = self.graph.alive(budget - 1).slot, self.graph.edges_of(self.graph.initial)
        slots = slot[self.graph.target[edges]]
        return edges[slots >= 0], slots[slots >= 0]

    def log_rests(self, tracks: Sequence[GraphTrack], filters: Sequence[Tensor]) -> list[float]:
        """The logarithm of the mass of all ways to finish each prefix, given its last hidden unit.

        A device is waited for once, whatever the number of prefixes.

        Args:
            tracks: Where the prefixes stand in the automaton.
            filters: The weights of their last hidden units, (H,) each.
        """
        slots = [self.graph.alive(track.remaining).slot[track.live.states] for track in tracks]
        self.ask(joined((track.remaining, slot[slot >= 0]) for track, slot in zip(tracks, slots)))
        logs: list[Logs] = []
        dots: list[Tensor] = []
        for track, slot, weights in zip(tracks, slots, filters, strict=True):
            kept = np.flatnonzero(slot >= 0)
            level = self.level(track.remaining)
            rows = level.find(slot[kept])
            dots.append(level.rows[rows].double() @ weights.double())
            logs.append(level.log_scale[rows] + track.log_counts[kept])
        ends = np.cumsum([len(part) for part in logs])[:-1]
        with np.errstate(divide="ignore"):
            found = np.split(np.log(torch.cat(dots).cpu().numpy()), ends) if dots else []
        return [
            float(np.logaddexp.reduce(part + log)) for part, log in zip(found, logs, strict=True)
        ]

    def _extended(self, level: Level | None, r: int, count: int) -> Level:
        """The level with the first slots up to a number, from the level below."""
        done = 0 if level is None else len(level.rows)
        if level is not None and done >= count:
            return level
        below = self._levels[r - 1] if r else None
        rows, log_scale = self._recursion.rows(r, np.arange(done, count), below)
        if level is None:
            return Level(rows, log_scale)
        return Level(torch.cat([level.rows, rows]), np.concatenate([level.log_scale, log_scale]))


def joined(wanted: Iterable[tuple[int, Indices]]) -> dict[int, Indices]:
    """Return the slots of each level, from pairs of levels and slots."""
    parts: dict[int, list[Indices]] = {}
    for r, slots in wanted:
        parts.setdefault(r, []).append(slots)
    return {r: np.concatenate(each) for r, each in parts.items()}

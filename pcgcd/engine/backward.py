"""Backward messages: the mass of all ways to finish, for each number of tokens that remain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends import Backend, EdgeSums, Tiles
from pcgcd.engine.graph import Graph
from pcgcd.engine.guide import GuideTables
from pcgcd.engine.tracks import UNLIMITED, GraphTrack
from pcgcd.errors import InvalidParameterError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_CLASSES_AT_A_TIME = 4096
# More tokens than any text that is looked ahead in.
_HORIZON = UNLIMITED >> 1


class Level(NamedTuple):
    """Messages w_r[s] of one r: the mass of the completions of exactly r tokens from state s, given
    the hidden state of the token before.

    Attributes:
        rows: One for each of the first states that accept in r steps (see
            :class:`pcgcd.engine.graph.Alive`), (m, H), scaled so that the largest entry is 1.
        log_scale: Their logarithmic scales, (m,); -inf for a row of zeros.
    """  # noqa: D205

    rows: Tensor
    log_scale: Logs


def scaled(rows: Tensor) -> tuple[Tensor, Logs]:
    """Rows divided by their largest entries, and the logarithms of these."""
    if not len(rows):
        return rows, np.zeros(0)
    largest = rows.amax(1)
    divisor = torch.where(largest > 0, largest, 1)
    with np.errstate(divide="ignore"):
        log_scale = np.log(largest.double().cpu().numpy())
    return rows / divisor.unsqueeze(1), log_scale


def edge_weights(log_weights: Logs, first: Indices) -> tuple[Logs, Logs]:
    """Weights of the edges of groups relative to the largest of each group, and that one's log."""
    largest = np.maximum.reduceat(log_weights, first[:-1]) if len(first) > 1 else np.zeros(0)
    reference = np.where(np.isfinite(largest), largest, 0.0)
    relative = np.exp(log_weights - np.repeat(reference, np.diff(first)))
    return relative, largest


def label_sums(
    guide: GuideTables, graph: Graph, tiles: Tiles, backend: Backend
) -> tuple[Tensor, Logs]:
    """Return the emission summed over the tokens of each label, rows scaled, (L, H).

    One pass over the emission gives the sums over classes; labels are unions of classes. All sums
    are of float64.
    """
    num_classes = graph.num_classes
    member = torch.as_tensor(graph.label_class.astype(np.float64), device=guide.device)
    result = torch.zeros(len(member), guide.num_hidden, dtype=torch.float64, device=guide.device)
    for low in range(0, num_classes, _CLASSES_AT_A_TIME):
        high = min(num_classes, low + _CLASSES_AT_A_TIME)
        result += member[:, low:high] @ backend.class_sums(guide.rows, tiles, low, high)
    rows, log_scale = scaled(result)
    return rows.to(guide.dtype), log_scale


class BackwardMessages:
    """The levels of one guide and one automaton, made as far as they are needed.

    They depend on the number of remaining tokens only, so all prompts and budgets share them. Level
    r has a row for each state that accepts in exactly r steps and that a prefix of at most
    ``budget - r`` tokens can reach. Where all levels would take more than the limit of memory,
    only every sqrt(n)-th is kept, and the block of levels that was asked for last.
    """

    def __init__(
        self,
        guide: GuideTables,
        graph: Graph,
        tiles: Tiles,
        backend: Backend,
        memory_limit: int,
        dtype: torch.dtype,
    ) -> None:
        self.graph, self._guide, self._tiles, self._backend = graph, guide, tiles, backend
        self._memory_limit, self._dtype = memory_limit, dtype
        self._labels: tuple[Tensor, Logs] | None = None
        self._levels: dict[int, Level] = {}
        self._block: dict[int, Level] = {}
        self._stride = 1
        self.budget = 0

    @property
    def labels(self) -> tuple[Tensor, Logs]:
        """See :func:`label_sums`."""
        if self._labels is None:
            self._labels = label_sums(self._guide, self.graph, self._tiles, self._backend)
        return self._labels

    def _is_certain(self, budget: int) -> bool:
        """Whether whatever follows has the mass one (or goes on for ever, and is not summed)."""
        if not self.graph.accepts_everything:
            return False
        return budget > _HORIZON or self._guide.is_normalised

    @cached_property
    def _certain(self) -> Level:
        ones = torch.ones(1, self._guide.num_hidden, device=self._guide.device)
        return Level(ones.to(self._dtype), np.zeros(1))

    @property
    def is_complete(self) -> bool:
        """Whether every level is kept."""
        return self._stride == 1

    @property
    def nbytes(self) -> int:
        """The memory of the levels that are kept."""
        kept = {**self._block, **self._levels}
        return sum(level.rows.nbytes + level.log_scale.nbytes for level in kept.values())

    def extend(self, budget: int) -> None:
        """Make the levels 0..budget-1 for texts of up to ``budget`` tokens."""
        if budget <= self.budget or self._is_certain(budget):
            return
        if budget > _HORIZON:
            raise InvalidParameterError("looking ahead needs a budget, but there is none")
        size = self._guide.num_hidden * torch.empty(0, dtype=self._dtype).element_size()
        counts = [self.graph.alive(r).count(budget - r) for r in range(budget)]
        stride = 1
        if sum(counts) * size > self._memory_limit:
            stride = math.ceil(math.sqrt(budget))
        if stride > 1 or self._stride > 1:
            self._levels.clear()
            self._block.clear()
        self._stride, self.budget = stride, budget
        level: Level | None = None
        for r in range(budget):
            level = self._extended(self._levels.get(r), r, counts[r], level)
            if r % stride == 0:
                self._levels[r] = level

    def level(self, r: int) -> Level:
        """Return the messages for r more tokens."""
        if self._is_certain(r):
            return self._certain
        found = self._levels.get(r) or self._block.get(r)
        if found is not None:
            return found
        low = r - r % self._stride
        level = self._levels[low]
        self._block.clear()
        for step in range(low + 1, min(low + self._stride, self.budget)):
            count = self.graph.alive(step).count(self.budget - step)
            level = self._block[step] = self._extended(None, step, count, level)
        return self._block[r]

    def log_mass(self, budget: int) -> float:
        """The logarithm of the mass of all texts of so many tokens, each counted by its paths."""
        graph = self.graph
        if not graph.is_alive(graph.initial, budget):
            return -math.inf
        if budget == 0:
            return math.log(int(graph.accepting[graph.initial].sum()))
        self.extend(budget)
        level, slot = self.level(budget - 1), graph.alive(budget - 1).slot
        edges = graph.edges_of(graph.initial)
        edges = edges[slot[graph.target[edges]] >= 0]
        sums, log_sums = self.labels
        label, target = graph.label[edges], slot[graph.target[edges]]
        terms = sums[label].double() * level.rows[target].double()
        dots = (terms @ self._guide.initial.double()).cpu().numpy()
        with np.errstate(divide="ignore"):
            logs = np.log(dots) + log_sums[label] + level.log_scale[target]
        return float(np.logaddexp.reduce(logs + graph.log_weights(edges)))

    def log_rests(self, tracks: Sequence[GraphTrack], filters: Sequence[Tensor]) -> list[float]:
        """The logarithm of the mass of all ways to finish each prefix, given its last hidden unit.

        A device is waited for once, whatever the number of prefixes.

        Args:
            tracks: Where the prefixes stand in the automaton.
            filters: The weights of their last hidden units, (H,) each.
        """
        logs: list[Logs] = []
        dots: list[Tensor] = []
        for track, weights in zip(tracks, filters, strict=True):
            slot = self.graph.alive(track.remaining).slot[track.live.states]
            kept = np.flatnonzero(slot >= 0)
            level = self.level(track.remaining)
            dots.append(level.rows[slot[kept]].double() @ weights.double())
            logs.append(level.log_scale[slot[kept]] + track.log_counts[kept])
        ends = np.cumsum([len(part) for part in logs])[:-1]
        with np.errstate(divide="ignore"):
            found = np.split(np.log(torch.cat(dots).cpu().numpy()), ends) if dots else []
        return [
            float(np.logaddexp.reduce(part + log)) for part, log in zip(found, logs, strict=True)
        ]

    def _extended(self, level: Level | None, r: int, count: int, below: Level | None) -> Level:
        """The level with rows for more states, from the level below."""
        done = 0 if level is None else len(level.rows)
        if level is not None and done >= count:
            return level
        if r == 0 or below is None:
            rows, log_scale = scaled(self._guide.ending.expand(count, -1))
            return Level(rows.to(self._dtype), log_scale)
        new = self._step(r, done, count, below)
        if level is None:
            return new
        return Level(
            torch.cat([level.rows, new.rows]), np.concatenate([level.log_scale, new.log_scale])
        )

    def _step(self, r: int, low: int, high: int, below: Level) -> Level:
        """w_r[s] = A_h u_r[s], u_r[s] = sum over edges e: s -> s' of f_e L[label] * w_{r-1}[s']."""
        if low >= high:
            return Level(below.rows[:0], below.log_scale[:0])
        first, label, target, log_weight = self.graph.level_edges(r)
        edges = slice(int(first[low]), int(first[high]))
        label, target, first = label[edges], target[edges], first[low : high + 1] - first[low]
        sums, log_sums = self.labels
        log_edges = log_sums[label] + below.log_scale[target] + log_weight[edges]
        weight, log_scale = edge_weights(log_edges, first)
        with torch.no_grad():
            summed = EdgeSums(sums, label, below.rows, target, weight, first)
            messages = self._backend.accumulate(summed)
            messages, log_messages = scaled(messages)
            rows, log_rows = scaled(self._guide.backward(messages))
        return Level(rows.to(self._dtype), log_scale + log_messages + log_rows)

"""Backward messages: the mass of all ways to finish, for each number of tokens that remain."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends import Backend, Tiles
from pcgcd.engine.graph import Graph
from pcgcd.engine.model import ModelTables

__all__ = ["BackwardMessages", "Level", "edge_weights", "label_sums", "scaled"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_CLASSES_AT_A_TIME = 4096


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
    model: ModelTables, graph: Graph, tiles: Tiles, backend: Backend
) -> tuple[Tensor, Logs]:
    """The emission summed over the tokens of each label, rows scaled, (L, H).

    One pass over the emission gives the sums over classes; labels are unions of classes. All sums
    are of float64.
    """
    num_classes = graph.num_classes
    member = torch.as_tensor(graph.label_class.astype(np.float64), device=model.device)
    result = torch.zeros(len(member), model.num_hidden, dtype=torch.float64, device=model.device)
    for low in range(0, num_classes, _CLASSES_AT_A_TIME):
        high = min(num_classes, low + _CLASSES_AT_A_TIME)
        result += member[:, low:high] @ backend.class_sums(model.rows, tiles, low, high)
    rows, log_scale = scaled(result)
    return rows.to(model.dtype), log_scale


class BackwardMessages:
    """The levels of one HMM and one automaton, made as far as they are needed.

    They depend on the number of remaining tokens only, so all prompts and budgets share them. Level
    r has a row for each state that accepts in exactly r steps and that a prefix of at most
    ``budget - r`` tokens can reach. Where all levels would take more than the limit of memory,
    only every sqrt(n)-th is kept, and the block of levels that was asked for last.
    """

    def __init__(
        self,
        model: ModelTables,
        graph: Graph,
        tiles: Tiles,
        backend: Backend,
        memory_limit: int,
        dtype: torch.dtype,
    ) -> None:
        self._model, self._graph, self._tiles, self._backend = model, graph, tiles, backend
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
            self._labels = label_sums(self._model, self._graph, self._tiles, self._backend)
        return self._labels

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
        if budget <= self.budget:
            return
        size = self._model.num_hidden * torch.empty(0, dtype=self._dtype).element_size()
        counts = [self._graph.alive(r).count(budget - r) for r in range(budget)]
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
        """The messages for r more tokens."""
        found = self._levels.get(r) or self._block.get(r)
        if found is not None:
            return found
        low = r - r % self._stride
        level = self._levels[low]
        self._block.clear()
        for step in range(low + 1, min(low + self._stride, self.budget)):
            count = self._graph.alive(step).count(self.budget - step)
            level = self._block[step] = self._extended(None, step, count, level)
        return self._block[r]

    def _extended(self, level: Level | None, r: int, count: int, below: Level | None) -> Level:
        """The level with rows for more states, from the level below."""
        done = 0 if level is None else len(level.rows)
        if level is not None and done >= count:
            return level
        if r == 0 or below is None:
            ones = torch.ones(count, self._model.num_hidden, device=self._model.device)
            return Level(ones.to(self._dtype), np.zeros(count))
        new = self._step(r, done, count, below)
        if level is None:
            return new
        return Level(
            torch.cat([level.rows, new.rows]), np.concatenate([level.log_scale, new.log_scale])
        )

    def _step(self, r: int, low: int, high: int, below: Level) -> Level:
        """w_r[s] = A_h u_r[s], u_r[s] = sum over edges s -> s' of L[label] * w_{r-1}[s']."""
        if low >= high:
            return Level(below.rows[:0], below.log_scale[:0])
        first, label, target = self._graph.level_edges(r)
        edges = slice(int(first[low]), int(first[high]))
        label, target, first = label[edges], target[edges], first[low : high + 1] - first[low]
        sums, log_sums = self.labels
        weight, log_scale = edge_weights(log_sums[label] + below.log_scale[target], first)
        with torch.no_grad():
            messages = self._backend.accumulate(sums, label, below.rows, target, weight, first)
            messages, log_messages = scaled(messages)
            rows, log_rows = scaled(self._model.backward(messages))
        return Level(rows.to(self._dtype), log_scale + log_messages + log_rows)

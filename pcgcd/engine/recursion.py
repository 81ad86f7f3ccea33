"""One level of backward messages from the level below it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends import Backend, EdgeSums, Tiles
from pcgcd.engine.graph import Graph, LevelEdges
from pcgcd.engine.guide import GuideTables

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_CLASSES_AT_A_TIME = 4096
# For how many states messages are computed at a time: few enough for intermediate results to be
# small, enough to read the transition seldom.
_STATES_AT_A_TIME = 4096


class Level(NamedTuple):
    """Messages w_r[s] of one r: the mass of the completions of exactly r tokens from state s, given
    the hidden state of the token before.

    States are known by their slots, see :class:`pcgcd.engine.graph.Alive`.

    Attributes:
        rows: The messages of some states, (m, H), scaled so that the largest entry is 1.
        log_scale: Their logarithmic scales, (m,); -inf for a row of zeros.
        place: The row of each slot, -1 where there is none; None if the rows are the first slots.
    """  # noqa: D205

    rows: Tensor
    log_scale: Logs
    place: Indices | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        own = 0 if self.place is None else self.place.nbytes
        return int(self.rows.nbytes) + self.log_scale.nbytes + own

    def find(self, slots: Indices) -> Indices:
        """Return the rows of some slots, which it has."""
        return slots if self.place is None else self.place[slots]

    def has(self, slots: Indices) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which of some slots it has."""
        if self.place is None:
            return slots < len(self.rows)
        return self.place[slots] >= 0

    def with_rows(self, slots: Indices, rows: Tensor, log_scale: Logs, num_slots: int) -> Level:
        """Return a level that has more slots."""
        place = self.place
        if place is None:
            place = np.full(num_slots, -1, dtype=np.int64)
            place[: len(self.rows)] = np.arange(len(self.rows))
        place = place.copy()
        place[slots] = len(self.rows) + np.arange(len(slots))
        if len(self.rows):
            rows = torch.cat([self.rows, rows])
            log_scale = np.concatenate([self.log_scale, log_scale])
        return Level(rows, log_scale, place)


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


class Recursion:
    """How the messages of a guide and an automaton follow from those for one token less."""

    def __init__(
        self,
        guide: GuideTables,
        graph: Graph,
        tiles: Tiles,
        backend: Backend,
        dtype: torch.dtype,
    ) -> None:
        """Hold the parts; nothing is computed yet.

        Args:
            guide: The real-valued chain.
            graph: The automaton.
            tiles: Its classes of tokens.
            backend: The kernels.
            dtype: The type in which messages are kept.
        """
        self.guide, self.graph, self.dtype = guide, graph, dtype
        self._tiles, self._backend = tiles, backend
        self._labels: tuple[Tensor, Logs] | None = None

    @property
    def labels(self) -> tuple[Tensor, Logs]:
        """See :func:`label_sums`."""
        if self._labels is None:
            self._labels = label_sums(self.guide, self.graph, self._tiles, self._backend)
        return self._labels

    @property
    def row_bytes(self) -> int:
        """The memory of one message and its scale."""
        return 8 + self.guide.num_hidden * torch.empty(0, dtype=self.dtype).element_size()

    def rows(self, r: int, slots: Indices, below: Level | None) -> tuple[Tensor, Logs]:
        """Return the messages of some slots and their scales, from the level below.

        Args:
            r: The number of tokens that remain.
            slots: The states, by their slots among those that accept in r steps.
            below: Has the states that one token leads to; None if r is 0.
        """
        if below is None:
            rows, log_scale = scaled(self.guide.ending.expand(len(slots), -1))
            return rows.to(self.dtype), log_scale
        edges = self.graph.level_edges(r)
        if len(slots) <= _STATES_AT_A_TIME:
            return self._part(edges.leaving(slots), below)
        result = below.rows.new_empty(len(slots), self.guide.num_hidden)
        log_scale = np.empty(len(slots))
        for low in range(0, len(slots), _STATES_AT_A_TIME):
            part = slice(low, low + _STATES_AT_A_TIME)
            result[part], log_scale[part] = self._part(edges.leaving(slots[part]), below)
        return result, log_scale

    def _part(self, edges: LevelEdges, below: Level) -> tuple[Tensor, Logs]:
        """w_r[s] = A_h u_r[s], u_r[s] = sum over edges e: s -> s' of f_e L[label] * w_{r-1}[s']."""
        sums, log_sums = self.labels
        target = below.find(edges.target)
        log_edges = log_sums[edges.label] + below.log_scale[target] + edges.log_weight
        weight, log_scale = edge_weights(log_edges, edges.first)
        with torch.no_grad():
            summed = EdgeSums(sums, edges.label, below.rows, target, weight, edges.first)
            messages, log_messages = scaled(self._backend.accumulate(summed))
            rows, log_rows = scaled(self.guide.backward(messages))
        return rows.to(self.dtype), log_scale + log_messages + log_rows

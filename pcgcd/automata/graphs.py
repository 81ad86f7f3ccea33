"""Automata as bare arrays, and the steps that constructions are made of.

A :class:`Graph` is a :class:`pcgcd.FiniteAutomaton` on the way: its label sets are rows of bits
over classes of tokens, nothing is frozen or unique yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.arrays import Weights, frozen
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.kernels import edges as edge_kernels
from pcgcd.automata.kernels import partition, subsets
from pcgcd.automata.kernels.jit import Bits, Indices, Mask
from pcgcd.automata.kernels.searches import search
from pcgcd.automata.labels import Labels
from pcgcd.automata.limits import NEVER
from pcgcd.errors import AutomatonTooLargeError

# How many elementary steps a construction may take: a few seconds.
WORK_LIMIT = 500_000_000
# How many states all sets of states of a subset construction may have together: 400 MB.
_MEMBER_LIMIT = 50_000_000
# How many edges the reduction of an automaton with choices may look at: about a second.
_REDUCTION_STEPS = 100_000_000


def pack(label_class: Mask) -> Bits:
    """Rows of booleans as rows of 64-bit words."""
    rows, classes = label_class.shape
    as_bytes = np.zeros((rows, 8 * max(1, -(-classes // 64))), dtype=np.uint8)
    in_order = np.ascontiguousarray(label_class)  # numpy is slow with columns
    as_bytes[:, : -(-classes // 8)] = np.packbits(in_order, axis=1, bitorder="little")
    return as_bytes.view(np.int64)


def unpack(sets: Bits, num_classes: int) -> Mask:
    """Rows of words as rows of booleans."""
    as_bytes = np.ascontiguousarray(sets).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little", count=num_classes).view(np.bool_)


def too_large(what: str, limit: int, needed: str = "") -> AutomatonTooLargeError:
    """The error of a construction that passed its limit."""
    return AutomatonTooLargeError(
        f"{what} needs {needed or 'more'} states, over the limit of {limit:,}; make it smaller "
        f"(shorter bounds on repeats, fewer members in any order, no need to be deterministic), or "
        f"give a larger state_limit to a function that takes one"
    )


class Adjacency(NamedTuple):
    """Edges sorted by the state they leave."""

    offsets: Indices
    target: Indices
    label: Indices


@dataclass(frozen=True, eq=False)
class Graph:
    """States, edges between them, and the sets that the edges carry.

    Edges between the same two states that differ in weight share no token. Sets of states, blocks
    of states and empty moves know no weights: see :func:`pcgcd.automata.weights.language_only`.
    """

    num_states: int
    source: Indices  # (E,)
    target: Indices  # (E,)
    label: Indices  # the row of `sets` of each edge, (E,)
    sets: Bits  # sets of classes, (L, words)
    num_classes: int
    token_class: Indices  # (V,)
    initial: Mask  # (S,)
    accepting: Mask  # (S,)
    weight: Weights | None = None  # (E,); None: all are one

    def __post_init__(self) -> None:
        """Take the number of states as one of Python: loops that were not compiled give numpy's."""
        object.__setattr__(self, "num_states", int(self.num_states))

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> Graph:
        """The arrays of an automaton, copied: frozen ones would have to be compiled for again."""
        return cls(
            fa.num_states,
            fa.source.copy(),
            fa.target.copy(),
            fa.label.copy(),
            pack(fa.labels.label_class),
            fa.labels.num_classes,
            fa.labels.token_class,
            fa.initial_mask.copy(),
            fa.accepting_mask.copy(),
            fa.weight,
        )

    @classmethod
    def nothing(cls, num_classes: int, token_class: Indices) -> Graph:
        """The empty language."""
        none, sets = np.empty(0, dtype=np.int64), pack(np.empty((0, num_classes), dtype=np.bool_))
        start = np.ones(1, dtype=np.bool_)
        return cls(1, none, none, none, sets, num_classes, token_class, start, ~start)

    def automaton(self) -> FiniteAutomaton:
        """The automaton, with sorted edges, distinct labels and as few classes as there can be."""
        final = self.joined().classified()
        label_class = unpack(final.sets, final.num_classes)
        return FiniteAutomaton(
            num_states=final.num_states,
            source=frozen(final.source),
            target=frozen(final.target),
            label=frozen(final.label),
            labels=Labels(frozen(label_class), frozen(final.token_class)),
            initial_mask=frozen(final.initial),
            accepting_mask=frozen(final.accepting),
            weight=None if final.weight is None else frozen(final.weight),
        )

    def classified(self) -> Graph:
        """The fewest classes that distinguish the sets, in the order of their first tokens."""
        label_class = unpack(self.sets, self.num_classes)
        merged, first = edge_kernels.intern(pack(label_class.T))
        coarse = merged[self.token_class]
        first_token = np.full(len(first), len(coarse), dtype=np.int64)
        first_token[coarse[::-1]] = np.arange(len(coarse))[::-1]
        order = np.argsort(first_token, kind="stable")
        order = order[first_token[order] < len(coarse)]
        if len(order) == self.num_classes and np.array_equal(order, np.arange(len(order))):
            return self
        rank = np.zeros(len(first), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return self._with(
            sets=pack(label_class[:, first[order]]),
            num_classes=len(order),
            token_class=rank[coarse],
        )

    def adjacency(self) -> Adjacency:
        """The edges by source."""
        order, offsets = edge_kernels.group(self.source, self.num_states)
        return Adjacency(offsets, self.target[order], self.label[order])

    def joined(self) -> Graph:
        """Edges sorted, one for each pair of states (and weight), and without empty sets."""
        alive: Mask = np.any(self.sets != 0, axis=1)
        if not alive.all():
            self = self._with_edges(alive[self.label])
        target, weight, ends = self.target, self.weight, self.num_states
        if weight is not None:  # pairs of target and weight in place of targets
            values, rank = np.unique(weight, return_inverse=True)
            pairs, target = np.unique(target * len(values) + rank, return_inverse=True)
            ends = max(ends, len(pairs))
        source, target, label, sets = edge_kernels.join(
            ends, self.source, target, self.label, self.sets
        )
        if weight is not None:
            target, weight = pairs[target] // len(values), values[pairs[target] % len(values)]
        return self._with(source=source, target=target, label=label, sets=sets, weight=weight)

    def reversed(self) -> Graph:
        """The mirror image."""
        return self._with(
            source=self.target,
            target=self.source,
            initial=self.accepting,
            accepting=self.initial,
        )

    def trimmed(self) -> Graph:
        """Only states on a way from an initial to an accepting one."""
        forward, backward = self.adjacency(), self.reversed().adjacency()
        useful = search(forward.offsets, forward.target, self.initial)[1] < NEVER
        useful &= search(backward.offsets, backward.target, self.accepting)[1] < NEVER
        if useful.all():
            return self
        if not useful.any():
            return Graph.nothing(self.num_classes, self.token_class)
        number = np.cumsum(useful) - 1
        kept = self._with_edges(useful[self.source] & useful[self.target])
        return kept._with(
            num_states=int(useful.sum()),
            source=number[kept.source],
            target=number[kept.target],
            initial=self.initial[useful],
            accepting=self.accepting[useful],
        )

    def determinized(self, state_limit: int, work_limit: int = WORK_LIMIT) -> Graph | None:
        """The subset construction; None if it would pass a limit."""
        found = self.with_subsets(state_limit, work_limit)
        return None if found is None else found[0]

    def with_subsets(
        self, state_limit: int, work_limit: int = WORK_LIMIT
    ) -> tuple[Graph, Indices, Indices] | None:
        """The subset construction, where the members of its states begin, and the members."""
        if not self.initial.any():
            none = np.zeros(2, dtype=np.int64)
            return Graph.nothing(self.num_classes, self.token_class), none, none[:0]
        count, source, target, label, sets, accepting, first, members = subsets.determinize(
            self.source,
            self.target,
            self.label,
            np.ascontiguousarray(self.sets),
            self.num_classes,
            self.initial,
            self.accepting,
            state_limit,
            work_limit,
            _MEMBER_LIMIT,
        )
        if count < 0:
            return None
        result = self._with(
            num_states=count,
            source=source,
            target=target,
            label=label,
            sets=sets,
            initial=np.arange(count) == 0,
            accepting=accepting,
        )
        return result, first, members

    def refined(self, work_limit: int = 2**62) -> Graph:
        """The quotient by the largest bisimulation; the minimal one of a trim deterministic one.

        Past the limit of work nothing is changed. A deterministic automaton needs no limit.
        """
        block, count, source, target, label, sets = partition.quotient(
            self.source, self.target, self.label, self.sets, self.accepting, work_limit
        )
        if count in (-1, self.num_states):
            return self
        initial, accepting = np.zeros((2, count), dtype=np.bool_)
        initial[block[self.initial]] = True
        accepting[block[self.accepting]] = True
        return self._with(
            num_states=count,
            source=source,
            target=target,
            label=label,
            sets=sets,
            initial=initial,
            accepting=accepting,
            weight=None,
        )

    def reduced(self) -> Graph:
        """Quotients by bisimulations forward and backward, until neither helps."""
        result, before = self.trimmed().joined(), -1
        while result.num_states != before:
            before = result.num_states
            result = result.refined(_REDUCTION_STEPS).reversed()
            result = result.refined(_REDUCTION_STEPS).reversed().joined()
        return result

    def numbered(self) -> Graph:
        """States in the order of a breadth-first walk, which is canonical if deterministic."""
        joined = self.joined().classified()
        lowest = _lowest_class(joined.sets)[joined.label]
        by_class, _ = edge_kernels.group(lowest, joined.num_classes)
        by_source, offsets = edge_kernels.group(joined.source[by_class], self.num_states)
        found, distance = search(offsets, joined.target[by_class[by_source]], self.initial)
        order = np.concatenate([found, np.flatnonzero(distance == NEVER)])
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return joined._with(
            source=number[joined.source],
            target=number[joined.target],
            initial=self.initial[order],
            accepting=self.accepting[order],
        )

    def _with(self, **other: Any) -> Graph:
        """The same with some other arrays."""
        return Graph(**{**vars(self), **other})

    def _with_edges(self, kept: Mask) -> Graph:
        return self._with(
            source=self.source[kept],
            target=self.target[kept],
            label=self.label[kept],
            weight=None if self.weight is None else self.weight[kept],
        )


def _lowest_class(sets: Bits) -> Indices:
    bits = unpack(sets, 64 * sets.shape[1])
    return bits.argmax(axis=1) if len(bits) else np.empty(0, dtype=np.int64)

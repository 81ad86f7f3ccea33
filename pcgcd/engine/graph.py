"""The edges of an automaton that matter, and which states accept in exactly r steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from pcgcd.automata import FiniteAutomaton

__all__ = ["Alive", "Graph", "LevelEdges"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_NEVER = 1 << 62


@dataclass(frozen=True, eq=False)
class Alive:
    """States that accept in exactly r steps along some path; the same for many r.

    Attributes:
        mask: Which they are, (S,).
        slot: The place of each state among them, in the order of their depth, (S,); -1 elsewhere.
        depth: The least number of steps from a start to each of them, rising.
    """

    mask: Mask
    slot: Indices
    depth: Indices

    def count(self, steps: int) -> int:
        """How many of them can be reached in at most so many steps: these come first."""
        return int(np.searchsorted(self.depth, steps, side="right"))


class LevelEdges(NamedTuple):
    """The edges from the states that accept in r steps to those that accept in r - 1.

    Attributes:
        first: Where the edges of each slot begin, (slots + 1,).
        label: The label of each edge.
        target: The slot of its target.
    """

    first: Indices
    label: Indices
    target: Indices


class Graph:
    """An automaton's edges, those from which nothing can be accepted left out, by source.

    It does not refer to the automaton itself, so that a weak cache can let go of both.

    Attributes:
        num_states: The number of states S.
        first: Where the edges of each state begin, (S + 1,).
        source: The source of each edge, rising.
        target: The target of each edge.
        label: The label of each edge.
        label_class: Which classes of tokens each label has, (L, C).
        token_class: The class of each token, (V,).
        initial: The initial states from which something can be accepted.
        accepting: Which states accept, (S,).
        shortest: The least number of tokens that are accepted; None if there are none.
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        self.num_states = fa.num_states
        distance = fa.distance_to_accept
        edges = np.flatnonzero(distance[fa.target] < _NEVER)
        edges = edges[np.argsort(fa.source[edges], kind="stable")]
        self.source: Indices = fa.source[edges]
        self.target: Indices = fa.target[edges]
        self.label: Indices = fa.label[edges]
        self.first: Indices = np.searchsorted(self.source, np.arange(fa.num_states + 1))
        self.label_class: Mask = fa.labels.label_class
        self.token_class: Indices = fa.labels.token_class
        self.initial: Indices = np.flatnonzero(fa.initial_mask & (distance < _NEVER))
        self.accepting: Mask = fa.accepting_mask
        self.shortest = int(distance[self.initial].min()) if len(self.initial) else None
        self._depth = self._depths()
        self._distinct: dict[bytes, Alive] = {}
        self._level_edges: dict[tuple[int, int], LevelEdges] = {}
        self._alive = [self._enter(self.accepting)]

    @property
    def num_classes(self) -> int:
        """The number of classes of tokens C."""
        return int(self.label_class.shape[1])

    @cached_property
    def token_order(self) -> Indices:
        """All tokens, those of a class together, (V,)."""
        return np.argsort(self.token_class, kind="stable")

    @cached_property
    def class_first(self) -> Indices:
        """Where the tokens of each class begin in :attr:`token_order`, (C + 1,)."""
        return np.searchsorted(self.token_class[self.token_order], np.arange(self.num_classes + 1))

    @cached_property
    def class_size(self) -> Indices:
        """The number of tokens of each class, (C,)."""
        return np.diff(self.class_first)

    def edges_of(self, states: Indices) -> Indices:
        """The edges that leave some states, those of the first state first."""
        sizes = self.first[states + 1] - self.first[states]
        ends: Indices = np.cumsum(sizes)
        places: Indices = np.arange(int(ends[-1]) if len(ends) else 0)
        places += np.repeat(self.first[states] - ends + sizes, sizes)
        return places

    # -- which states accept in exactly r steps -----------------------------------------------

    def alive(self, steps: int) -> Alive:
        """The states that accept in exactly so many steps.

        Of an automaton that is padded with EOS: those that are as near to acceptance as that.
        """
        while len(self._alive) <= steps and not self._settled:
            before = self._alive[-1].mask
            mask = np.zeros(self.num_states, dtype=np.bool_)
            mask[self.source[before[self.target]]] = True
            self._alive.append(self._enter(mask))
        return self._alive[min(steps, len(self._alive) - 1)]

    @property
    def _settled(self) -> bool:
        return len(self._alive) > 1 and self._alive[-1] is self._alive[-2]

    def is_alive(self, states: Indices, steps: int) -> bool:
        """Whether one of the states accepts in exactly so many steps."""
        return bool(self.alive(steps).mask[states].any())

    def level_edges(self, steps: int) -> LevelEdges:
        """The edges that a backward message of so many steps is summed over."""
        here, after = self.alive(steps), self.alive(steps - 1)
        key = (id(here), id(after))
        if key not in self._level_edges:
            source, target = here.slot[self.source], after.slot[self.target]
            used = np.flatnonzero((source >= 0) & (target >= 0))
            used = used[np.argsort(source[used], kind="stable")]
            first = np.searchsorted(source[used], np.arange(len(here.depth) + 1))
            self._level_edges[key] = LevelEdges(first, self.label[used], target[used])
        return self._level_edges[key]

    def _enter(self, mask: Mask) -> Alive:
        """The states of the mask that can be reached, by depth."""
        mask = mask & (self._depth < _NEVER)
        key = np.packbits(mask).tobytes()
        if key not in self._distinct:
            states = np.flatnonzero(mask)
            states = states[np.argsort(self._depth[states], kind="stable")]
            slot = np.full(self.num_states, -1, dtype=np.int64)
            slot[states] = np.arange(len(states))
            self._distinct[key] = Alive(mask, slot, self._depth[states])
        return self._distinct[key]

    def _depths(self) -> Indices:
        """The least number of steps from an initial state to each state."""
        depth = np.full(self.num_states, _NEVER, dtype=np.int64)
        depth[self.initial] = 0
        here, steps = self.initial, 0
        while len(here):
            steps += 1
            reached = np.unique(self.target[self.edges_of(here)])
            here = reached[depth[reached] == _NEVER]
            depth[here] = steps
        return depth

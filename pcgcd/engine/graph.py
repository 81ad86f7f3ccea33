"""The edges of an automaton that matter, and which states accept in exactly r steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.edge_index import places_in
from pcgcd.automata.limits import NEVER
from pcgcd.basics.keeping import kept_with

if TYPE_CHECKING:
    from pcgcd.automata import FiniteAutomaton
    from pcgcd.engine.live_sets import LiveSets

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# What the edges of several levels may take together; from some level on they are the same.
_KEPT_BYTES = 64 << 20


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
        log_weight: The logarithm of its weight.
    """

    first: Indices
    label: Indices
    target: Indices
    log_weight: Logs

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(part.nbytes for part in self)

    def leaving(self, slots: Indices) -> LevelEdges:
        """Return the edges of some slots (rising), as if there were no others."""
        if len(slots) == 0 or slots[-1] - slots[0] == len(slots) - 1:  # neighbours
            low, high = (int(slots[0]), int(slots[-1]) + 1) if len(slots) else (0, 0)
            edges = slice(int(self.first[low]), int(self.first[high]))
            first = self.first[low : high + 1] - self.first[low]
            return LevelEdges(first, self.label[edges], self.target[edges], self.log_weight[edges])
        places = places_in(self.first, slots)
        first = np.append(0, np.cumsum(self.first[slots + 1] - self.first[slots]))
        return LevelEdges(first, self.label[places], self.target[places], self.log_weight[places])


class Graph:
    """An automaton as the engine reads it: its useful edges by source, and who accepts when.

    One for each automaton, shared by all engines and states. It holds a copy of the automaton (of
    the same arrays), not the automaton itself, so that nothing refers to what refers to it.

    Attributes:
        automaton: The copy.
        first: Where the edges of each state begin, (S + 1,).
        source: The source of each edge, rising.
        target: The target of each edge.
        label: The label of each edge.
        log_weight: The logarithm of the weight of each edge; None if all weigh one.
        label_class: Which classes of tokens each label has, (L, C).
        token_class: The class of each token, (V,).
        initial: The initial states from which something can be accepted.
        accepting: Which states accept, (S,).
        distance: The least number of steps from each state to acceptance, (S,).
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        self.automaton = replace(fa)
        index = self.automaton.edge_index
        self.first, self.source = index.first, index.source
        self.target, self.label = index.target, index.label
        self.log_weight: Logs | None = None if index.weight is None else np.log(index.weight)
        self.label_class: Mask = fa.labels.label_class
        self.token_class: Indices = fa.labels.token_class
        self.distance: Indices = self.automaton.distance_to_accept
        self.initial: Indices = np.flatnonzero(fa.initial_mask & (self.distance < NEVER))
        self.accepting: Mask = fa.accepting_mask
        self._depth = self._depths()
        self._distinct: dict[bytes, Alive] = {}
        self._level_edges: dict[tuple[int, int], LevelEdges] = {}
        self._alive = [self._enter(self.accepting)]
        self._period: int | None = None

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> Graph:
        """Return the graph of an automaton, made once and forgotten with it."""
        return kept_with(fa, "_graph", lambda: cls(fa))

    @property
    def num_states(self) -> int:
        """The number of states S."""
        return len(self.accepting)

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return len(self.token_class)

    @cached_property
    def is_padded(self) -> bool:
        """Whether what accepts in n steps accepts in n + 1 too: every accepting state can stay."""
        stays = np.zeros(self.num_states, dtype=np.bool_)
        stays[self.source[self.accepting[self.target]]] = True
        return bool(stays[self.accepting].all())

    @cached_property
    def accepts_everything(self) -> bool:
        """Whether it is one state that takes every token, so that nothing depends on it."""
        return (
            self.num_states == 1
            and bool(self.accepting[0])
            and len(self.label) == 1
            and self.log_weight is None
            and bool(self.label_class[self.label[0]].all())
        )

    @cached_property
    def live_sets(self) -> LiveSets:
        """The sets of states that prefixes lead to."""
        from pcgcd.engine.live_sets import LiveSets

        return LiveSets(self)

    def shortest(self, budget: int) -> int | None:
        """Return the least number of tokens that are accepted, if there is any.

        For an automaton that is not padded, the least number that is at least ``budget``, up to
        the length after which nothing new can come.
        """
        if not len(self.initial):
            return None
        if self.is_padded:
            return int(self.distance[self.initial].min())
        least = range(budget, budget + self.num_states + 1)
        above = next((n for n in least if self.is_alive(self.initial, n)), None)
        return int(self.distance[self.initial].min()) if above is None else above

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
        """Return the edges that leave some states, those of the first state first."""
        return self.automaton.edge_index.leaving(states)

    def log_weights(self, edges: Indices) -> Logs:
        """Return the logarithms of the weights of some edges."""
        return np.zeros(len(edges)) if self.log_weight is None else self.log_weight[edges]

    # -- which states accept in exactly r steps -----------------------------------------------

    def alive(self, steps: int) -> Alive:
        """Return the states that accept in exactly so many steps.

        Of an automaton that is padded with EOS: those that are as near to acceptance as that.
        """
        while len(self._alive) <= steps and self._period is None:
            before = self._alive[-1].mask
            mask = np.zeros(self.num_states, dtype=np.bool_)
            mask[self.source[before[self.target]]] = True
            after = self._enter(mask)
            # Each set follows from the one before, so the first repetition repeats for ever.
            if after in self._alive:
                self._period = len(self._alive) - self._alive.index(after)
            else:
                self._alive.append(after)
        if steps < len(self._alive) or self._period is None:
            return self._alive[steps]
        start = len(self._alive) - self._period
        return self._alive[start + (steps - start) % self._period]

    def is_alive(self, states: Indices, steps: int) -> bool:
        """Return whether one of the states accepts in exactly so many steps."""
        return bool(self.alive(steps).mask[states].any())

    def level_edges(self, steps: int) -> LevelEdges:
        """Return the edges that a backward message of so many steps is summed over."""
        here, after = self.alive(steps), self.alive(steps - 1)
        key = (id(here), id(after))
        found = self._level_edges.get(key)
        if found is None:
            source, target = here.slot[self.source], after.slot[self.target]
            used = np.flatnonzero((source >= 0) & (target >= 0))
            used = used[np.argsort(source[used], kind="stable")]
            first = np.searchsorted(source[used], np.arange(len(here.depth) + 1))
            found = LevelEdges(first, self.label[used], target[used], self.log_weights(used))
            kept = sum(edges.nbytes for edges in self._level_edges.values())
            if kept + found.nbytes > _KEPT_BYTES:
                self._level_edges.clear()
            self._level_edges[key] = found
        return found

    def _enter(self, mask: Mask) -> Alive:
        """The states of the mask that can be reached, by depth."""
        mask = mask & (self._depth < NEVER)
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
        depth = np.full(self.num_states, NEVER, dtype=np.int64)
        depth[self.initial] = 0
        here, steps = self.initial, 0
        while len(here):
            steps += 1
            reached = np.unique(self.target[self.edges_of(here)])
            here = reached[depth[reached] == NEVER]
            depth[here] = steps
        return depth

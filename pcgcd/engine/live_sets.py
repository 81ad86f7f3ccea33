"""Sets of states that prefixes lead to: the subset construction, where it is used, with paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.engine.graph import Graph

__all__ = ["LiveSet", "LiveSets", "Move", "Plan"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# What the kept sets, moves and plans of one automaton may take together.
_KEPT_BYTES = 256 << 20


class Plan(NamedTuple):
    """How the next tokens of a live set are scored when r - 1 more tokens follow.

    Tokens that lead to the same states in the same number of ways form a group.

    Attributes:
        group: The group of each class of tokens, (C,) int32; -1 where it is not allowed.
        first: Where the edges of each group begin, (groups + 1,).
        place: For each edge of a group, the place of its source in the live set.
        target: The slot of its target among the states that accept in r - 1 steps.
        num_tokens: How many tokens are allowed.
    """

    group: np.ndarray[Any, np.dtype[np.int32]]
    first: Indices
    place: Indices
    target: Indices
    num_tokens: int


class Move(NamedTuple):
    """Where a group of tokens leads.

    Attributes:
        target: The live set after the token.
        place: For each way, the place of its source in the live set before.
        to: For each way, the place of its target in the live set after.
    """

    target: LiveSet
    place: Indices
    to: Indices


@dataclass(eq=False)
class LiveSet:
    """The states in which a prefix may be.

    Attributes:
        owner: Where it is interned.
        states: The states, rising.
    """

    owner: LiveSets
    states: Indices

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop what can be worked out again."""
        self._plans: dict[int, Plan] = {}
        self._moves: dict[int, Move] = {}

    @cached_property
    def _groups(self) -> tuple[Indices, Indices, Indices, Indices, Indices]:
        """The group of each class; the edges of all groups (first, place of source, target)."""
        graph = self.owner.graph
        edges = graph.edges_of(self.states)
        place = np.searchsorted(self.states, graph.source[edges])
        member = graph.label_class[graph.label[edges]]  # (edges, C)
        columns = np.ascontiguousarray(np.packbits(member, axis=0).T)
        used = np.flatnonzero(columns.any(1))
        group = np.full(graph.num_classes, -1, dtype=np.int64)
        if not len(used):
            nothing = np.zeros(0, dtype=np.int64)
            return group, np.zeros(1, dtype=np.int64), nothing, nothing, nothing
        width = columns.shape[1]
        keys = columns[used].view(np.dtype((np.void, width))).ravel()
        _, example, number = np.unique(keys, return_index=True, return_inverse=True)
        group[used] = number
        chosen = member[:, used[example]].T  # (groups, edges)
        which, edge = np.nonzero(chosen)
        first = np.searchsorted(which, np.arange(len(example) + 1))
        return group, first, which, place[edge], graph.target[edges][edge]

    def plan(self, remaining: int) -> Plan:
        """How to score the next token, if so many tokens may come (this one included)."""
        alive = self.owner.graph.alive(remaining - 1)
        found = self._plans.get(id(alive))  # the graph keeps these for ever
        if found is None:
            group, _, which, place, target = self._groups
            slot = alive.slot[target]
            kept = np.flatnonzero(slot >= 0)
            groups, number = np.unique(which[kept], return_inverse=True)
            renumber = np.full(int(group.max(initial=-1)) + 2, -1, dtype=np.int32)
            renumber[groups] = np.arange(len(groups))
            by_class = renumber[group]  # the last entry of renumber is for -1
            found = Plan(
                by_class,
                np.searchsorted(number, np.arange(len(groups) + 1)),
                place[kept],
                slot[kept],
                int(self.owner.graph.class_size[by_class >= 0].sum()),
            )
            self._plans[id(alive)] = found
            self.owner.count(sum(part.nbytes for part in found[:4]) + 500)
        return found

    def move(self, token_class: int) -> Move:
        """The live set after a token of the class."""
        group, first, _, place, target = self._groups
        number = int(group[token_class])
        found = self._moves.get(number)
        if found is None:
            ways = slice(first[number], first[number + 1]) if number >= 0 else slice(0, 0)
            states, to = np.unique(target[ways], return_inverse=True)
            found = self._moves[number] = Move(self.owner.enter(states), place[ways], to)
            self.owner.count(to.nbytes + found.place.nbytes + 200)
        return found


class LiveSets:
    """The live sets of one automaton, each made once; forgotten when they grow too many."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._kept: dict[bytes, LiveSet] = {}
        self._bytes = 0
        self.dead = LiveSet(self, np.zeros(0, dtype=np.int64))

    def enter(self, states: Indices) -> LiveSet:
        """The live set of some states (rising)."""
        if not len(states):
            return self.dead
        key = states.tobytes()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = LiveSet(self, states)
            self.count(len(key) + 1000)
        return found

    def count(self, size: int) -> None:
        """Note that so many bytes more are kept."""
        self._bytes += size
        if self._bytes > _KEPT_BYTES:
            for live in self._kept.values():
                live.forget()
            self._kept.clear()
            self._bytes = 0

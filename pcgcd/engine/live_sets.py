"""Sets of states that prefixes lead to: the subset construction, where it is used, with paths.

Rabin and Scott (1959), "Finite automata and their decision problems", made lazy: a set is entered
when a prefix first leads to it. Beside the states, the ways into each of them are kept, so that
paths can be counted and weights multiplied along them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.engine.graph import Graph

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# What the kept sets, moves and plans of one automaton may take together.
_KEPT_BYTES = 256 << 20


class Plan(NamedTuple):
    """How the next tokens of a live set are scored when r - 1 more tokens follow.

    Tokens that lead to the same states in the same ways form a group.

    Attributes:
        group: The group of each class of tokens, (C,) int32; -1 where it is not allowed.
        first: Where the edges of each group begin, (groups + 1,).
        place: For each edge of a group, the place of its source in the live set.
        target: The slot of its target among the states that accept in r - 1 steps.
        log_weight: The logarithm of its weight.
        num_tokens: How many tokens are allowed.
    """

    group: np.ndarray[Any, np.dtype[np.int32]]
    first: Indices
    place: Indices
    target: Indices
    log_weight: Logs
    num_tokens: int


class Move(NamedTuple):
    """Where a class of tokens leads.

    Attributes:
        target: The live set after the token.
        place: For each way, the place of its source in the live set before.
        to: For each way, the place of its target in the live set after.
        log_weight: For each way, the logarithm of its weight.
    """

    target: LiveSet
    place: Indices
    to: Indices
    log_weight: Logs


class _Groups(NamedTuple):
    """The group of each class, and the edges of all groups: group, source, target, weight."""

    group: Indices
    which: Indices
    place: Indices
    target: Indices
    log_weight: Logs


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
        self.members = tuple(self.states.tolist())
        self.forget()

    def forget(self) -> None:
        """Drop what can be worked out again."""
        self._plans: dict[int, Plan] = {}
        self._moves: dict[int, Move] = {}

    @cached_property
    def _edges(self) -> Indices:
        return self.owner.graph.edges_of(self.states)

    @cached_property
    def _groups(self) -> _Groups:
        graph, edges = self.owner.graph, self._edges
        place = np.searchsorted(self.states, graph.source[edges])
        member = graph.label_class[graph.label[edges]]  # (edges, C)
        columns = np.ascontiguousarray(np.packbits(member, axis=0).T)
        used = np.flatnonzero(columns.any(1))
        group = np.full(graph.num_classes, -1, dtype=np.int64)
        if not len(used):
            nothing = np.zeros(0, dtype=np.int64)
            return _Groups(group, nothing, nothing, nothing, np.zeros(0))
        width = columns.shape[1]
        keys = columns[used].view(np.dtype((np.void, width))).ravel()
        _, example, number = np.unique(keys, return_index=True, return_inverse=True)
        group[used] = number
        chosen = member[:, used[example]].T  # (groups, edges)
        which, edge = np.nonzero(chosen)
        target, log_weight = graph.target[edges][edge], graph.log_weights(edges[edge])
        return _Groups(group, which, place[edge], target, log_weight)

    def plan(self, remaining: int) -> Plan:
        """How to score the next token, if so many tokens may come (this one included)."""
        alive = self.owner.graph.alive(remaining - 1)
        found = self._plans.get(id(alive))  # the graph keeps these for ever
        if found is None:
            group, which, place, target, log_weight = self._groups
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
                log_weight[kept],
                int(self.owner.graph.class_size[by_class >= 0].sum()),
            )
            self._plans[id(alive)] = found
            self.owner.count(sum(part.nbytes for part in found[:5]) + 500)
        return found

    def ways(self, remaining: int | None) -> tuple[Indices, Indices, Indices, Logs]:
        """The group of each class (-1: not allowed), and each group's edges, by their sources.

        Returns:
            The groups (C,); where their edges begin; the place of each edge's source; its
            log-weight.
        """
        if remaining is not None:
            plan = self.plan(remaining)
            return plan.group.astype(np.int64), plan.first, plan.place, plan.log_weight
        group, which, place, _, log_weight = self._groups
        first = np.searchsorted(which, np.arange(int(group.max(initial=-1)) + 2))
        return group, first, place, log_weight

    def followers(self, limit: int) -> tuple[int, ...] | None:
        """Return the tokens that lead on, rising; None if they are more than the limit."""
        graph = self.owner.graph
        used = np.flatnonzero(graph.label_class[graph.label[self._edges]].any(0))
        if graph.class_size[used].sum() > limit:
            return None
        first = graph.class_first
        found = [graph.token_order[first[c] : first[c + 1]] for c in used.tolist()]
        return tuple(sorted(np.concatenate(found).tolist())) if found else ()

    def move(self, token_class: int) -> Move:
        """Return the live set after a token of the class."""
        found = self._moves.get(token_class)
        if found is None:
            graph, edges = self.owner.graph, self._edges
            ways = edges[graph.label_class[graph.label[edges], token_class]]
            states, to = np.unique(graph.target[ways], return_inverse=True)
            place = np.searchsorted(self.states, graph.source[ways])
            found = Move(self.owner.enter(states), place, to, graph.log_weights(ways))
            self._moves[token_class] = found
            self.owner.count(to.nbytes + place.nbytes + found.log_weight.nbytes + 300)
        return found


class LiveSets:
    """The live sets of one automaton, each made once; forgotten when they grow too many."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._kept: dict[bytes, LiveSet] = {}
        self._bytes = 0
        self.dead = LiveSet(self, np.zeros(0, dtype=np.int64))

    def enter(self, states: Indices) -> LiveSet:
        """Return the live set of some states (rising)."""
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

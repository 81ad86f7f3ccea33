"""Determinism and unambiguity: does every string have at most one (accepting) path?"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pcgcd.automata.arrays import Indices, Mask
from pcgcd.errors import AutomatonTooLargeError

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton
    from pcgcd.automata.graphs import Adjacency

_PAIR_LIMIT = 100_000_000
_CHUNK = 4_000_000


def is_deterministic(fa: FiniteAutomaton) -> bool:
    """Return whether there is one initial state, and edges leaving a state share no token."""
    if fa.initial_mask.sum() != 1:
        return False
    order = np.lexsort((fa.label, fa.source))
    label = fa.label[order]
    bounds = np.searchsorted(fa.source[order], np.arange(fa.num_states + 1)).tolist()
    # Many states have the same labels: states inside a string, for example.
    seen: set[bytes] = set()
    for first, last in pairwise(bounds):
        if last - first > 1:
            together = label[first:last]
            key = together.tobytes()
            if key not in seen:
                seen.add(key)
                if fa.labels.label_class[together].sum(0).max() > 1:
                    return False
    return True


def is_unambiguous(fa: FiniteAutomaton) -> bool:
    """Return whether no string has two accepting paths.

    Edges between the same two states share no token, so two different accepting paths of one
    string pass, at some step, through two different states. Hence the automaton is ambiguous
    exactly if, in its product with itself, a pair (p, q) with p != q lies on a way from a pair of
    initial states to a pair of accepting ones. That takes O(E^2) steps at most.

    Raises:
        AutomatonTooLargeError: More than 10^8 pairs of states would have to be visited.
    """
    from pcgcd.automata.graphs import Graph

    graph, overlaps = Graph.of(fa), fa.labels.overlaps()
    reachable = _reach(graph.adjacency(), overlaps, _pairs(fa.initial_mask), None)
    accepting = np.intersect1d(_pairs(fa.accepting_mask), reachable)
    useful = _reach(graph.reversed().adjacency(), overlaps, accepting, reachable)
    return bool(np.all(useful // fa.num_states == useful % fa.num_states))


def _pairs(states: Mask) -> Indices:
    """The sorted codes p * S + q of all pairs p <= q (the product with itself is symmetric)."""
    p, q = np.meshgrid(np.flatnonzero(states), np.flatnonzero(states), indexing="ij")
    codes: Indices = (p * len(states) + q)[p <= q]
    return codes


def _reach(edges: Adjacency, overlaps: Mask, start: Indices, within: Indices | None) -> Indices:
    """All pairs that can be reached from the start by steps on a common token (sorted codes)."""
    seen = frontier = start
    while len(frontier):
        found = np.unique(np.concatenate(_steps(edges, overlaps, frontier)))
        if within is not None:
            found = np.intersect1d(found, within, assume_unique=True)
        frontier = np.setdiff1d(found, seen, assume_unique=True)
        seen = np.union1d(seen, frontier)
        if len(seen) > _PAIR_LIMIT:
            raise AutomatonTooLargeError(
                f"the check for ambiguity has visited {len(seen):,} pairs of states, over its "
                f"limit of {_PAIR_LIMIT:,}; reduce or determinize the automaton first"
            )
    return seen


def _steps(edges: Adjacency, overlaps: Mask, codes: Indices) -> list[Indices]:
    """The pairs one step away, in chunks of bounded size."""
    first, degree = edges.offsets, np.diff(edges.offsets)
    p, q = np.divmod(codes, len(degree))
    counts = degree[p] * degree[q]
    result = [np.empty(0, dtype=np.int64)]
    splits = np.flatnonzero(np.diff(np.cumsum(counts) // _CHUNK)) + 1
    for part in np.split(np.arange(len(codes)), splits):
        number = counts[part]
        which = np.repeat(part, number)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
        e1, e2 = np.divmod(offset, degree[q[which]])
        e1, e2 = first[p[which]] + e1, first[q[which]] + e2
        common = overlaps[edges.label[e1], edges.label[e2]]
        a, b = edges.target[e1[common]], edges.target[e2[common]]
        result.append(np.unique(np.minimum(a, b) * len(degree) + np.maximum(a, b)))
    return result

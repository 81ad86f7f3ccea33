"""Removing empty moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.edges import by_target, group, join
from pcgcd.automata.kernels.growing import head, wider
from pcgcd.automata.kernels.jit import (
    Bits,
    Indices,
    Mask,
    compiled_if_large,
    compiled_part,
    in_place,
)
from pcgcd.automata.kernels.searches import search
from pcgcd.automata.limits import NEVER


@compiled_if_large()
def remove_epsilons(
    empty_source: Indices,
    empty_target: Indices,
    source: Indices,
    target: Indices,
    label: Indices,
    sets: Bits,
    initial: Mask,
    accepting: Mask,
    limit: int,
) -> tuple[int, int, Indices, Indices, Indices, Bits, Mask, Mask]:
    """Find the trim automaton without empty moves.

    Each state gets the edges that leave its closure under empty moves, and accepts if one of these
    accepts (Hopcroft & Ullman 1979, "Introduction to Automata Theory", theorem 2.2). Only states
    that an edge leads to or that are initial are expanded, and only those from which an accepting
    one can be reached. O(S (S + E)) at worst.

    Args:
        empty_source: The source of each empty move.
        empty_target: The target of each empty move.
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The row of ``sets`` of each edge, (E,); an edge with an empty one leads nowhere.
        sets: Sets of classes as bits, (L, words).
        initial: Which states are initial, (S,).
        accepting: Which states accept, (S,).
        limit: How many moves and states to look at.

    Returns:
        The work done (over the limit: nothing else is valid), the number of states, the source,
        target and label of each edge, sorted and joined, the sets of these labels, and which states
        are initial and accept.
    """
    num_states = len(initial)
    source, target, label = _with_tokens(source, target, label, sets)
    empty_next, empty_offsets = group(empty_source, num_states)
    for k in range(len(empty_next)):
        empty_next[k] = empty_target[empty_next[k]]
    order, offsets = group(source, num_states)
    useful = _useful(empty_source, empty_target, source, target, accepting)
    number = np.full(num_states, -1, dtype=np.int64)
    left = np.empty(num_states, dtype=np.int64)
    num_initial = 0
    for s in range(num_states):
        if initial[s] and useful[s]:
            number[s] = num_initial
            left[num_initial] = s
            num_initial += 1
    moves = _Moves(empty_offsets, empty_next, offsets, order, target, label, useful, accepting)
    stamp = np.full(num_states, -1, dtype=np.int64)
    stack = np.empty(num_states, dtype=np.int64)
    kept = _Kept(number, left, np.zeros(num_states, dtype=np.bool_), stamp, stack)
    edges = np.empty((3, len(source) + 16), dtype=np.int64)  # source, target, label
    progress = np.zeros(5, dtype=np.int64)
    progress[_COUNT] = num_initial
    while _follow(moves, kept, edges, progress, limit):
        edges = wider(edges)
    count, num_edges, work = progress[_COUNT], progress[_EDGES], progress[_WORK]
    if work > limit:
        num_edges = 0
    starts = np.zeros(count, dtype=np.bool_)
    starts[:num_initial] = True
    sources, targets, labels, sets = join(
        count, head(edges[0], num_edges), head(edges[1], num_edges), head(edges[2], num_edges), sets
    )
    return work, count, sources, targets, labels, sets, starts, kept.accepts[:count]


@compiled_part
def _with_tokens(source: Any, target: Any, label: Any, sets: Any) -> Any:
    """Return the edges whose sets are not empty."""
    has_tokens = np.zeros(len(sets), dtype=np.bool_)
    for a in range(len(sets)):
        for w in range(sets.shape[1]):
            has_tokens[a] |= sets[a, w] != 0
    edges = np.empty((3, len(source)), dtype=np.int64)
    count = 0
    for e in range(len(source)):
        if has_tokens[label[e]]:
            edges[0, count], edges[1, count], edges[2, count] = source[e], target[e], label[e]
            count += 1
    return head(edges[0], count), head(edges[1], count), head(edges[2], count)


@compiled_part
def _useful(empty_source: Any, empty_target: Any, source: Any, target: Any, accepting: Any) -> Any:
    """Find the states from which an accepting one can be reached, (S,)."""
    num_edges = len(source)
    begins = np.empty(num_edges + len(empty_source), dtype=np.int32)
    ends = np.empty(len(begins), dtype=np.int32)
    begins[:num_edges], begins[num_edges:] = source, empty_source
    ends[:num_edges], ends[num_edges:] = target, empty_target
    before, offsets = by_target(begins, ends, len(accepting))
    _, distance = search(offsets, before, accepting)
    return distance < NEVER


class _Moves(NamedTuple):
    """An automaton: its empty moves and its edges by source, and what is known of its states.

    ``empty`` is where the empty moves of each state begin in ``following``, ``offsets`` where its
    edges begin in ``order``.
    """

    empty: Any
    following: Any
    offsets: Any
    order: Any
    target: Any
    label: Any
    useful: Any
    accepting: Any


class _Kept(NamedTuple):
    """The states that are left: the new ``number`` of each, the old ones, and which accept.

    ``stamp`` says in which closure a state was last, ``stack`` holds those to look at.
    """

    number: Any
    left: Any
    accepts: Any
    stamp: Any
    stack: Any


# How far states are followed: the next one, how many there are, edges, work, closures begun.
_NEXT, _COUNT, _EDGES, _WORK, _CLOSURES = range(5)


@in_place
def _follow(moves: Any, kept: Any, edges: Any, progress: Any, limit: Any) -> Any:
    """Give states their edges until there is no more room for them, and say whether that is so.

    Makes no arrays, since counting references to them would take most of the time.
    """
    # Invariant: the states before `next` have their edges; every target of these is left.
    while progress[_NEXT] < progress[_COUNT] and progress[_WORK] <= limit:
        i, closure = progress[_NEXT], progress[_CLOSURES]
        count, num_edges, work = progress[_COUNT], progress[_EDGES], progress[_WORK]
        progress[_CLOSURES] += 1
        kept.stamp[kept.left[i]] = closure
        kept.stack[0] = kept.left[i]
        top = 1
        while top > 0:
            top -= 1
            s = kept.stack[top]
            work += 1 + moves.empty[s + 1] - moves.empty[s]
            for k in range(moves.empty[s], moves.empty[s + 1]):
                t = moves.following[k]
                if kept.stamp[t] != closure and moves.useful[t]:
                    kept.stamp[t] = closure
                    kept.stack[top] = t
                    top += 1
            if moves.accepting[s]:
                kept.accepts[i] = True
            if num_edges + moves.offsets[s + 1] - moves.offsets[s] > edges.shape[1]:
                return True  # this state is begun anew
            for k in range(moves.offsets[s], moves.offsets[s + 1]):
                e = moves.order[k]
                t = moves.target[e]
                if not moves.useful[t]:
                    continue
                if kept.number[t] < 0:
                    kept.number[t] = count
                    kept.left[count] = t
                    count += 1
                    progress[_COUNT] = count
                edges[0, num_edges] = i
                edges[1, num_edges] = kept.number[t]
                edges[2, num_edges] = moves.label[e]
                num_edges += 1
                work += 1
        progress[_NEXT], progress[_EDGES], progress[_WORK] = i + 1, num_edges, work
    return False

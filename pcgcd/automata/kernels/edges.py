"""Sorting and joining edges, removing empty moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.growing import grown_rows, head, head_rows, mixed, wider
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, in_place


@compiled_if_large(most=100_000)
def group(key: Indices, count: int) -> tuple[Indices, Indices]:
    """Sort items by key, stably; the order, (N,), and where each key begins in it, (count + 1,).

    Counting sort (Seward 1954; Knuth, "The Art of Computer Programming" 5.2): O(N + count).
    """
    offsets = np.zeros(count + 1, dtype=np.int64)
    for i in range(len(key)):
        offsets[key[i] + 1] += 1
    for k in range(count):
        offsets[k + 1] += offsets[k]
    # Invariant: place[k] is where the next item of key k goes; those before it are in place.
    place = head(offsets, count)
    order = np.empty(len(key), dtype=np.int64)
    for i in range(len(key)):
        order[place[key[i]]] = i
        place[key[i]] += 1
    return order, offsets


@compiled_if_large()
def moved(states: Indices, outer: Indices, first: int, begin: Indices, end: Indices) -> Indices:
    """Copy states of a part that is placed again: once for each pair of a begin and an end.

    Args:
        states: The states, (N,).
        outer: Those that are not copied: the entry and the exit of the part; then the first of the
            others and how many there are.
        first: The first state of the first copy.
        begin: The entry of each copy, (copies,).
        end: The exit of each copy.

    Returns:
        The states of all copies, (copies * N,).
    """
    result = np.empty(len(begin) * len(states), dtype=np.int64)
    place = 0
    for copy in range(len(begin)):
        shift = first + copy * outer[3] - outer[2]
        for i in range(len(states)):
            s = states[i]
            if s == outer[0]:
                result[place] = begin[copy]
            elif s == outer[1]:
                result[place] = end[copy]
            else:
                result[place] = s + shift
            place += 1
    return result


@compiled_if_large()
def intern(rows: Bits) -> tuple[Indices, Indices]:
    """Number the distinct rows as they come, by hashing with linear probing: O(N words).

    Returns:
        The number of each row, (N,), and where each number is first seen.
    """
    size = 16
    while size < 2 * len(rows):
        size *= 2
    table = np.full(size, -1, dtype=np.int64)
    number = np.empty(len(rows), dtype=np.int64)
    first = np.empty(len(rows), dtype=np.int64)
    count = 0
    for i in range(len(rows)):
        value = np.int64(0)
        for w in range(rows.shape[1]):
            value = mixed(value, rows[i, w])
        slot = value & (size - 1)
        while True:
            known = table[slot]
            if known < 0:
                table[slot] = count
                first[count] = i
                number[i] = count
                count += 1
                break
            same = True
            for w in range(rows.shape[1]):
                if rows[first[known], w] != rows[i, w]:
                    same = False
                    break
            if same:
                number[i] = known
                break
            slot = (slot + 1) & (size - 1)
    return number, head(first, count)


@compiled_if_large()
def join(
    num_states: int, source: Indices, target: Indices, label: Indices, sets: Bits
) -> tuple[Indices, Indices, Indices, Bits]:
    """Edges sorted by source and target, one for each pair, with distinct sets.

    A radix sort of two digits, target and then source, in O(S + E words).

    Args:
        num_states: The number of states S.
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The row of ``sets`` of each edge, (E,).
        sets: Sets of classes as bits, (L, words).
    """
    by_target, _ = group(target, num_states)
    key = np.empty(len(by_target), dtype=np.int64)
    for i in range(len(by_target)):
        key[i] = source[by_target[i]]
    by_source, _ = group(key, num_states)
    edges = np.empty((3, len(source)), dtype=np.int64)  # source, target, label
    count, words, num_labels = 0, sets.shape[1], len(sets)
    rows = head_rows(sets, len(sets))  # and then those of unions of labels
    for i in range(len(source)):
        e = by_target[by_source[i]]
        last = count - 1
        if count > 0 and edges[0, last] == source[e] and edges[1, last] == target[e]:
            if edges[2, last] < len(sets):
                if num_labels == len(rows):
                    rows = grown_rows(rows)
                for w in range(words):
                    rows[num_labels, w] = sets[edges[2, last], w]
                edges[2, last] = num_labels
                num_labels += 1
            for w in range(words):
                rows[num_labels - 1, w] |= sets[label[e], w]
        else:
            edges[0, count] = source[e]
            edges[1, count] = target[e]
            edges[2, count] = label[e]
            count += 1
    same, first = intern(head_rows(rows, num_labels))
    # Labels are numbered as edges have them.
    number = np.full(len(first), -1, dtype=np.int64)
    distinct = np.empty((len(first), words), dtype=np.int64)
    num_labels = 0
    for i in range(count):
        row = same[edges[2, i]]
        if number[row] < 0:
            number[row] = num_labels
            for w in range(words):
                distinct[num_labels, w] = rows[first[row], w]
            num_labels += 1
        edges[2, i] = number[row]
    return (
        head(edges[0], count),
        head(edges[1], count),
        head(edges[2], count),
        head_rows(distinct, num_labels),
    )


@compiled_if_large()
def remove_epsilons(
    num_states: int,
    empty_source: Indices,
    empty_target: Indices,
    source: Indices,
    target: Indices,
    label: Indices,
    initial: Mask,
    accepting: Mask,
    useful: Mask,
    limit: int,
) -> tuple[int, Indices, Indices, Indices, Indices, Mask]:
    """Edges without empty moves, between the states that a move or the start leads to.

    Each state gets the edges that leave its closure under empty moves, and accepts if one of these
    accepts (Hopcroft & Ullman 1979, "Introduction to Automata Theory", theorem 2.2). Only states
    that are entered by an edge or initial are expanded. O(S (S + E)) at worst.

    Args:
        num_states: The number of states S.
        empty_source: The source of each empty move.
        empty_target: The target of each empty move.
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        initial: Which states are initial, (S,).
        accepting: Which states accept, (S,).
        useful: Which states can reach an accepting one, (S,); the others are left out.
        limit: How many moves and states to look at.

    Returns:
        The work done (over the limit: nothing else is valid), the old number of each state that is
        left, the source, target and label of its edges, and which of them accept.
    """
    empty_next, empty_offsets = group(empty_source, num_states)
    for k in range(len(empty_next)):
        empty_next[k] = empty_target[empty_next[k]]
    order, offsets = group(source, num_states)
    number = np.full(num_states, -1, dtype=np.int64)
    left = np.empty(num_states, dtype=np.int64)
    count = 0
    for s in range(num_states):
        if initial[s] and useful[s]:
            number[s] = count
            left[count] = s
            count += 1
    moves = _Moves(empty_offsets, empty_next, offsets, order, target, label, useful, accepting)
    stamp = np.full(num_states, -1, dtype=np.int64)
    stack = np.empty(num_states, dtype=np.int64)
    kept = _Kept(number, left, np.zeros(num_states, dtype=np.bool_), stamp, stack)
    edges = np.empty((3, len(source) + 16), dtype=np.int64)  # source, target, label
    progress = np.zeros(5, dtype=np.int64)
    progress[_COUNT] = count
    while _follow(moves, kept, edges, progress, limit):
        edges = wider(edges)
    count, num_edges = progress[_COUNT], progress[_EDGES]
    return (
        progress[_WORK],
        head(left, count),
        head(edges[0], num_edges),
        head(edges[1], num_edges),
        head(edges[2], num_edges),
        kept.accepts[:count],
    )


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

"""Sorting and joining edges, removing empty moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import grown_rows, head, head_rows, mixed, wider
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, inlined


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
    edges = np.empty((3, len(source) + 16), dtype=np.int64)  # source, target, label
    num_edges = 0
    accepts = np.zeros(num_states, dtype=np.bool_)
    stamp = np.full(num_states, -1, dtype=np.int64)
    stack = np.empty(num_states, dtype=np.int64)
    work = 0
    i = 0
    # Invariant: the first i states that are left have their edges; every target of these is left.
    while i < count and work <= limit:
        stamp[left[i]] = i
        stack[0] = left[i]
        top = 1
        while top > 0:
            top -= 1
            s = stack[top]
            work += 1 + empty_offsets[s + 1] - empty_offsets[s]
            top = _push_empty_moves(s, i, empty_next, empty_offsets, useful, stamp, stack, top)
            if accepting[s]:
                accepts[i] = True
            for k in range(offsets[s], offsets[s + 1]):
                e = order[k]
                t = target[e]
                if not useful[t]:
                    continue
                if number[t] < 0:
                    number[t] = count
                    left[count] = t
                    count += 1
                if num_edges == edges.shape[1]:
                    edges = wider(edges)
                edges[0, num_edges] = i
                edges[1, num_edges] = number[t]
                edges[2, num_edges] = label[e]
                num_edges += 1
                work += 1
        i += 1
    return (
        work,
        head(left, count),
        head(edges[0], num_edges),
        head(edges[1], num_edges),
        head(edges[2], num_edges),
        accepts[:count],
    )


@inlined
def _push_empty_moves(
    s: Any, i: Any, following: Any, offsets: Any, useful: Any, stamp: Any, stack: Any, top: Any
) -> Any:
    """Push the states that empty moves lead to and that have not been in the i-th closure yet."""
    for k in range(offsets[s], offsets[s + 1]):
        t = following[k]
        if stamp[t] != i and useful[t]:
            stamp[t] = i
            stack[top] = t
            top += 1
    return top

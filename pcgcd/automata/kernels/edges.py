"""Sorting and joining edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import grown_rows, head, head_rows, mixed
from pcgcd.automata.kernels.jit import Bits, Indices, compiled_if_large, compiled_part


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


@compiled_part
def by_target(source: Any, target: Any, num_states: int) -> Any:
    """Sort the sources of edges by target, (E,); where each state's begin, (S + 1,).

    As :func:`group`, in 32 bits and without the order.
    """
    offsets = np.zeros(num_states + 1, dtype=np.int64)
    for e in range(len(target)):
        offsets[target[e] + 1] += 1
    for s in range(num_states):
        offsets[s + 1] += offsets[s]
    place = head(offsets, num_states)
    before = np.empty(len(target), dtype=np.int32)
    for e in range(len(target)):
        before[place[target[e]]] = source[e]
        place[target[e]] += 1
    return before, offsets


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

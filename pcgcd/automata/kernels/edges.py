"""Sorting and joining edges, reaching states, removing empty moves."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.growing import grown, head, head_rows, mixed
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled

__all__ = ["group", "intern", "join", "reach", "remove_epsilons"]


@compiled
def group(key: Indices, count: int) -> tuple[Indices, Indices]:
    """The stable order of items by key, and the offsets of the keys in it."""
    offsets = np.zeros(count + 1, dtype=np.int64)
    for i in range(len(key)):
        offsets[key[i] + 1] += 1
    for k in range(count):
        offsets[k + 1] += offsets[k]
    place = head(offsets, count)
    order = np.empty(len(key), dtype=np.int64)
    for i in range(len(key)):
        order[place[key[i]]] = i
        place[key[i]] += 1
    return order, offsets


@compiled
def intern(rows: Bits) -> tuple[Indices, Indices]:
    """The number of each row among the distinct ones, and where each of those is first seen."""
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


@compiled
def join(
    num_states: int, source: Indices, target: Indices, label: Indices, sets: Bits
) -> tuple[Indices, Indices, Indices, Bits]:
    """Edges sorted by source and target, one for each pair, with distinct sets."""
    by_target, _ = group(target, num_states)
    key = np.empty(len(by_target), dtype=np.int64)
    for i in range(len(by_target)):
        key[i] = source[by_target[i]]
    by_source, _ = group(key, num_states)
    words = sets.shape[1]
    new_source = np.empty(len(source), dtype=np.int64)
    new_target = np.empty(len(source), dtype=np.int64)
    rows = np.empty((len(source), words), dtype=np.int64)
    count = 0
    for i in range(len(source)):
        e = by_target[by_source[i]]
        if count > 0 and new_source[count - 1] == source[e] and new_target[count - 1] == target[e]:
            for w in range(words):
                rows[count - 1, w] |= sets[label[e], w]
        else:
            new_source[count] = source[e]
            new_target[count] = target[e]
            for w in range(words):
                rows[count, w] = sets[label[e], w]
            count += 1
    rows = head_rows(rows, count)
    number, first = intern(rows)
    distinct = np.empty((len(first), words), dtype=np.int64)
    for i in range(len(first)):
        for w in range(words):
            distinct[i, w] = rows[first[i], w]
    return head(new_source, count), head(new_target, count), number, distinct


@compiled
def reach(offsets: Indices, target: Indices, start: Mask) -> Mask:
    """The states that can be reached from the start."""
    seen: Mask = start.copy()
    stack = np.empty(len(seen), dtype=np.int64)
    top = 0
    for s in range(len(seen)):
        if seen[s]:
            stack[top] = s
            top += 1
    while top > 0:
        top -= 1
        s = stack[top]
        for e in range(offsets[s], offsets[s + 1]):
            if not seen[target[e]]:
                seen[target[e]] = True
                stack[top] = target[e]
                top += 1
    return seen


@compiled
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

    ``useful`` says which states can reach an accepting one; the others are left out.

    Returns the work done (over the limit: nothing else is valid), the old number of each state that
    is left, its edges, and which of them accept.
    """
    empty_order, empty_offsets = group(empty_source, num_states)
    order, offsets = group(source, num_states)
    number = np.full(num_states, -1, dtype=np.int64)
    left = np.empty(num_states, dtype=np.int64)
    count = 0
    for s in range(num_states):
        if initial[s] and useful[s]:
            number[s] = count
            left[count] = s
            count += 1
    new_source = np.empty(len(source) + 16, dtype=np.int64)
    new_target = np.empty(len(source) + 16, dtype=np.int64)
    new_label = np.empty(len(source) + 16, dtype=np.int64)
    accepts = np.zeros(num_states, dtype=np.bool_)
    stamp = np.full(num_states, -1, dtype=np.int64)
    stack = np.empty(num_states, dtype=np.int64)
    edges = 0
    work = 0
    i = 0
    while i < count:
        stack[0] = left[i]
        stamp[left[i]] = i
        top = 1
        while top > 0:
            top -= 1
            s = stack[top]
            work += 1
            if accepting[s]:
                accepts[i] = True
            for k in range(empty_offsets[s], empty_offsets[s + 1]):
                t = empty_target[empty_order[k]]
                work += 1
                if stamp[t] != i and useful[t]:
                    stamp[t] = i
                    stack[top] = t
                    top += 1
            for k in range(offsets[s], offsets[s + 1]):
                e = order[k]
                t = target[e]
                if not useful[t]:
                    continue
                if number[t] < 0:
                    number[t] = count
                    left[count] = t
                    count += 1
                if edges == len(new_source):
                    new_source = grown(new_source)
                    new_target = grown(new_target)
                    new_label = grown(new_label)
                new_source[edges] = i
                new_target[edges] = number[t]
                new_label[edges] = label[e]
                edges += 1
                work += 1
        if work > limit:
            break
        i += 1
    return (
        work,
        head(left, count),
        head(new_source, edges),
        head(new_target, edges),
        head(new_label, edges),
        accepts[:count],
    )

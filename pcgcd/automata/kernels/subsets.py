"""The subset construction."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.growing import (
    grown,
    grown_rows,
    head,
    head_rows,
    sort_head,
    span_hash,
)
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled

__all__ = ["determinize"]


@compiled
def determinize(
    offsets: Indices,
    target: Indices,
    label: Indices,
    set_offsets: Indices,
    set_classes: Indices,
    num_classes: int,
    num_words: int,
    start: Indices,
    accepting: Mask,
    state_limit: int,
    work_limit: int,
    member_limit: int,
) -> tuple[int, int, Indices, Indices, Bits, Mask]:
    """The reachable sets of states, with one edge for each set of classes that leads to another.

    The classes that leave a set of states are split by the labels they lie in; each part gets one
    edge. So the cost does not grow with the number of classes where few labels meet.

    Returns:
        The number of states, or -1 if a limit was passed; the work done; then source, target and
        set of classes of each edge, and which states accept.
    """
    num_states = len(offsets) - 1
    num_labels = len(set_offsets) - 1
    members = np.empty(max(1024, 2 * num_states), dtype=np.int64)
    first = np.empty(1025, dtype=np.int64)
    hashes = np.empty(1024, dtype=np.int64)
    table = np.full(4096, -1, dtype=np.int64)
    for i in range(len(start)):
        members[i] = start[i]
    first[0] = 0
    first[1] = len(start)
    count = 1
    hashes[0] = span_hash(start, 0, len(start))
    table[hashes[0] & (len(table) - 1)] = 0

    out_source = np.empty(1024, dtype=np.int64)
    out_target = np.empty(1024, dtype=np.int64)
    out_sets = np.zeros((1024, num_words), dtype=np.int64)
    edges = 0
    work = 0

    label_stamp = np.full(num_labels, -1, dtype=np.int64)
    label_head = np.empty(num_labels, dtype=np.int64)
    local_labels = np.empty(num_labels, dtype=np.int64)
    link_next = np.empty(1024, dtype=np.int64)
    link_state = np.empty(1024, dtype=np.int64)
    part_of = np.zeros(num_classes, dtype=np.int64)
    touched = np.empty(num_classes, dtype=np.int64)
    capacity = 2 * num_classes + 2
    part_parent = np.empty(capacity, dtype=np.int64)
    part_label = np.empty(capacity, dtype=np.int64)
    part_split = np.empty(capacity, dtype=np.int64)
    part_stamp = np.empty(capacity, dtype=np.int64)
    part_edge = np.empty(capacity, dtype=np.int64)
    state_stamp = np.full(num_states, -1, dtype=np.int64)
    ticket = 0
    reached = np.empty(num_states, dtype=np.int64)

    current = 0
    while current < count:
        # The distinct labels that leave the set, each with a list of the states it leads to.
        num_local = 0
        links = 0
        for m in range(first[current], first[current + 1]):
            s = members[m]
            for e in range(offsets[s], offsets[s + 1]):
                l = label[e]
                if label_stamp[l] != current:
                    label_stamp[l] = current
                    label_head[l] = -1
                    local_labels[num_local] = l
                    num_local += 1
                if links == len(link_next):
                    link_next = grown(link_next)
                    link_state = grown(link_state)
                link_next[links] = label_head[l]
                link_state[links] = target[e]
                label_head[l] = links
                links += 1
        work += links
        # Part 0 holds the classes that are in no label so far.
        num_parts = 1
        num_touched = 0
        part_stamp[0] = -1
        for j in range(num_local):
            l = local_labels[j]
            for k in range(set_offsets[l], set_offsets[l + 1]):
                c = set_classes[k]
                p = part_of[c]
                if p == 0:
                    touched[num_touched] = c
                    num_touched += 1
                if part_stamp[p] != j:
                    part_stamp[p] = j
                    if num_parts == len(part_parent):
                        part_parent = grown(part_parent)
                        part_label = grown(part_label)
                        part_split = grown(part_split)
                        part_stamp = grown(part_stamp)
                        part_edge = grown(part_edge)
                    part_split[p] = num_parts
                    part_parent[num_parts] = p
                    part_label[num_parts] = l
                    part_stamp[num_parts] = j
                    part_edge[num_parts] = -1
                    num_parts += 1
                part_of[c] = part_split[p]
            work += set_offsets[l + 1] - set_offsets[l]
        for j in range(num_touched):
            c = touched[j]
            p = part_of[c]
            part_of[c] = 0
            if part_edge[p] < 0:
                size = 0
                q = p
                while q > 0:
                    link = label_head[part_label[q]]
                    while link >= 0:
                        work += 1
                        t = link_state[link]
                        if state_stamp[t] != ticket:
                            state_stamp[t] = ticket
                            reached[size] = t
                            size += 1
                        link = link_next[link]
                    q = part_parent[q]
                ticket += 1
                sort_head(reached, size)
                h = span_hash(reached, 0, size)
                slot = h & (len(table) - 1)
                found = -1
                while table[slot] >= 0:
                    other = table[slot]
                    if hashes[other] == h and first[other + 1] - first[other] == size:
                        same = True
                        for a in range(size):
                            if members[first[other] + a] != reached[a]:
                                same = False
                                break
                        if same:
                            found = other
                            break
                    slot = (slot + 1) & (len(table) - 1)
                if found < 0:
                    found = count
                    if count >= state_limit or first[count] + size > member_limit:
                        return -1, work, out_source, out_target, out_sets, accepting
                    while first[count] + size > len(members):
                        members = grown(members)
                    for a in range(size):
                        members[first[count] + a] = reached[a]
                    if count + 1 == len(hashes):
                        hashes = grown(hashes)
                        first = grown(first)
                    first[count + 1] = first[count] + size
                    hashes[count] = h
                    table[slot] = count
                    count += 1
                    work += size
                    if 2 * count > len(table):
                        table = np.full(2 * len(table), -1, dtype=np.int64)
                        for a in range(count):
                            slot = hashes[a] & (len(table) - 1)
                            while table[slot] >= 0:
                                slot = (slot + 1) & (len(table) - 1)
                            table[slot] = a
                if edges == len(out_source):
                    out_source = grown(out_source)
                    out_target = grown(out_target)
                    out_sets = grown_rows(out_sets)
                out_source[edges] = current
                out_target[edges] = found
                part_edge[p] = edges
                edges += 1
            out_sets[part_edge[p], c >> 6] |= np.int64(1) << (c & 63)
        if work > work_limit:
            return -1, work, out_source, out_target, out_sets, accepting
        current += 1

    accepts = np.zeros(count, dtype=np.bool_)
    for i in range(count):
        for m in range(first[i], first[i + 1]):
            if accepting[members[m]]:
                accepts[i] = True
                break
    return (
        count,
        work,
        head(out_source, edges),
        head(out_target, edges),
        head_rows(out_sets, edges),
        accepts,
    )

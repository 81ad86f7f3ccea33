"""The coarsest partition of states that their edges respect."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.edges import group
from pcgcd.automata.kernels.growing import head, mixed, sort_head, span_hash
from pcgcd.automata.kernels.jit import Bits, Indices, compiled

__all__ = ["breadth_first", "refine"]


@compiled
def refine(
    offsets: Indices,
    target: Indices,
    label: Indices,
    sets: Bits,
    block: Indices,
    num_blocks: int,
    work_limit: int,
) -> tuple[Indices, int]:
    """Split the given blocks until equal block means equal edges to equal blocks.

    In each round the states with a successor in a new block are looked at again. They differ from
    the others of their block, which have no such successor, and are told apart by what they
    lead to: for each block, the union of the labels. Of the pieces of a block the largest keeps the
    number, so a state changes its block at most log2(S) times.

    For a deterministic automaton without dead states that gives the minimal one, for any other
    the largest bisimulation. With many choices a state may be looked at so often that it takes too
    long: past the limit of edges looked at, the number of blocks is returned as -1.
    """
    num_states = len(offsets) - 1
    words = sets.shape[1]
    source = np.empty(len(target), dtype=np.int64)
    for s in range(num_states):
        for e in range(offsets[s], offsets[s + 1]):
            source[e] = s
    in_order, in_offsets = group(target, num_states)

    block = head(block, num_states)
    elements, starts = group(block, num_blocks)
    place = np.empty(num_states, dtype=np.int64)
    for i in range(num_states):
        place[elements[i]] = i
    first = np.empty(num_states + 1, dtype=np.int64)
    end = np.empty(num_states + 1, dtype=np.int64)
    for b in range(num_blocks):
        first[b] = starts[b]
        end[b] = starts[b + 1]

    size = 16
    while size < 2 * num_states:
        size *= 2
    table = np.empty(size, dtype=np.int64)
    table_round = np.full(size, -1, dtype=np.int64)

    dirty = np.arange(num_states)
    num_dirty = num_states
    next_dirty = np.empty(num_states, dtype=np.int64)
    dirty_round = np.full(num_states, -1, dtype=np.int64)
    group_of = np.empty(num_states, dtype=np.int64)
    group_first = np.empty(num_states + 1, dtype=np.int64)
    group_begin = np.empty(num_states, dtype=np.int64)
    group_length = np.empty(num_states, dtype=np.int64)
    group_size = np.empty(num_states, dtype=np.int64)
    group_block = np.empty(num_states, dtype=np.int64)
    ordered = np.empty(num_states, dtype=np.int64)
    block_round = np.full(num_states + 1, -1, dtype=np.int64)
    block_dirty = np.empty(num_states + 1, dtype=np.int64)
    block_largest = np.empty(num_states + 1, dtype=np.int64)
    changed_blocks = np.empty(num_states + 1, dtype=np.int64)
    slot_of = np.full(num_states + 1, -1, dtype=np.int64)
    signatures = np.empty(len(target) * (1 + words) + 1, dtype=np.int64)
    degree = 1
    for s in range(num_states):
        degree = max(degree, offsets[s + 1] - offsets[s])
    found = np.empty(degree, dtype=np.int64)
    unions = np.empty((degree, words), dtype=np.int64)

    round_ = 0
    work = 0
    while num_dirty > 0:
        if work > work_limit:
            return block, -1
        num_groups = 0
        used = 0
        num_changed = 0
        for i in range(num_dirty):
            s = dirty[i]
            work += offsets[s + 1] - offsets[s]
            count = 0
            for e in range(offsets[s], offsets[s + 1]):
                b = block[target[e]]
                k = slot_of[b]
                if k < 0:
                    slot_of[b] = count
                    found[count] = b
                    for w in range(words):
                        unions[count, w] = sets[label[e], w]
                    count += 1
                else:
                    for w in range(words):
                        unions[k, w] |= sets[label[e], w]
            sort_head(found, count)
            begin = used
            for x in range(count):
                b = found[x]
                signatures[used] = b
                used += 1
                for w in range(words):
                    signatures[used] = unions[slot_of[b], w]
                    used += 1
            for x in range(count):
                slot_of[found[x]] = -1
            length = used - begin
            b = block[s]
            slot = mixed(span_hash(signatures, begin, used), b) & (size - 1)
            chosen = -1
            while table_round[slot] == round_:
                g = table[slot]
                if group_block[g] == b and group_length[g] == length:
                    same = True
                    for x in range(length):
                        if signatures[group_begin[g] + x] != signatures[begin + x]:
                            same = False
                            break
                    if same:
                        chosen = g
                        break
                slot = (slot + 1) & (size - 1)
            if chosen < 0:
                chosen = num_groups
                num_groups += 1
                table[slot] = chosen
                table_round[slot] = round_
                group_block[chosen] = b
                group_begin[chosen] = begin
                group_length[chosen] = length
                group_size[chosen] = 0
            else:
                used = begin
            group_of[s] = chosen
            group_size[chosen] += 1
            if block_round[b] != round_:
                block_round[b] = round_
                block_dirty[b] = 0
                changed_blocks[num_changed] = b
                num_changed += 1
            block_dirty[b] += 1

        group_first[0] = 0
        for g in range(num_groups):
            group_first[g + 1] = group_first[g] + group_size[g]
        for i in range(num_dirty):
            g = group_of[dirty[i]]
            ordered[group_first[g]] = dirty[i]
            group_first[g] += 1
        for g in range(num_groups):
            group_first[g] -= group_size[g]

        # -1: the states that are not dirty keep the number.
        for i in range(num_changed):
            block_largest[changed_blocks[i]] = -1
        for g in range(num_groups):
            b = group_block[g]
            best = block_largest[b]
            rest = end[b] - first[b] - block_dirty[b]
            if group_size[g] > (rest if best < 0 else group_size[best]):
                block_largest[b] = g

        old_blocks = num_blocks
        for g in range(num_groups):
            b = group_block[g]
            if block_largest[b] == g:
                continue
            first[num_blocks] = end[b] - group_size[g]
            end[num_blocks] = end[b]
            for x in range(group_first[g], group_first[g] + group_size[g]):
                s = ordered[x]
                end[b] -= 1
                other = elements[end[b]]
                elements[place[s]] = other
                place[other] = place[s]
                elements[end[b]] = s
                place[s] = end[b]
                block[s] = num_blocks
            num_blocks += 1
        for i in range(num_changed):
            b = changed_blocks[i]
            g = block_largest[b]
            if g < 0 or end[b] - first[b] == group_size[g]:
                continue
            # The largest piece keeps the number; the states that were not looked at leave it.
            for x in range(group_size[g]):
                s = ordered[group_first[g] + x]
                other = elements[first[b] + x]
                elements[place[s]] = other
                place[other] = place[s]
                elements[first[b] + x] = s
                place[s] = first[b] + x
            first[num_blocks] = first[b] + group_size[g]
            end[num_blocks] = end[b]
            end[b] = first[num_blocks]
            for x in range(first[num_blocks], end[num_blocks]):
                block[elements[x]] = num_blocks
            num_blocks += 1

        count = 0
        for b in range(old_blocks, num_blocks):
            for x in range(first[b], end[b]):
                t = elements[x]
                for k in range(in_offsets[t], in_offsets[t + 1]):
                    s = source[in_order[k]]
                    if dirty_round[s] != round_:
                        dirty_round[s] = round_
                        if end[block[s]] - first[block[s]] > 1:
                            next_dirty[count] = s
                            count += 1
        dirty, next_dirty = next_dirty, dirty
        num_dirty = count
        round_ += 1
    return block, num_blocks


@compiled
def breadth_first(offsets: Indices, target: Indices, start: Indices) -> Indices:
    """A number for each state: in the order of a breadth-first walk, edges taken as they come."""
    num_states = len(offsets) - 1
    number = np.full(num_states, -1, dtype=np.int64)
    queue = np.empty(num_states, dtype=np.int64)
    count = 0
    for i in range(len(start)):
        number[start[i]] = count
        queue[count] = start[i]
        count += 1
    i = 0
    while i < count:
        s = queue[i]
        i += 1
        for e in range(offsets[s], offsets[s + 1]):
            if number[target[e]] < 0:
                number[target[e]] = count
                queue[count] = target[e]
                count += 1
    for s in range(num_states):
        if number[s] < 0:
            number[s] = count
            count += 1
    return number

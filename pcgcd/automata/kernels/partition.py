"""The coarsest partition of states that their edges respect."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.edges import by_target, group, join
from pcgcd.automata.kernels.growing import head, mixed, sort_head, span_hash
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, inlined
from pcgcd.automata.kernels.searches import search
from pcgcd.automata.limits import NEVER


class _Blocks(NamedTuple):
    """A partition of states that can be split in place.

    ``of`` (S,) is the block of each state; block b is ``states[first[b]:end[b]]``; ``place`` (S,)
    says where each state is in ``states`` (S,).
    """

    of: Any
    states: Any
    place: Any
    first: Any
    end: Any


@compiled_if_large()
def quotient(
    source: Indices, target: Indices, label: Indices, sets: Bits, accepting: Mask, work_limit: int
) -> tuple[Indices, int, Indices, Indices, Indices, Bits]:
    """Join the states that are bisimilar: the largest bisimulation that respects acceptance.

    The blocks at first are the least numbers of steps to acceptance, which are equal for bisimilar
    states. For a deterministic automaton without dead states this gives the minimal one.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: Its row in ``sets``, (E,).
        sets: Sets of classes as bits, (L, words).
        accepting: Which states accept, (S,).
        work_limit: How many edges to look at.

    Returns:
        The new number of each state, (S,), and how many states are left: -1 past the limit of work,
        and then, as where all are left, nothing else is valid; the source, target and label of each
        edge, sorted, and their sets.
    """
    num_states = len(accepting)
    order, offsets = group(source, num_states)
    by_source = np.empty((2, len(order)), dtype=np.int32)  # target, label
    for i in range(len(order)):
        by_source[0, i] = target[order[i]]
        by_source[1, i] = label[order[i]]
    before, before_offsets = _predecessors(offsets, by_source[0])
    _, distance = search(before_offsets, before, accepting)
    most, num_blocks = -1, 0
    for s in range(num_states):
        if distance[s] < NEVER:
            most = max(most, distance[s])
    for s in range(num_states):
        distance[s] = min(distance[s], most + 1)  # the last one: no way
        num_blocks = max(num_blocks, distance[s] + 1)
    edges = _Edges(offsets, by_source[0], by_source[1], before_offsets, before)
    block, count = _refined(edges, sets, distance, num_blocks, work_limit)
    if count == -1 or count == num_states:
        return block, count, offsets[:0], offsets[:0], offsets[:0], sets[:0]
    # The first state of each block has the edges of it.
    first = np.full(count, -1, dtype=np.int64)
    for s in range(num_states):
        if first[block[s]] < 0:
            first[block[s]] = s
    kept = np.empty((3, len(order)), dtype=np.int64)  # source, target, label
    num_edges = 0
    for b in range(count):
        for e in range(offsets[first[b]], offsets[first[b] + 1]):
            kept[0, num_edges] = b
            kept[1, num_edges] = block[by_source[0, e]]
            kept[2, num_edges] = by_source[1, e]
            num_edges += 1
    result = join(count, kept[0, :num_edges], kept[1, :num_edges], kept[2, :num_edges], sets)
    return block, count, result[0], result[1], result[2], result[3]


class _Edges(NamedTuple):
    """Edges by source: where those of each state begin, their targets and labels.

    And by target: where those of each state begin, and their sources.
    """

    offsets: Any
    target: Any
    label: Any
    before_offsets: Any
    before: Any


@inlined
def _refined(edges: Any, sets: Any, block: Any, num_blocks: Any, work_limit: Any) -> Any:
    """Split the given blocks until equal block means equal edges to equal blocks.

    The relational coarsest partition (Paige & Tarjan 1987, "Three partition refinement
    algorithms"), by signatures (Blom & Orzan 2002, "A distributed algorithm for strong bisimulation
    reduction of state spaces") that only dirty states compute anew (Jacobs & Wissmann 2023, "Fast
    coalgebraic bisimilarity minimization"). A state is dirty if a successor has got a new block;
    its signature is, for each block that it leads to, the union of the labels. Of the pieces of a
    block the largest keeps the number (Hopcroft 1971, "An n log n algorithm for minimizing states
    in a finite automaton"), so a state changes its block at most log2(S) times, and the time is
    O(k E log S) with at most k edges from a state. Paige and Tarjan have no factor k: they count
    edges to unions of blocks, which edges with sets of letters do not allow.

    With many choices a state may be looked at so often that it takes too long: past the limit of
    edges looked at, the number of blocks is returned as -1.

    Returns:
        The block of each state, (S,), and the number of blocks.
    """
    offsets, target, label, before_offsets, before = edges
    num_states = len(offsets) - 1
    blocks = _blocks(block, num_blocks, num_states)
    dirty, next_dirty = np.arange(num_states), np.empty(num_states, dtype=np.int64)
    num_dirty = num_states
    seen = np.full(num_states, -1, dtype=np.int64)  # the round in which it was last found dirty
    pool = np.empty(len(target) * (1 + sets.shape[1]), dtype=np.int64)
    ends = np.empty(num_states, dtype=np.int64)
    slot = np.full(num_states + 1, -1, dtype=np.int64)
    found, unions = _room_for_a_state(offsets, sets.shape[1])
    table = _empty_table(num_states)
    key = np.empty(num_states, dtype=np.int64)
    group_block, first_member = (
        np.empty(num_states, dtype=np.int64),
        np.empty(num_states, dtype=np.int64),
    )
    touched, in_touched = np.empty(num_states, dtype=np.int64), np.zeros(num_states, dtype=np.int64)
    largest = np.empty(num_states, dtype=np.int64)
    round_ = base = work = 0
    # Invariant: the states of a block that are not dirty have equal signatures, and no dirty state
    # of it has the same, since it leads to a block that is new. States that are bisimilar (within
    # the blocks given) are in one block.
    while num_dirty > 0 and work <= work_limit:
        now = dirty[:num_dirty]
        work += _sign(now, offsets, target, label, sets, blocks.of, slot, found, unions, pool, ends)
        num_groups = _find_groups(
            now, blocks.of, pool, ends, table, base, key, group_block, first_member
        )
        base += num_groups
        order, first = group(key[:num_dirty], num_groups)
        num_touched = _choose_largest(blocks, group_block, first, touched, in_touched, largest)
        old_blocks = num_blocks
        num_blocks = _split_off_groups(blocks, group_block, now, order, first, largest, num_blocks)
        num_blocks = _split_off_rests(
            blocks, now, order, first, touched[:num_touched], in_touched, largest, num_blocks
        )
        num_dirty = _mark_predecessors(
            blocks, old_blocks, num_blocks, before, before_offsets, seen, round_, next_dirty
        )
        dirty, next_dirty = next_dirty, dirty
        round_ += 1
    return blocks.of, num_blocks if num_dirty == 0 else -1


@inlined
def _predecessors(offsets: Any, target: Any) -> Any:
    """Sort the sources of the edges by target, (E,); where each state's begin, (S + 1,)."""
    source = np.empty(len(target), dtype=np.int32)
    for s in range(len(offsets) - 1):
        for e in range(offsets[s], offsets[s + 1]):
            source[e] = s
    return by_target(source, target, len(offsets) - 1)


@inlined
def _blocks(block: Any, num_blocks: Any, num_states: Any) -> Any:
    states, starts = group(block, num_blocks)
    place = np.empty(num_states, dtype=np.int64)
    for i in range(num_states):
        place[states[i]] = i
    first = np.empty(num_states + 1, dtype=np.int64)
    end = np.empty(num_states + 1, dtype=np.int64)
    for b in range(num_blocks):
        first[b] = starts[b]
        end[b] = starts[b + 1]
    return _Blocks(head(block, num_states), states, place, first, end)


@inlined
def _room_for_a_state(offsets: Any, words: Any) -> Any:
    """Return the blocks that a state leads to, (k,), and the labels of these edges, (k, words)."""
    degree = 1
    for s in range(len(offsets) - 1):
        degree = max(degree, offsets[s + 1] - offsets[s])
    return np.empty(degree, dtype=np.int32), np.empty((degree, words), dtype=np.int64)


@inlined
def _empty_table(num_states: Any) -> Any:
    size = 16
    while size < 2 * num_states:
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@inlined
def _sign(
    dirty: Any,
    offsets: Any,
    target: Any,
    label: Any,
    sets: Any,
    block: Any,
    slot: Any,
    found: Any,
    unions: Any,
    pool: Any,
    ends: Any,
) -> Any:
    """Write the signatures of states to the pool, one after the other; the number of their edges.

    The i-th ends before ``ends[i]``. It is a block and a union of labels in turn, blocks rising.
    """
    words = sets.shape[1]
    work = end = 0
    for i in range(len(dirty)):
        s = dirty[i]
        work += offsets[s + 1] - offsets[s]
        count = 0
        for e in range(offsets[s], offsets[s + 1]):
            b = block[target[e]]
            k = slot[b]
            if k < 0:
                slot[b] = count
                found[count] = b
                for w in range(words):
                    unions[count, w] = sets[label[e], w]
                count += 1
            else:
                for w in range(words):
                    unions[k, w] |= sets[label[e], w]
        sort_head(found, count)
        for x in range(count):
            b = found[x]
            pool[end] = b
            for w in range(words):
                pool[end + 1 + w] = unions[slot[b], w]
            end += 1 + words
            slot[b] = -1
        ends[i] = end
    return work


@inlined
def _find_groups(
    dirty: Any,
    block: Any,
    pool: Any,
    ends: Any,
    table: Any,
    base: Any,
    key: Any,
    group_block: Any,
    first_member: Any,
) -> Any:
    """Group states by block and signature: ``key`` gets the group of each; how many there are.

    ``table`` holds ``base`` + group, where ``base`` counts the groups of earlier rounds, so that it
    never has to be cleared.
    """
    num_groups = begin = 0
    for i in range(len(dirty)):
        b = block[dirty[i]]
        length = ends[i] - begin
        slot = mixed(span_hash(pool, begin, ends[i]), b) & (len(table) - 1)
        chosen = -1
        while table[slot] >= base:
            g = table[slot] - base
            other = ends[first_member[g] - 1] if first_member[g] > 0 else 0
            if group_block[g] == b and ends[first_member[g]] - other == length:
                x = 0
                while x < length and pool[other + x] == pool[begin + x]:
                    x += 1
                if x == length:
                    chosen = g
                    break
            slot = (slot + 1) & (len(table) - 1)
        if chosen < 0:
            chosen = num_groups
            num_groups += 1
            table[slot] = base + chosen
            group_block[chosen] = b
            first_member[chosen] = i
        key[i] = chosen
        begin = ends[i]
    return num_groups


@inlined
def _choose_largest(
    blocks: Any, group_block: Any, first: Any, touched: Any, in_touched: Any, largest: Any
) -> Any:
    """Return the largest piece of each block: a group, or -1 for the states that are not dirty.

    Returns:
        The number of blocks with groups; ``in_touched`` is how many dirty states each has.
    """
    num_touched = 0
    for g in range(len(first) - 1):
        b = group_block[g]
        if in_touched[b] == 0:
            largest[b] = -1
            touched[num_touched] = b
            num_touched += 1
        in_touched[b] += first[g + 1] - first[g]
    for g in range(len(first) - 1):
        b = group_block[g]
        best = largest[b]
        size = blocks.end[b] - blocks.first[b] - in_touched[b]
        if best >= 0:
            size = first[best + 1] - first[best]
        if first[g + 1] - first[g] > size:
            largest[b] = g
    return num_touched


@inlined
def _swap(states: Any, place: Any, s: Any, to: Any) -> None:
    """Put a state to another place, and the one that is there to its own."""
    other = states[to]
    states[place[s]] = other
    place[other] = place[s]
    states[to] = s
    place[s] = to


@inlined
def _split_off_groups(
    blocks: Any,
    group_block: Any,
    dirty: Any,
    order: Any,
    first: Any,
    largest: Any,
    num_blocks: Any,
) -> Any:
    """Move every group but the largest to the end of its block, as a block of its own."""
    states, place, end = blocks.states, blocks.place, blocks.end
    for g in range(len(first) - 1):
        b = group_block[g]
        if largest[b] == g:
            continue
        end[num_blocks] = end[b]
        for x in range(first[g], first[g + 1]):
            s = dirty[order[x]]
            end[b] -= 1
            _swap(states, place, s, end[b])
            blocks.of[s] = num_blocks
        blocks.first[num_blocks] = end[b]
        num_blocks += 1
    return num_blocks


@inlined
def _split_off_rests(
    blocks: Any,
    dirty: Any,
    order: Any,
    first: Any,
    touched: Any,
    in_touched: Any,
    largest: Any,
    num_blocks: Any,
) -> Any:
    """Where a group is the largest piece, the states that are not dirty get the new block."""
    states, place, end = blocks.states, blocks.place, blocks.end
    for i in range(len(touched)):
        b = touched[i]
        in_touched[b] = 0
        g = largest[b]
        if g < 0 or first[g + 1] - first[g] == end[b] - blocks.first[b]:
            continue
        middle = blocks.first[b]
        for x in range(first[g], first[g + 1]):
            _swap(states, place, dirty[order[x]], middle)
            middle += 1
        blocks.first[num_blocks] = middle
        end[num_blocks] = end[b]
        end[b] = middle
        for x in range(middle, end[num_blocks]):
            blocks.of[states[x]] = num_blocks
        num_blocks += 1
    return num_blocks


@inlined
def _mark_predecessors(
    blocks: Any,
    old_blocks: Any,
    num_blocks: Any,
    before: Any,
    before_offsets: Any,
    seen: Any,
    round_: Any,
    dirty: Any,
) -> Any:
    """Write the states with an edge into a new block to ``dirty``, but none that is alone."""
    of, states, first, end = blocks.of, blocks.states, blocks.first, blocks.end
    count = 0
    for b in range(old_blocks, num_blocks):
        for x in range(first[b], end[b]):
            t = states[x]
            for k in range(before_offsets[t], before_offsets[t + 1]):
                s = before[k]
                if seen[s] != round_:
                    seen[s] = round_
                    if end[of[s]] - first[of[s]] > 1:
                        dirty[count] = s
                        count += 1
    return count

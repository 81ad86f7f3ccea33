"""Walks over a vocabulary's trie, from one state of a byte automaton.

All tokens are read from a state at once: a depth-first walk over the prefix tree keeps the
automaton's state for each byte of the current prefix, so bytes that tokens share are read once.
(Willard & Louf 2023, "Efficient guided generation for large language models", build the same index
token by token.) Where all bytes of a subtree leave the state as it is, the subtree is one interval
and is not entered. Where the automaton has several targets, the subtree is walked with sets of
states, as Thompson (1968) runs an automaton. A walk takes O(nodes entered), times the size of the
sets.

Sets of tokens are lists of intervals of ranks (see :class:`pcgcd.automata.vocabulary.trie.Trie`),
the longest possible ones, so equal sets are equal lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.jit import in_place

EMPTY = -1  # no target; the k-th cell with several targets is -2 - k


class Moves(NamedTuple):
    """The transitions of a byte automaton.

    The bytes after which a state goes on alike are a *slot* of it, numbered by their first byte.
    Slot j of state s leads to ``targets[start[s] + j]``: a state, or -2 - k for the states
    ``several[first[k]:first[k + 1]]``. States with the same slots have the same *pattern*: row
    ``kind[s]`` of ``pattern`` (P, C) has the slot of each class of bytes, or EMPTY, ``size`` (P, 2)
    the number of slots and of bytes in them, and ``name`` (P, 4) says which pattern it is, the same
    in all automata that share walks. A name of zeros is that of states without transitions yet.
    ``loops`` (S, 4) are the bytes on which a state only stays, as bits. ``byte_class`` (256,) is
    the column of each byte.
    """

    pattern: Any
    size: Any
    name: Any
    kind: Any
    start: Any
    targets: Any
    several: Any
    first: Any
    loops: Any
    byte_class: Any


class Output(NamedTuple):
    """What the walk from one state finds: intervals of ranks ``low .. high``, each with a target.

    Later they are sorted by target, into ``bounds``: each target has a slot (``slot_of`` (S,), if
    its ``slot_stamp`` (S,) is the number of the walk), with its ``slot_target``, where its
    intervals begin (``slot_first``) and the label of what a template has found (``slot_base``, -1
    for none). ``counter``: the number of the walk, of slots, of intervals; whether the room for
    intervals or for sets of states was too small; the number of sets. ``path`` is the state after
    each byte of the current prefix, or ``pool[pool_first[d]:pool_first[d + 1]]`` are the states;
    ``mark`` (S,) is the last set that a state was put into. Hot loops take the arrays out of these
    tuples first: a call with a tuple counts references to each of its arrays.
    """

    target: Any
    low: Any
    high: Any
    bounds: Any
    slot_of: Any
    slot_stamp: Any
    slot_target: Any
    slot_last: Any
    slot_first: Any
    slot_base: Any
    counter: Any
    path: Any
    pool: Any
    pool_first: Any
    mark: Any


def new_output(num_states: int, depth: int, num_intervals: int, num_members: int) -> Output:
    """Room for the walk from one state."""
    return Output(
        np.empty(num_intervals, dtype=np.int32),
        np.empty(num_intervals, dtype=np.int32),
        np.empty(num_intervals, dtype=np.int32),
        np.empty(2 * num_intervals, dtype=np.int32),
        np.zeros(num_states, dtype=np.int32),
        np.zeros(num_states, dtype=np.int64),
        np.zeros(num_states, dtype=np.int32),
        np.zeros(num_states, dtype=np.int64),
        np.zeros(num_states + 1, dtype=np.int64),
        np.zeros(num_states, dtype=np.int64),
        np.zeros(5, dtype=np.int64),
        np.zeros(depth + 1, dtype=np.int64),
        np.empty(num_members, dtype=np.int32),
        np.zeros(depth + 3, dtype=np.int64),
        np.zeros(num_states, dtype=np.int64),
    )


@in_place
def begin_walk(out: Any, source: Any) -> None:
    """Forget the last walk; the next one is from the given state."""
    out.counter[0] += 1
    out.counter[1] = out.counter[2] = out.counter[3] = 0
    out.path[0] = source


@in_place
def slot_for(out: Any, target: Any) -> Any:
    """Return the slot of a target, a new one if this walk has not met it before."""
    counter = out.counter
    if out.slot_stamp[target] != counter[0]:
        slot = counter[1]
        out.slot_stamp[target] = counter[0]
        out.slot_of[target] = slot
        out.slot_target[slot] = target
        out.slot_last[slot] = -1
        out.slot_first[slot] = 0
        out.slot_base[slot] = -1
        counter[1] += 1
    return out.slot_of[target]


@in_place
def sort_by_target(out: Any) -> None:
    """Write the bounds of each slot's intervals to ``out.bounds``, neighbouring intervals joined.

    ``slot_first`` becomes where each slot's intervals begin. A counting sort by slot, in O(n).
    """
    target, low, high, bounds = out.target, out.low, out.high, out.bounds
    last, first = out.slot_last, out.slot_first
    slot_of, slot_stamp, number = out.slot_of, out.slot_stamp, out.counter[0]
    count = out.counter[2]
    # Invariant: first[slot] intervals of the slot are left so far, and last[slot] is the last one.
    for i in range(count):
        if slot_stamp[target[i]] != number:
            slot_for(out, target[i])
        slot = slot_of[target[i]]
        before = last[slot]
        if before >= 0 and high[before] == low[i]:
            high[before] = high[i]
            target[i] = -1
        else:
            last[slot] = i
            first[slot] += 1
            target[i] = slot
    start = np.int64(0)
    for slot in range(out.counter[1]):
        size = first[slot]
        first[slot] = start
        last[slot] = start
        start += size
    first[out.counter[1]] = start
    for i in range(count):
        slot = target[i]
        if slot >= 0:
            bounds[2 * last[slot]] = low[i]
            bounds[2 * last[slot] + 1] = high[i]
            last[slot] += 1


@in_place
def stays_below(below: Any, node: Any, loops: Any, state: Any) -> Any:
    """Return whether all bytes below a node leave the state where it is."""
    return (
        (below[node, 0] & ~loops[state, 0])
        | (below[node, 1] & ~loops[state, 1])
        | (below[node, 2] & ~loops[state, 2])
        | (below[node, 3] & ~loops[state, 3])
    ) == 0


@in_place
def _walk_sets(nodes: Any, moves: Any, start: Any, state: Any, out: Any) -> None:
    """Walk the subtree of a node with sets of states, kept on a stack.

    The set of depth d is ``pool[pool_first[d]:pool_first[d + 1]]``, and all sets of the current
    prefix lie one after the other, so leaving a subtree frees its sets.
    """
    trie_byte, trie_depth, trie_end = nodes.byte, nodes.depth, nodes.end
    first_rank, below = nodes.first_rank, nodes.below
    pattern, kind, starts, targets = moves.pattern, moves.kind, moves.start, moves.targets
    loops, byte_class = moves.loops, moves.byte_class
    several, several_first = moves.several, moves.first
    pool, first, mark = out.pool, out.pool_first, out.mark
    out_target, out_low, out_high = out.target, out.low, out.high
    place, stamp = out.counter[2], out.counter[4]
    bottom = trie_depth[start]
    first[bottom - 1] = 0
    first[bottom] = 1
    pool[0] = state
    node, stop = start, trie_end[start]
    while node < stop:
        depth = trie_depth[node]
        letter = byte_class[trie_byte[node]]
        begin = first[depth]
        count = begin
        stamp += 1
        for i in range(first[depth - 1], begin):
            slot = pattern[kind[pool[i]], letter]
            if slot < 0:
                continue
            cell = targets[starts[pool[i]] + slot]
            number = 1
            if cell < 0:
                number = several_first[-1 - cell] - several_first[-2 - cell]
            for k in range(number):
                target = cell if cell >= 0 else several[several_first[-2 - cell] + k]
                if mark[target] != stamp:
                    mark[target] = stamp
                    if count == len(pool):
                        out.counter[3] = 1
                        return
                    pool[count] = target
                    count += 1
        following = trie_end[node]
        if count == begin:
            node = following
            continue
        first[depth + 1] = count
        stays = True
        if following != node + 1:
            for i in range(begin, count):
                if not stays_below(below, node, loops, pool[i]):
                    stays = False
                    break
        low = first_rank[node]
        node = following if stays else node + 1
        if low != first_rank[node]:
            if place + count - begin > len(out_low):
                out.counter[3] = 1
                return
            for i in range(begin, count):
                out_target[place] = pool[i]
                out_low[place] = low
                out_high[place] = first_rank[node]
                place += 1
    out.counter[2] = place
    out.counter[4] = stamp


@in_place
def walk(nodes: Any, moves: Any, node: Any, stop: Any, out: Any) -> None:
    """Walk the nodes up to ``stop``, where ``out.path`` holds the state above the first of them.

    The nodes are in preorder, so going on means adding one, and leaving a subtree is a jump.
    """
    trie_byte, trie_depth, trie_end = nodes.byte, nodes.depth, nodes.end
    first_rank, below = nodes.first_rank, nodes.below
    pattern, kind, starts, targets = moves.pattern, moves.kind, moves.start, moves.targets
    loops, byte_class = moves.loops, moves.byte_class
    path, out_target, out_low, out_high = out.path, out.target, out.low, out.high
    place = out.counter[2]
    # Invariant: path[d] is the state after d bytes for each prefix of the node's own.
    while node < stop:
        depth = trie_depth[node]
        above = path[depth - 1]
        slot = pattern[kind[above], byte_class[trie_byte[node]]]
        following = trie_end[node]
        if slot < 0:
            node = following
            continue
        there = targets[starts[above] + slot]
        if there < 0:
            out.counter[2] = place
            _walk_sets(nodes, moves, node, above, out)
            place = out.counter[2]
            node = following
            continue
        low = first_rank[node]
        if following == node + 1 or stays_below(below, node, loops, there):
            node = following
        else:
            path[depth] = there
            node += 1
        if low != first_rank[node]:
            if place == len(out_low):
                out.counter[3] = 1
                return
            out_target[place] = there
            out_low[place] = low
            out_high[place] = first_rank[node]
            place += 1
    out.counter[2] = place


@in_place
def walk_whole(nodes: Any, moves: Any, source: Any, out: Any) -> None:
    """Walk the whole trie from a state, below the bytes that lead anywhere."""
    for b in range(256):
        node = np.int64(nodes.start[b])
        if node > 0 and moves.pattern[moves.kind[source], moves.byte_class[b]] >= 0:
            walk(nodes, moves, node, np.int64(nodes.end[node]), out)
            if out.counter[3]:
                return

"""Walks that many states share, also states of different automata.

States inside the strings of a constraint, for example, differ only in what comes after the string.
Such a walk is done once, as a *template*: on local states, numbered as they are met, along with a
trace of the pattern of each and of every transition it looked at. Narrow transitions (a few ASCII
bytes, such as a closing quote) are not followed, but noted as *exits*. Another state with the same
trace has the same walk up to the names of states, and only the exits remain to be walked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.jit import in_place, inlined
from pcgcd.automata.kernels.lists import close_list, has_room, intern_list, new_lists, reserved
from pcgcd.automata.kernels.walks import sort_by_target, stays_below, walk

TEMPLATE_BYTES = 5  # fewer live bytes: a walk of its own is as fast
TEMPLATE_LIMIT = 4096

_EXIT = -2
_UNSEEN = -3
LOCAL_LIMIT = 512
_DEPTH = 24  # longer tokens are left to the exits
_CANDIDATES = 32
_NARROW = 4
_SLOTS = 256  # of a state at most
_WORDS = 4  # of a name


class Scratch(NamedTuple):
    """A template in the making: local states, their transitions, the trace and the exits.

    ``state`` (locals,) names the local states; ``local_of`` (S,) is the other way round where
    ``stamp`` (S,) is the number of the template. ``delta`` (locals, _SLOTS) is where the slots of a
    local state lead to, or _EXIT or _UNSEEN, ``loops`` (locals, 4) as in
    :class:`pcgcd.automata.kernels.walks.Moves`. The ``trace`` has the name of each new local state,
    and local * _SLOTS + slot with the result for each slot that was looked at. The exits are
    ``exit_node`` and ``exit_local``. ``counter``: the number of the template, of locals, of
    integers of the trace, of exits.
    """

    state: Any
    local_of: Any
    stamp: Any
    delta: Any
    loops: Any
    trace: Any
    exit_node: Any
    exit_local: Any
    counter: Any


def new_scratch(num_states: int, num_nodes: int) -> Scratch:
    """Room for a template in the making."""
    size = min(num_states, LOCAL_LIMIT)
    return Scratch(
        np.zeros(LOCAL_LIMIT, dtype=np.int32),
        np.zeros(num_states, dtype=np.int32),
        np.zeros(num_states, dtype=np.int64),
        np.empty((size, _SLOTS), dtype=np.int32),
        np.zeros((size, 4), dtype=np.uint64),
        np.empty(size * (_WORDS + 2 * _SLOTS), dtype=np.int32),
        np.empty(num_nodes, dtype=np.int32),
        np.empty(num_nodes, dtype=np.int32),
        np.zeros(4, dtype=np.int64),
    )


@in_place
def _local(moves: Any, scratch: Any, state: Any) -> Any:
    """Return the local number of a state, a new one with its self-loops if need be; -1: no room."""
    counter = scratch.counter
    if scratch.stamp[state] == counter[0]:
        return np.int64(scratch.local_of[state])
    local = counter[1]
    if local == len(scratch.delta):
        return np.int64(-1)
    counter[1] += 1
    scratch.stamp[state] = counter[0]
    scratch.local_of[state] = local
    scratch.state[local] = state
    for w in range(4):
        scratch.loops[local, w] = moves.loops[state, w]
    trace, kind, start = scratch.trace, moves.kind[state], moves.start[state]
    place = counter[2]
    for w in range(_WORDS):
        trace[place + w] = moves.name[kind, w]
    place += _WORDS
    for slot in range(moves.size[kind, 0]):
        scratch.delta[local, slot] = _UNSEEN
        if moves.targets[start + slot] == state:
            scratch.delta[local, slot] = local
            trace[place] = local * _SLOTS + slot
            trace[place + 1] = local
            place += 2
    counter[2] = place
    return local


@in_place
def _is_followed(moves: Any, state: Any, slot: Any, target: Any) -> Any:
    """Return whether a template goes on: to one state, and by more than a few ASCII bytes."""
    if target < 0:
        return False
    is_written = False
    for w in range(_WORDS):
        is_written |= moves.name[moves.kind[target], w] != 0
    if not is_written:
        return False
    pattern, kind, byte_class = moves.pattern, moves.kind[state], moves.byte_class
    for b in range(128, 256):
        if pattern[kind, byte_class[b]] == slot:
            return True
    count = 0
    for b in range(128):
        if pattern[kind, byte_class[b]] == slot:
            count += 1
    return count > _NARROW


@in_place
def _look(moves: Any, scratch: Any, local: Any, slot: Any) -> Any:
    """Trace a transition that was not looked at before."""
    state, trace, counter = scratch.state[local], scratch.trace, scratch.counter
    target = np.int64(moves.targets[moves.start[state] + slot])
    result = np.int64(_EXIT)
    if _is_followed(moves, state, slot, target):
        # The transition comes before the name of its target.
        place = counter[2]
        counter[2] += 2
        found = _local(moves, scratch, target)
        if found < 0:
            counter[2] = place
        else:
            trace[place] = local * _SLOTS + slot
            trace[place + 1] = found
            result = found
    scratch.delta[local, slot] = result
    return result


@in_place
def walk_template(nodes: Any, moves: Any, source: Any, scratch: Any, out: Any) -> None:
    """Walk the whole trie on local states, leaving the exits out.

    As :func:`pcgcd.automata.kernels.walks.walk`, on transitions that are copied when first needed:
    that is the trace.
    """
    trie_byte, trie_depth, trie_end = nodes.byte, nodes.depth, nodes.end
    first_rank, below, byte_class = nodes.first_rank, nodes.below, moves.byte_class
    pattern, kind = moves.pattern, moves.kind
    delta, loops, state = scratch.delta, scratch.loops, scratch.state
    exit_node, exit_local, counter = scratch.exit_node, scratch.exit_local, scratch.counter
    path, out_target, out_low, out_high = out.path, out.target, out.low, out.high
    counter[0] += 1
    counter[1] = counter[2] = counter[3] = 0
    path[0] = _local(moves, scratch, source)
    place, num_exits = 0, 0
    node, num_nodes = 1, len(trie_byte)
    while node < num_nodes:
        depth = trie_depth[node]
        here = path[depth - 1]
        following = trie_end[node]
        slot = np.int64(pattern[kind[state[here]], byte_class[trie_byte[node]]])
        if slot < 0:
            node = following
            continue
        there = np.int64(_EXIT)
        if depth <= _DEPTH:
            there = np.int64(delta[here, slot])
            if there == _UNSEEN:
                there = _look(moves, scratch, here, slot)
        if there < 0:
            exit_node[num_exits] = node
            exit_local[num_exits] = here
            num_exits += 1
            node = following
            continue
        low = first_rank[node]
        if following == node + 1 or stays_below(below, node, loops, there):
            node = following
        else:
            path[depth] = there
            node += 1
        if low != first_rank[node]:
            out_target[place] = state[there]
            out_low[place] = low
            out_high[place] = first_rank[node]
            place += 1
    counter[3] = num_exits
    out.counter[2] = place


@in_place
def _is_named(moves: Any, state: Any, pool: Any, place: Any) -> Any:
    """Return whether the pattern of a state has the name that is written in a trace."""
    kind, same = moves.kind[state], True
    for w in range(_WORDS):
        same &= moves.name[kind, w] == pool[place + w]
    return same


@in_place
def _follows(moves: Any, source: Any, pool: Any, first: Any, number: Any, scratch: Any) -> Any:
    """Return whether a state has the trace of a template; then ``scratch.state`` names its locals.

    That is: whether naming the local states in the order of the trace is a one-to-one map under
    which each pattern and each transition traced is one of the state's automaton. O(length of the
    trace).
    """
    counter, state, stamp = scratch.counter, scratch.state, scratch.stamp
    start, targets = moves.start, moves.targets
    counter[0] += 1
    now = counter[0]
    place, stop = first[number], first[number + 1]
    if not _is_named(moves, source, pool, place):
        return False
    place += _WORDS
    stamp[source] = now
    state[0] = source
    num_locals = 1
    # Invariant: locals below num_locals have names, all different, and the patterns of the trace;
    # what comes before the place agrees.
    while place < stop:
        cell, result = np.int64(pool[place]), np.int64(pool[place + 1])
        place += 2
        target = np.int64(targets[start[state[cell // _SLOTS]] + cell % _SLOTS])
        if result < num_locals:
            if target != state[result]:
                return False
        else:
            if target < 0 or stamp[target] == now or not _is_named(moves, target, pool, place):
                return False
            place += _WORDS
            stamp[target] = now
            state[result] = target
            num_locals += 1
    return True


@in_place
def root_key(moves: Any, state: Any) -> Any:
    """Return a hash of what a state does at once, the same for states with the same trace.

    Returns:
        The hash, and the number of bytes that lead anywhere.
    """
    kind = moves.kind[state]
    key = np.uint64(1)
    for w in range(_WORDS):
        key = (key ^ np.uint64(moves.name[kind, w])) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(31)
        key = (key ^ moves.loops[state, w]) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(31)
    return key, np.int64(moves.size[kind, 1])


class Templates(NamedTuple):
    """Walks to share: for each a hash, the trace, the exits, the targets with their labels.

    ``key`` (TEMPLATE_LIMIT,) are the hashes. The others are
    :class:`pcgcd.automata.kernels.lists.Lists`: traces, and lists of (node, local) and of (local,
    label). The labels are numbered among ``labels``, lists of intervals, and say nothing about the
    labels of a lifting.
    """

    key: Any
    traces: Any
    exits: Any
    targets: Any
    labels: Any


def new_templates() -> Templates:
    """No templates."""
    return Templates(
        np.zeros(TEMPLATE_LIMIT, dtype=np.uint64), *(new_lists(1024, 1 << 15) for _ in range(4))
    )


def with_room_for_one(templates: Templates, length: int) -> Templates:
    """Return the same templates with room for one more, no list of which is longer than that."""
    key, *lists = templates
    return Templates(key, *(reserved(each, length) for each in lists))


@in_place
def fitting(moves: Any, source: Any, key: Any, templates: Any, recent: Any, scratch: Any) -> Any:
    """Find a template that fits a state, or -1: the last to fit such a state, or the latest."""
    tried = 0
    traces = templates.traces
    number = recent[key & np.uint64(len(recent) - 1)]
    if (
        number >= 0
        and templates.key[number] == key
        and _follows(moves, source, traces.pool, traces.first, number, scratch)
    ):
        return number
    for number in range(traces.total[0] - 1, -1, -1):
        if templates.key[number] == key:
            if _follows(moves, source, traces.pool, traces.first, number, scratch):
                recent[key & np.uint64(len(recent) - 1)] = number
                return np.int64(number)
            tried += 1
            if tried == _CANDIDATES:
                break
    return np.int64(-1)


@in_place
def add_template(templates: Any, key: Any, scratch: Any, out: Any) -> Any:
    """Add the walk that was just done; otherwise the length of a list that has no room."""
    traces, exits, targets, labels = (
        templates.traces,
        templates.exits,
        templates.targets,
        templates.labels,
    )
    sort_by_target(out)
    length, num_exits, num_slots = scratch.counter[2], scratch.counter[3], out.counter[1]
    longest = max(length, 2 * num_exits, 2 * num_slots)
    if not (has_room(traces, longest) and has_room(exits, longest) and has_room(targets, longest)):
        return longest
    place = targets.first[targets.total[0]]
    for slot in range(num_slots):
        start, stop = 2 * out.slot_first[slot], 2 * out.slot_first[slot + 1]
        if not has_room(labels, stop - start):
            return stop - start
        targets.pool[place + 2 * slot] = scratch.local_of[out.slot_target[slot]]
        targets.pool[place + 2 * slot + 1] = intern_list(labels, out.bounds, start, stop)
    templates.key[targets.total[0]] = key
    close_list(targets, 2 * num_slots)
    place = traces.first[traces.total[0]]
    for i in range(length):
        traces.pool[place + i] = scratch.trace[i]
    close_list(traces, length)
    place = exits.first[exits.total[0]]
    for i in range(num_exits):
        exits.pool[place + 2 * i] = scratch.exit_node[i]
        exits.pool[place + 2 * i + 1] = scratch.exit_local[i]
    close_list(exits, 2 * num_exits)
    return np.int64(0)


@inlined
def walk_exits(nodes: Any, moves: Any, templates: Any, number: Any, scratch: Any, out: Any) -> None:
    """Walk what a template has left out, for the state that ``scratch`` was last fitted to."""
    exits = templates.exits
    for i in range(exits.first[number], exits.first[number + 1], 2):
        node = np.int64(exits.pool[i])
        out.path[nodes.depth[node] - 1] = scratch.state[exits.pool[i + 1]]
        walk(nodes, moves, node, np.int64(nodes.end[node]), out)

"""Compiled: the walks from all states of an automaton, and the labels of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import compiled
from pcgcd.automata.kernels.lists import intern_list, new_lists, reserved
from pcgcd.automata.kernels.templates import (
    TEMPLATE_BYTES,
    TEMPLATE_LIMIT,
    fitting,
    new_scratch,
    root_key,
    walk_template,
    with_template,
)
from pcgcd.automata.kernels.walks import new_output, slot_for, sort_by_target, walk

__all__ = ["walk_all"]


@compiled
def _merged(lists: Any, a: Any, b: Any, items: Any) -> Any:
    """The union of two disjoint lists of intervals; the number of bounds written to ``items``."""
    i, i_end = lists.first[a], lists.first[a + 1]
    j, j_end = lists.first[b], lists.first[b + 1]
    count = np.int64(0)
    while i < i_end or j < j_end:
        if j == j_end or (i < i_end and lists.pool[i] < lists.pool[j]):
            k = i
            i += 2
        else:
            k = j
            j += 2
        if count and items[count - 1] == lists.pool[k]:
            items[count - 1] = lists.pool[k + 1]
        else:
            items[count] = lists.pool[k]
            items[count + 1] = lists.pool[k + 1]
            count += 2
    return count


@compiled
def _with_room(array: Any, needed: Any) -> Any:
    if needed <= len(array):
        return array
    larger = np.empty(2 * needed, dtype=array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@compiled
def _begin(out: Any) -> None:
    out.counter[0] += 1
    out.counter[1] = out.counter[2] = out.counter[3] = 0


@compiled
def walk_all(
    sources: Any,
    follow: Any,
    nodes: Any,
    longest: Any,
    moves: Any,
    templates: Any,
    room: Any,
    interval_limit: Any,
) -> Any:
    """Walk the trie from states, and from those that tokens lead to if ``follow`` is set.

    Args:
        sources: The states to start with.
        follow: Whether to go on from the states reached.
        nodes: The trie.
        longest: Its depth.
        moves: The automaton.
        templates: Walks to share.
        room: How many integers the templates may take before no more are added.
        interval_limit: How many intervals and edges to write at most.

    Returns:
        The states walked from, in order, and their number; source, target and label of each edge,
        and their number; the labels, as lists of bounds of intervals; whether the limit held; the
        templates.
    """
    num_states = len(moves.delta)
    num_nodes = np.int64(len(nodes.byte))
    num_intervals = np.int64(nodes.first_rank[num_nodes] + 1)
    num_members = np.int64(4096)
    out = new_output(num_states, longest, num_intervals, num_members)
    scratch = new_scratch(num_states, moves.delta.shape[1], num_nodes)
    labels, pairs = new_lists(), new_lists()
    pair_label = np.empty(16, dtype=np.int64)
    known = np.empty(0, dtype=np.int64)  # the label here of each label of the templates
    recent = np.empty(256, dtype=np.int64)
    for i in range(len(recent)):
        recent[i] = -1
    items = np.empty(4096, dtype=np.int32)
    pair = np.empty(2, dtype=np.int32)
    num_edges = 0
    edge_source = np.empty(1024, dtype=np.int32)
    edge_target = np.empty(1024, dtype=np.int32)
    edge_label = np.empty(1024, dtype=np.int32)
    queue = np.empty(num_states, dtype=np.int32)
    queued = np.zeros(num_states, dtype=np.bool_)
    tail = 0
    for i in range(len(sources)):
        if not queued[sources[i]]:
            queued[sources[i]] = True
            queue[tail] = sources[i]
            tail += 1
    head = 0
    while head < tail:
        source = np.int64(queue[head])
        _begin(out)
        number = np.int64(-1)
        key, live = root_key(moves, source)
        if live >= TEMPLATE_BYTES:
            number = fitting(moves, source, key, templates, recent, scratch)
            total = templates.traces.total[0]
            used = templates.traces.first[total] + templates.labels.first[templates.labels.total[0]]
            if number < 0 and total < TEMPLATE_LIMIT and used < room:
                walk_template(nodes, moves, source, scratch, out)
                templates = with_template(templates, key, scratch, out)
                number = total
                _begin(out)
        node, stop = np.int64(1), num_nodes
        first, last = np.int64(0), np.int64(2)
        out.path[0] = source
        if number >= 0:
            old = len(known)
            known = _with_room(known, templates.labels.total[0])
            for i in range(old, len(known)):
                known[i] = -1
            targets = templates.targets
            for i in range(targets.first[number], targets.first[number + 1], 2):
                base = targets.pool[i + 1]
                if known[base] < 0:
                    start, stop = templates.labels.first[base], templates.labels.first[base + 1]
                    labels = reserved(labels, stop - start)
                    known[base] = intern_list(labels, templates.labels.pool, start, stop)
                out.slot_base[slot_for(out, scratch.state[targets.pool[i]])] = known[base]
            first, last = templates.exits.first[number], templates.exits.first[number + 1]
        for i in range(first, last, 2):
            if number >= 0:
                node = np.int64(templates.exits.pool[i])
                stop = np.int64(nodes.end[node])
                state = scratch.state[templates.exits.pool[i + 1]]
                out.path[nodes.depth[node] - 1] = state
            walk(nodes, moves, node, stop, out)
        if out.counter[3]:
            # Too little room: make more and walk again.
            num_intervals, num_members = 4 * num_intervals, 4 * num_members
            out = new_output(num_states, longest, num_intervals, num_members)
            continue
        head += 1
        items = _with_room(items, 2 * out.counter[2])
        sort_by_target(out, items)
        num_slots = out.counter[1]
        edge_source = _with_room(edge_source, num_edges + num_slots)
        edge_target = _with_room(edge_target, num_edges + num_slots)
        edge_label = _with_room(edge_label, num_edges + num_slots)
        for slot in range(num_slots):
            start, stop = 2 * out.slot_first[slot], 2 * out.slot_first[slot + 1]
            label = out.slot_base[slot]
            if stop > start:
                labels = reserved(labels, stop - start)
                extra = intern_list(labels, items, start, stop)
                if label < 0:
                    label = extra
                else:
                    pair[0], pair[1] = label, extra
                    pairs = reserved(pairs, np.int64(2))
                    total = pairs.total[0]
                    place = intern_list(pairs, pair, np.int64(0), np.int64(2))
                    if place == total:
                        size = labels.first[label + 1] - labels.first[label] + stop - start
                        union = np.empty(size, dtype=np.int32)
                        size = _merged(labels, label, extra, union)
                        labels = reserved(labels, size)
                        pair_label = _with_room(pair_label, place + 1)
                        pair_label[place] = intern_list(labels, union, np.int64(0), size)
                    label = pair_label[place]
            target = out.slot_target[slot]
            edge_source[num_edges] = source
            edge_target[num_edges] = target
            edge_label[num_edges] = label
            num_edges += 1
            if follow and not queued[target]:
                queued[target] = True
                queue[tail] = target
                tail += 1
        if labels.first[labels.total[0]] + 2 * num_edges > 2 * interval_limit:
            break
    return (
        queue,
        head,
        edge_source,
        edge_target,
        edge_label,
        num_edges,
        labels,
        head == tail,
        templates,
    )

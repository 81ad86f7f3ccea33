"""The walks from all states of an automaton, and the labels of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import wider, with_room
from pcgcd.automata.kernels.jit import compiled, compiled_if_large, inlined
from pcgcd.automata.kernels.lists import intern_list, new_lists, reserved
from pcgcd.automata.kernels.templates import (
    TEMPLATE_BYTES,
    TEMPLATE_LIMIT,
    fitting,
    new_scratch,
    root_key,
    walk_exits,
    walk_template,
    with_template,
)
from pcgcd.automata.kernels.walks import (
    begin_walk,
    new_output,
    slot_for,
    sort_by_target,
    walk_whole,
)


def _num_walks(sources: Any, follow: Any, nodes: Any, longest: Any, moves: Any, *rest: Any) -> int:
    return len(moves.delta) if follow else len(sources)


@compiled_if_large(_num_walks, most=400)
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

    Breadth first over the states; each takes one walk, or the exits of a walk that it shares with
    other states (see :mod:`pcgcd.automata.kernels.templates`).

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
        (3, room), and their number; the labels, as lists of bounds of intervals; whether the limit
        held; the templates.
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
    recent = np.full(256, -1, dtype=np.int64)
    items = np.empty(4096, dtype=np.int32)
    edges = np.empty((3, 1024), dtype=np.int32)
    num_edges = 0
    queue = np.empty(num_states, dtype=np.int32)
    queued = np.zeros(num_states, dtype=np.bool_)
    head = tail = 0
    for i in range(len(sources)):
        if not queued[sources[i]]:
            queued[sources[i]] = True
            queue[tail] = sources[i]
            tail += 1
    # Invariant: the states before `head` have their edges; each state is in the queue once.
    while head < tail:
        source = np.int64(queue[head])
        number, templates = _template_for(
            nodes, moves, source, templates, room, recent, scratch, out
        )
        begin_walk(out, source)
        if number < 0:
            walk_whole(nodes, moves, source, out)
        else:
            known, labels = _take_targets(templates, number, scratch, known, labels, out)
            walk_exits(nodes, moves, templates, number, scratch, out)
        if out.counter[3]:
            # Too little room: make more and walk again.
            num_intervals, num_members = 4 * num_intervals, 4 * num_members
            out = new_output(num_states, longest, num_intervals, num_members)
            continue
        head += 1
        items = with_room(items, 2 * out.counter[2])
        sort_by_target(out, items)
        labels, pairs, pair_label = _label_slots(out, items, labels, pairs, pair_label)
        while num_edges + out.counter[1] > edges.shape[1]:
            edges = wider(edges)
        for slot in range(out.counter[1]):
            target = out.slot_target[slot]
            edges[0, num_edges] = source
            edges[1, num_edges] = target
            edges[2, num_edges] = out.slot_base[slot]
            num_edges += 1
            if follow and not queued[target]:
                queued[target] = True
                queue[tail] = target
                tail += 1
        if labels.first[labels.total[0]] + 2 * num_edges > 2 * interval_limit:
            break
    return queue, head, edges, num_edges, labels, head == tail, templates


@inlined
def _template_for(
    nodes: Any,
    moves: Any,
    source: Any,
    templates: Any,
    room: Any,
    recent: Any,
    scratch: Any,
    out: Any,
) -> Any:
    """The number of a template for a state, a new one if there is room for it, or -1."""
    number = np.int64(-1)
    key, live = root_key(moves, source)
    if live >= TEMPLATE_BYTES:
        number = fitting(moves, source, key, templates, recent, scratch)
        total = templates.traces.total[0]
        used = templates.traces.first[total] + templates.labels.first[templates.labels.total[0]]
        if number < 0 and total < TEMPLATE_LIMIT and used < room:
            begin_walk(out, source)
            walk_template(nodes, moves, source, scratch, out)
            templates = with_template(templates, key, scratch, out)
            number = total
    return number, templates


@inlined
def _take_targets(
    templates: Any, number: Any, scratch: Any, known: Any, labels: Any, out: Any
) -> Any:
    """Give the targets of a template slots with labels; the labels that are known, and all."""
    old = len(known)
    known = with_room(known, templates.labels.total[0])
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
    return known, labels


@inlined
def _label_slots(out: Any, items: Any, labels: Any, pairs: Any, pair_label: Any) -> Any:
    """Number the labels of the slots: what the walk has found, and what a template has.

    ``pair_label`` (pairs,) is the union of each pair of labels that were joined before.
    """
    pair = np.empty(2, dtype=np.int32)
    for slot in range(out.counter[1]):
        start, stop = 2 * out.slot_first[slot], 2 * out.slot_first[slot + 1]
        if stop == start:
            continue
        labels = reserved(labels, stop - start)
        label, base = intern_list(labels, items, start, stop), out.slot_base[slot]
        if base >= 0:
            pair[0], pair[1] = base, label
            pairs = reserved(pairs, np.int64(2))
            total = pairs.total[0]
            place = intern_list(pairs, pair, np.int64(0), np.int64(2))
            if place == total:
                size = labels.first[base + 1] - labels.first[base] + stop - start
                union = np.empty(size, dtype=np.int32)
                size = _merged(labels, base, label, union)
                labels = reserved(labels, size)
                pair_label = with_room(pair_label, place + 1)
                pair_label[place] = intern_list(labels, union, np.int64(0), size)
            label = pair_label[place]
        out.slot_base[slot] = label
    return labels, pairs, pair_label


@compiled
def _merged(lists: Any, a: Any, b: Any, items: Any) -> Any:
    """Merge two disjoint lists of intervals; the number of bounds written to ``items``."""
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

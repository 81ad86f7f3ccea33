"""The walks from all states of an automaton, and the labels of their edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.jit import compiled_if_large, in_place
from pcgcd.automata.kernels.lists import has_room, intern_list, new_lists, reserved
from pcgcd.automata.kernels.templates import (
    TEMPLATE_BYTES,
    TEMPLATE_LIMIT,
    Templates,
    add_template,
    fitting,
    new_scratch,
    root_key,
    walk_exits,
    walk_template,
    with_room_for_one,
)
from pcgcd.automata.kernels.walks import (
    Moves,
    begin_walk,
    new_output,
    slot_for,
    sort_by_target,
    walk_whole,
)

# How walks end: all are done; the limit is passed; there is too little room for lists, for edges or
# for a walk.
_DONE, _PAST_LIMIT, _NO_ROOM, _NO_EDGES, _NO_OUTPUT = range(5)


# For so many states the room for edges is more than they ever need: memory that is not written to
# is never taken, and of such a size it is returned at once.
_MANY, _MUCH_ROOM = 20_000, 1 << 23


class _Found(NamedTuple):
    """What the walks have found so far.

    ``queue`` (S,) are the states to walk from, each once, and ``queued`` (S,) says which they are.
    ``source``, ``target`` and ``label`` (room,) are the last edges. ``labels`` are lists of
    intervals; ``known`` is the label here of each label of the templates, or -1, and ``union`` the
    label of each of ``pairs``, two labels that were joined. ``pair`` (2,) is room for one, and
    ``recent`` the templates that fitted last. ``counter``: the number of states walked from, of
    those queued, of edges; the length of a list for which there is no room; the number of earlier
    edges.
    """

    queue: Any
    queued: Any
    source: Any
    target: Any
    label: Any
    labels: Any
    known: Any
    pairs: Any
    union: Any
    pair: Any
    recent: Any
    counter: Any


def walk_all(
    sources: Any,
    follow: bool,
    nodes: Any,
    longest: int,
    moves: Moves,
    templates: Templates,
    room: int,
    interval_limit: int,
) -> tuple[Any, ...]:
    """Walk the trie from states, and from those that tokens lead to if ``follow`` is set.

    Breadth first over the states; each takes one walk, or the exits of a walk that it shares with
    other states (see :mod:`pcgcd.automata.kernels.templates`). The compiled loops have no room but
    what they are given here: tuples of arrays that change inside take most of the time of the
    compiler.

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
        The states walked from, in order; sources, targets and labels of the edges, each in parts;
        the labels, as lists of bounds of intervals; whether the limit held; the templates.
    """
    num_states, num_nodes = len(moves.kind), len(nodes.byte)
    num_intervals, num_members = int(nodes.first_rank[num_nodes]) + 1, 4096
    out = new_output(num_states, longest, num_intervals, num_members)
    scratch = new_scratch(num_states, num_nodes)
    pairs = new_lists(1024, 2048)
    starts = list(dict.fromkeys(sources.tolist()))
    found = _Found(
        queue=np.empty(num_states, dtype=np.int32),
        queued=np.zeros(num_states, dtype=np.bool_),
        **_edges(4096 if num_states < _MANY else _MUCH_ROOM),
        labels=new_lists(1024, 1 << 15),
        known=_numbers(templates.labels),
        pairs=pairs,
        union=_numbers(pairs),
        pair=np.empty(2, dtype=np.int32),
        recent=np.full(256, -1, dtype=np.int64),
        counter=np.array([0, len(starts), 0, 0, 0]),
    )
    found.queue[: len(starts)] = starts
    found.queued[starts] = True
    parts: tuple[list[Any], ...] = ([], [], [])
    while True:
        ending = _walk_states(
            follow, nodes, moves, templates, room, interval_limit, scratch, out, found
        )
        if ending == _NO_OUTPUT:
            num_intervals, num_members = 4 * num_intervals, 4 * num_members
            out = new_output(num_states, longest, num_intervals, num_members)
        elif ending == _NO_EDGES:
            _put_aside(found, parts)
            found = found._replace(**_edges(max(4096 + num_states, len(found.source))))
        elif ending == _NO_ROOM:
            templates = with_room_for_one(templates, int(found.counter[3]))
            found = _with_room(found, templates)
        else:
            break
    _put_aside(found, parts)
    return found.queue[: found.counter[0]], parts, found.labels, ending == _DONE, templates


def _edges(room: int) -> dict[str, Any]:
    """Room for edges."""
    return {name: np.empty(room, dtype=np.int32) for name in ("source", "target", "label")}


def _put_aside(found: _Found, parts: tuple[list[Any], ...]) -> None:
    """Add the last edges to the parts of all edges."""
    count = int(found.counter[2])
    for part, row in zip(parts, (found.source, found.target, found.label)):
        part.append(row[:count])
    found.counter[4] += count
    found.counter[2] = 0


def _numbers(lists: Any) -> Any:
    """Room for a number for each of some lists."""
    return np.full(len(lists.first), -1, dtype=np.int64)


def _with_room(found: _Found, templates: Templates) -> _Found:
    """Return the same with room for one more list of the length that is missing."""
    labels, pairs = reserved(found.labels, int(found.counter[3])), reserved(found.pairs, 2)
    known, union = _numbers(templates.labels), _numbers(pairs)
    known[: len(found.known)], union[: len(found.union)] = found.known, found.union
    return found._replace(labels=labels, known=known, pairs=pairs, union=union)


def _num_walks(follow: Any, nodes: Any, moves: Any, *rest: Any) -> int:
    return len(moves.kind) if follow else int(rest[-1].counter[1])


@compiled_if_large(_num_walks, most=400, in_place=True)
def _walk_states(
    follow: Any,
    nodes: Any,
    moves: Any,
    templates: Any,
    room: Any,
    interval_limit: Any,
    scratch: Any,
    out: Any,
    found: Any,
) -> Any:
    """Walk from the states in the queue, until it is empty or there is too little room.

    What a state leaves behind where there was too little room does no harm: with more room, the
    walk from that state is done again, and equal lists get equal numbers.
    """
    queue, queued, labels, counter = found.queue, found.queued, found.labels, found.counter
    sources, targets, numbers = found.source, found.target, found.label
    # Invariant: the states before counter[0] have their edges; each state is in the queue once.
    while counter[0] < counter[1]:
        source = np.int64(queue[counter[0]])
        number = _template_for(nodes, moves, source, templates, room, scratch, out, found)
        if number < -1:
            return _NO_ROOM
        begin_walk(out, source)
        if number < 0:
            walk_whole(nodes, moves, source, out)
        else:
            if not _take_targets(templates, number, scratch, out, found):
                return _NO_ROOM
            walk_exits(nodes, moves, templates, number, scratch, out)
        if out.counter[3]:
            return _NO_OUTPUT
        sort_by_target(out)
        if not _label_slots(out, found):
            return _NO_ROOM
        num_edges = counter[2]
        if num_edges + out.counter[1] > len(sources):
            return _NO_EDGES
        for slot in range(out.counter[1]):
            target = out.slot_target[slot]
            sources[num_edges] = source
            targets[num_edges] = target
            numbers[num_edges] = out.slot_base[slot]
            num_edges += 1
            if follow and not queued[target]:
                queued[target] = True
                queue[counter[1]] = target
                counter[1] += 1
        counter[0] += 1
        counter[2] = num_edges
        if labels.first[labels.total[0]] + 2 * (counter[4] + num_edges) > 2 * interval_limit:
            return _DONE if counter[0] == counter[1] else _PAST_LIMIT
    return _DONE


@in_place
def _template_for(
    nodes: Any,
    moves: Any,
    source: Any,
    templates: Any,
    room: Any,
    scratch: Any,
    out: Any,
    found: Any,
) -> Any:
    """Return a template for a state, a new one if need be, or -1; -2: there is no room."""
    key, live = root_key(moves, source)
    if live < TEMPLATE_BYTES:
        return np.int64(-1)
    number = fitting(moves, source, key, templates, found.recent, scratch)
    if number >= 0:
        return number
    total = templates.traces.total[0]
    used = templates.traces.first[total] + templates.labels.first[templates.labels.total[0]]
    if total == TEMPLATE_LIMIT or used >= room:
        return np.int64(-1)
    begin_walk(out, source)
    walk_template(nodes, moves, source, scratch, out)
    missing = add_template(templates, key, scratch, out)
    if missing:
        found.counter[3] = missing
        return np.int64(-2)
    return total


@in_place
def _take_targets(templates: Any, number: Any, scratch: Any, out: Any, found: Any) -> Any:
    """Give the targets of a template slots with labels; whether there is room."""
    known, labels = found.known, found.labels
    theirs, targets = templates.labels, templates.targets
    for i in range(targets.first[number], targets.first[number + 1], 2):
        base = targets.pool[i + 1]
        if known[base] < 0:
            start, stop = theirs.first[base], theirs.first[base + 1]
            if not has_room(labels, stop - start):
                found.counter[3] = stop - start
                return False
            known[base] = intern_list(labels, theirs.pool, start, stop)
        out.slot_base[slot_for(out, scratch.state[targets.pool[i]])] = known[base]
    return True


@in_place
def _label_slots(out: Any, found: Any) -> Any:
    """Number the labels of the slots: what the walk has found, and what a template has.

    Returns:
        Whether there is room.
    """
    labels, pairs, pair, counter = found.labels, found.pairs, found.pair, found.counter
    for slot in range(out.counter[1]):
        start, stop = 2 * out.slot_first[slot], 2 * out.slot_first[slot + 1]
        if stop == start:
            continue
        base = out.slot_base[slot]
        length = stop - start
        counter[3] = length
        if not has_room(labels, length):
            return False
        label = intern_list(labels, out.bounds, start, stop)
        if base >= 0:
            length += labels.first[base + 1] - labels.first[base]
            counter[3] = length
            if not (has_room(labels, length) and has_room(pairs, 2)):
                return False
            pair[0], pair[1] = base, label
            total = pairs.total[0]
            place = intern_list(pairs, pair, np.int64(0), np.int64(2))
            if place == total:
                start = labels.first[labels.total[0]]
                stop = _merged(labels, base, label, start)
                found.union[place] = intern_list(labels, labels.pool, start, stop)
            label = found.union[place]
        out.slot_base[slot] = label
    return True


@in_place
def _merged(lists: Any, a: Any, b: Any, start: Any) -> Any:
    """Write the union of two disjoint lists of intervals behind the last list; where it ends."""
    first, pool = lists.first, lists.pool
    i, i_end = first[a], first[a + 1]
    j, j_end = first[b], first[b + 1]
    stop = start
    while i < i_end or j < j_end:
        if j == j_end or (i < i_end and pool[i] < pool[j]):
            k = i
            i += 2
        else:
            k = j
            j += 2
        if stop > start and pool[stop - 1] == pool[k]:
            pool[stop - 1] = pool[k + 1]
        else:
            pool[stop] = pool[k]
            pool[stop + 1] = pool[k + 1]
            stop += 2
    return stop

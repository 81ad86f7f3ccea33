"""The subset construction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.edges import group, join
from pcgcd.automata.kernels.growing import grown_rows, head, sort_head, wider, with_room
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, in_place, inlined
from pcgcd.automata.kernels.lists import has_room, intern_list, new_lists, reserved

# The rows of an array of parts of the classes.
_PARENT = 0  # the part that it was split off
_LABEL = 1  # the label that it lies in and its parent does not
_SPLIT = 2  # what was last split off it
_STAMP = 3  # for which label
_NUMBER = 4  # its number among the parts of all patterns, or -1

# What a walk stops for.
_END = 0  # nothing is left, or a limit was passed
_LABEL_ROOM = 1  # there is no room for one more pattern
_STATE_ROOM = 2  # for one more set of states
_EDGE_ROOM = 3  # for one more edge


class _Letters(NamedTuple):
    """The automaton: its edges by source, and the classes of their labels.

    ``offsets`` (S + 1,), ``target`` (E,) and ``label`` (E,) are the edges; ``sets`` (L, words) the
    classes of each label as bits, and ``classes`` one after the other, from ``first`` (L + 1,) on.
    """

    offsets: Any
    target: Any
    label: Any
    sets: Any
    first: Any
    classes: Any


class _Leaving(NamedTuple):
    """The labels that leave a set of states, each with a list of the states it leads to.

    ``labels`` (L,) are the labels; ``head`` (L,) is where the list of each begins, if its ``stamp``
    (L,) is the ticket of the set; ``following`` (E,) goes on, -1 at the end; ``state`` (E,).
    """

    labels: Any
    stamp: Any
    head: Any
    following: Any
    state: Any


class _Patterns(NamedTuple):
    """Sets of labels that leave a set of states, and the parts that they split the classes into.

    The same few labels meet again and again, so their classes are split once. ``labels`` (P,) are
    the sets of labels, as lists; ``first`` (P + 1,) is where the parts of each begin; ``cost`` (P,)
    is how many classes were looked at. The labels that part q lies in are
    ``inside[begin[q]:begin[q + 1]]``, and ``label`` (Q,) is its own: a given one, or one of
    ``sets``, of which ``num_sets`` (1,) are in use.
    """

    labels: Any
    first: Any
    cost: Any
    begin: Any
    inside: Any
    label: Any
    sets: Any
    num_sets: Any


class _Splits(NamedTuple):
    """What classes are split with: parts of them, as columns of ``parts`` (5, ...).

    ``part_of`` (C,) is the part of each class, 0 between two patterns; ``touched`` (C,) are the
    classes in labels; ``taken`` (words,) is a set of classes.
    """

    parts: Any
    part_of: Any
    touched: Any
    taken: Any


class _Reached(NamedTuple):
    """The sets of states so far, as lists, and what finds them.

    ``single`` (S,) is the number of the set of one state, or -1; ``states`` (S,) is a set that is
    being made, and ``stamp`` (S,) says which states are in it.
    """

    found: Any
    single: Any
    states: Any
    stamp: Any


class _Progress(NamedTuple):
    """How far a walk is, each of shape (1,).

    ``current`` is the set of states whose edges are made, ``part`` the next part of its pattern, or
    -1; ``edges`` is the number of edges, ``work`` that of steps, ``ticket`` that of stamps;
    ``needed`` (2,) is the room that is missing: for states, or for labels and for their classes.
    """

    current: Any
    pattern: Any
    part: Any
    edges: Any
    work: Any
    ticket: Any
    needed: Any


@compiled_if_large()
def determinize(
    source: Indices,
    target: Indices,
    label: Indices,
    label_sets: Bits,
    num_classes: int,
    initial: Mask,
    accepting: Mask,
    state_limit: int,
    work_limit: int,
    member_limit: int,
) -> tuple[int, Indices, Indices, Indices, Bits, Mask, Indices, Indices]:
    """Find the reachable sets of states, with one edge for each set of classes to another.

    The subset construction (Rabin & Scott 1959, "Finite automata and their decision problems"),
    breadth first. It departs in the letters: the classes that leave a set of states
    are split by the labels they lie in (partition refinement: Paige & Tarjan 1987; Habib, Paul &
    Viennot 1999, "Partition refinement techniques"); each part gets one edge. So the cost does not
    grow with the number of classes where few labels meet. Up to 2^S sets, hence the limits.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        label_sets: The classes of each label as bits, (L, words).
        num_classes: The number of classes C.
        initial: Which states are initial, (S,).
        accepting: Which states accept, (S,).
        state_limit: How many sets of states to make.
        work_limit: How many elementary steps to take.
        member_limit: How many states the sets may have together.

    Returns:
        The number of states, or -1 if a limit was passed; source, target and label of each edge,
        sorted and joined; the sets of classes of these labels; which states accept; where the
        members of each set of states begin, and they.
    """
    num_states, num_words = len(initial), label_sets.shape[1]
    letters = _letters(source, target, label, label_sets, num_classes, num_states)
    leaving = _none_leaving(len(label_sets), len(target))
    found, num_initial = new_lists(32, 1024), 0
    states = np.empty(num_states, dtype=np.int32)
    for s in range(num_states):
        if initial[s]:
            states[num_initial] = s
            num_initial += 1
    found = reserved(found, num_initial)
    intern_list(found, states, 0, num_initial)
    nowhere = np.full(num_states, -1, dtype=np.int64)
    reached = _Reached(found, nowhere, states, nowhere.copy())
    patterns = _no_patterns(num_words)
    splits = _no_splits(num_classes, num_words)
    ends = np.empty((3, 1024), dtype=np.int64)  # source, target and label of each edge
    progress = _no_progress()
    limits = (state_limit, work_limit, member_limit)
    reason = _LABEL_ROOM
    while reason != _END:
        reason = _walk(letters, leaving, patterns, splits, reached, ends, progress, limits)
        if reason == _EDGE_ROOM:
            ends = wider(ends)
        elif reason == _STATE_ROOM:
            found = reserved(reached.found, progress.needed[0])
            reached = _Reached(found, reached.single, reached.states, reached.stamp)
        elif reason == _LABEL_ROOM:
            num_labels, num_inside = progress.needed
            patterns = _with_room(patterns, num_labels, num_inside)
            parts = splits.parts
            while num_inside + 2 > parts.shape[1]:
                parts = wider(parts)
            splits = _Splits(parts, splits.part_of, splits.touched, splits.taken)
    found, edges = reached.found, progress.edges[0]
    number = found.total[0]
    is_whole = progress.current[0] == number
    num_sets = patterns.num_sets[0] if is_whole else 0
    sets = np.empty((len(label_sets) + num_sets, num_words), dtype=np.int64)
    sets[: len(label_sets)] = label_sets
    sets[len(label_sets) :] = patterns.sets[:num_sets]
    edges = edges if is_whole else 0
    sources, targets, labels, sets = join(
        number, head(ends[0], edges), head(ends[1], edges), head(ends[2], edges), sets
    )
    accepts = _accepting(found, accepting)
    count = number if is_whole else -1
    return count, sources, targets, labels, sets, accepts, found.first, found.pool


@inlined
def _letters(
    source: Any, target: Any, label: Any, sets: Any, num_classes: Any, num_states: Any
) -> Any:
    order, offsets = group(source, num_states)
    targets, labels = np.empty_like(order), np.empty_like(order)
    for i in range(len(order)):
        targets[i], labels[i] = target[order[i]], label[order[i]]
    first = np.zeros(len(sets) + 1, dtype=np.int64)
    classes = np.empty(4 * num_classes, dtype=np.int64)
    total = 0
    for a in range(len(sets)):
        classes = with_room(classes, total + num_classes)
        total = _write_classes(sets, a, classes, total)
        first[a + 1] = total
    return _Letters(offsets, targets, labels, sets, first, classes)


@in_place
def _write_classes(sets: Any, a: Any, classes: Any, place: Any) -> Any:
    """Write the classes of a label from a place on; the place behind them."""
    for w in range(sets.shape[1]):
        if sets[a, w] != 0:
            for low in range(0, 64, 8):
                byte = sets[a, w] >> low & 255
                for i in range(8 if byte else 0):
                    if byte >> i & 1:
                        classes[place] = 64 * w + low + i
                        place += 1
    return place


@in_place
def _walk(
    letters: Any,
    leaving: Any,
    patterns: Any,
    splits: Any,
    reached: Any,
    ends: Any,
    progress: Any,
    limits: Any,
) -> Any:
    """Make edges until there is no more room for something, and say for what.

    It makes no arrays itself, since counting references to them would take most of the time: who
    calls it makes room, and calls again.
    """
    found, (state_limit, work_limit, member_limit) = reached.found, limits
    current, pattern, part = progress.current[0], progress.pattern[0], progress.part[0]
    edges, work, ticket = progress.edges[0], progress.work[0], progress.ticket[0]
    reason = _END
    # Invariant: the sets before `current` have all their edges, and it has those of the parts
    # before `part`.
    while True:
        if part < 0:
            if current == found.total[0]:
                break
            ticket += 1
            num_labels, links = _leave(found, current, letters, leaving, ticket)
            sort_head(leaving.labels, num_labels)
            known = patterns.labels.total[0]
            labels = leaving.labels[:num_labels]
            num_inside = _num_inside(labels, letters)
            if not _has_room(patterns, splits, num_labels, num_inside):
                progress.needed[0], progress.needed[1] = num_labels, num_inside
                reason = _LABEL_ROOM
                break
            pattern = intern_list(patterns.labels, labels, 0, num_labels)
            if pattern == known:
                patterns.cost[pattern] = num_inside
                # Where no two labels share a class, as almost everywhere, each of them is a part.
                if _are_disjoint(labels, letters, splits.taken):
                    _take_labels(labels, patterns)
                else:
                    _split_classes(labels, letters, splits)
                    _take_parts(letters, splits, patterns)
            work += links + patterns.cost[pattern]
            part = patterns.first[pattern]
        while part < patterns.first[pattern + 1]:
            if edges == ends.shape[1]:
                reason = _EDGE_ROOM
                break
            ticket += 1
            size, looked = _targets(part, patterns, leaving, reached, ticket)
            number = reached.single[reached.states[0]] if size == 1 else np.int64(-1)
            if number < 0:
                if not has_room(found, size):
                    progress.needed[0] = size
                    reason = _STATE_ROOM
                    break
                sort_head(reached.states, size)
                next_number = found.total[0]
                number = intern_list(found, reached.states, 0, size)
                work += size if number == next_number else 0
                if size == 1:
                    reached.single[reached.states[0]] = number
            work += looked
            ends[0, edges] = current
            ends[1, edges] = number
            ends[2, edges] = patterns.label[part]
            edges += 1
            part += 1
        total = found.total[0]
        if total > state_limit or found.first[total] > member_limit or work > work_limit:
            reason = _END
            break
        if reason != _END:
            break
        current, part = current + 1, -1
    progress.current[0], progress.pattern[0], progress.part[0] = current, pattern, part
    progress.edges[0], progress.work[0], progress.ticket[0] = edges, work, ticket
    return reason


@inlined
def _no_progress() -> Any:
    return _Progress(
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.full(1, -1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


@inlined
def _accepting(found: Any, accepting: Any) -> Any:
    result = np.zeros(found.total[0], dtype=np.bool_)
    for i in range(len(result)):
        for m in range(found.first[i], found.first[i + 1]):
            result[i] |= accepting[found.pool[m]]
    return result


@inlined
def _none_leaving(num_labels: Any, num_edges: Any) -> Any:
    return _Leaving(
        np.empty(num_labels, dtype=np.int64),
        np.full(num_labels, -1, dtype=np.int64),
        np.empty(num_labels, dtype=np.int64),
        np.empty(num_edges, dtype=np.int64),
        np.empty(num_edges, dtype=np.int64),
    )


@in_place
def _leave(found: Any, current: Any, letters: Any, leaving: Any, ticket: Any) -> Any:
    """Collect the labels that leave a set of states; how many, and how many edges have them."""
    num_labels = links = 0
    for m in range(found.first[current], found.first[current + 1]):
        s = found.pool[m]
        for e in range(letters.offsets[s], letters.offsets[s + 1]):
            a = letters.label[e]
            if leaving.stamp[a] != ticket:
                leaving.stamp[a] = ticket
                leaving.head[a] = -1
                leaving.labels[num_labels] = a
                num_labels += 1
            leaving.following[links] = leaving.head[a]
            leaving.state[links] = letters.target[e]
            leaving.head[a] = links
            links += 1
    return num_labels, links


@in_place
def _targets(part: Any, patterns: Any, leaving: Any, reached: Any, ticket: Any) -> Any:
    """Find the states that some classes lead to, each once; their number, and the work."""
    size = looked = 0
    for i in range(patterns.begin[part], patterns.begin[part + 1]):
        link = leaving.head[patterns.inside[i]]
        while link >= 0:
            looked += 1
            t = leaving.state[link]
            if reached.stamp[t] != ticket:
                reached.stamp[t] = ticket
                reached.states[size] = t
                size += 1
            link = leaving.following[link]
    return size, looked


@inlined
def _no_patterns(num_words: Any) -> Any:
    return _Patterns(
        new_lists(32, 256),
        np.zeros(32, dtype=np.int64),
        np.zeros(32, dtype=np.int64),
        np.zeros(256, dtype=np.int64),
        np.zeros(256, dtype=np.int64),
        np.zeros(256, dtype=np.int64),
        np.zeros((64, num_words), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@inlined
def _no_splits(num_classes: Any, num_words: Any) -> Any:
    return _Splits(
        np.empty((5, 256), dtype=np.int64),
        np.zeros(num_classes, dtype=np.int64),
        np.empty(num_classes, dtype=np.int64),
        np.empty(num_words, dtype=np.int64),
    )


@in_place
def _num_inside(labels: Any, letters: Any) -> Any:
    """Count the classes of some labels: there are no more parts, and in all no more labels."""
    count = 0
    for j in range(len(labels)):
        count += letters.first[labels[j] + 1] - letters.first[labels[j]]
    return max(count, len(labels))


@in_place
def _has_room(patterns: Any, splits: Any, num_labels: Any, num_inside: Any) -> Any:
    """Return whether there is room for one more pattern."""
    part = patterns.first[patterns.labels.total[0]]
    return (
        has_room(patterns.labels, num_labels)
        and part + num_inside < len(patterns.begin)
        and patterns.begin[part] + num_inside <= len(patterns.inside)
        and patterns.num_sets[0] + num_inside <= len(patterns.sets)
        and num_inside + 2 <= splits.parts.shape[1]
    )


@inlined
def _with_room(patterns: Any, num_labels: Any, num_inside: Any) -> Any:
    """Return the same patterns with room for one more."""
    labels, first, cost, begin, inside, label, sets, num_sets = patterns
    part = first[labels.total[0]]
    labels = reserved(labels, num_labels)
    first, cost = with_room(first, len(labels.first)), with_room(cost, len(labels.first))
    inside = with_room(inside, begin[part] + num_inside)
    begin, label = with_room(begin, part + num_inside + 1), with_room(label, part + num_inside + 1)
    while len(sets) < num_sets[0] + num_inside:
        sets = grown_rows(sets)
    return _Patterns(labels, first, cost, begin, inside, label, sets, num_sets)


@in_place
def _are_disjoint(labels: Any, letters: Any, taken: Any) -> Any:
    """Whether no two labels share a class, and none is empty."""
    for w in range(len(taken)):
        taken[w] = 0
    for j in range(len(labels)):
        a = labels[j]
        shared = np.int64(0)
        for w in range(len(taken)):
            shared |= taken[w] & letters.sets[a, w]
            taken[w] |= letters.sets[a, w]
        if shared != 0 or letters.first[a] == letters.first[a + 1]:
            return False
    return True


@in_place
def _take_labels(labels: Any, patterns: Any) -> None:
    """Write the parts of the last pattern: each label is one."""
    pattern = patterns.labels.total[0] - 1
    part = patterns.first[pattern]
    for j in range(len(labels)):
        place = patterns.begin[part]
        patterns.inside[place] = patterns.label[part] = labels[j]
        part += 1
        patterns.begin[part] = place + 1
    patterns.first[pattern + 1] = part


@in_place
def _split_classes(labels: Any, letters: Any, splits: Any) -> None:
    """Split the classes into parts that no label tells apart.

    Part 0 holds the classes that are in no label. What a label shares with a part is split off it,
    as a new part, so the labels of a part are those on the way up through its parents. Each part
    but the first is split off for one class of one label, which bounds their number.
    """
    parts, part_of, touched, _ = splits
    num_parts = 1
    num_touched = 0
    parts[_STAMP, 0] = -1
    for j in range(len(labels)):
        a = labels[j]
        # Invariant: classes are in one part iff the labels before the j-th do not tell them apart.
        for k in range(letters.first[a], letters.first[a + 1]):
            c = letters.classes[k]
            p = part_of[c]
            if p == 0:
                touched[num_touched] = c
                num_touched += 1
            if parts[_STAMP, p] != j:
                parts[_STAMP, p] = j
                parts[_SPLIT, p] = num_parts
                parts[_PARENT, num_parts] = p
                parts[_LABEL, num_parts] = a
                parts[_STAMP, num_parts] = j
                parts[_NUMBER, num_parts] = -1
                num_parts += 1
            part_of[c] = parts[_SPLIT, p]
    parts[_NUMBER, 0] = num_touched


@in_place
def _take_parts(letters: Any, splits: Any, patterns: Any) -> None:
    """Write the parts of the last pattern, which its classes were split into."""
    parts, part_of, touched, _ = splits
    pattern, num_given = patterns.labels.total[0] - 1, len(letters.sets)
    part = patterns.first[pattern]
    for j in range(parts[_NUMBER, 0]):
        c = touched[j]
        p = part_of[c]
        part_of[c] = 0
        if parts[_NUMBER, p] < 0:
            place, up = patterns.begin[part], p
            while up > 0:
                patterns.inside[place] = parts[_LABEL, up]
                place, up = place + 1, parts[_PARENT, up]
            parts[_NUMBER, p] = part
            patterns.label[part] = num_given + patterns.num_sets[0]
            for w in range(patterns.sets.shape[1]):
                patterns.sets[patterns.num_sets[0], w] = 0
            patterns.num_sets[0] += 1
            part += 1
            patterns.begin[part] = place
        own = patterns.label[parts[_NUMBER, p]] - num_given
        patterns.sets[own, c >> 6] |= np.int64(1) << (c & 63)
    patterns.first[pattern + 1] = part

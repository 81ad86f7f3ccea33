"""The subset construction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.growing import grown_rows, head, head_rows, sort_head, wider
from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, inlined
from pcgcd.automata.kernels.lists import has_room, intern_list, new_lists, reserved

# The rows of an array of parts of the classes.
_PARENT = 0  # the part that it was split off
_LABEL = 1  # the label that it lies in and its parent does not
_SPLIT = 2  # what was last split off it
_STAMP = 3  # for which label
_EDGE = 4  # the edge that it has got, or -1


class _Leaving(NamedTuple):
    """The labels that leave a set of states, each with a list of the states it leads to.

    ``labels`` (L,) are the labels; ``head`` (L,) is where the list of each begins, if its ``stamp``
    (L,) is the number of the set; ``following`` (E,) goes on, -1 at the end; ``state`` (E,).
    """

    labels: Any
    stamp: Any
    head: Any
    following: Any
    state: Any


@compiled_if_large()
def determinize(
    offsets: Indices,
    target: Indices,
    label: Indices,
    label_sets: Bits,
    set_offsets: Indices,
    set_classes: Indices,
    num_classes: int,
    start: Indices,
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
        offsets: Where the edges of each state begin, (S + 1,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        label_sets: The classes of each label as bits, (L, words).
        set_offsets: Where the classes of each label begin, (L + 1,).
        set_classes: The classes of the labels.
        num_classes: The number of classes C.
        start: The initial states, in order.
        accepting: Which states accept, (S,).
        state_limit: How many sets of states to make.
        work_limit: How many elementary steps to take.
        member_limit: How many states the sets may have together.

    Returns:
        The number of states, or -1 if a limit was passed; source, target and label of each edge;
        the sets of classes of labels from L on; which states accept; where the members of each
        set of states begin, and they.
    """
    num_states = len(offsets) - 1
    found, reached = new_lists(32, 1024), np.empty(num_states, dtype=np.int32)
    for i in range(len(start)):
        reached[i] = start[i]
    found = reserved(found, len(start))
    intern_list(found, reached, 0, len(start))
    leaving = _none_leaving(len(set_offsets) - 1, len(target))
    part_of = np.zeros(num_classes, dtype=np.int64)
    touched = np.empty(num_classes, dtype=np.int64)
    parts = np.empty((5, 2 * num_classes + 2), dtype=np.int64)
    ends = np.empty((3, 1024), dtype=np.int64)  # source, target and label of each edge
    num_words = label_sets.shape[1]
    sets = np.zeros((64, num_words), dtype=np.int64)  # of labels that are parts of others
    num_sets = 0
    taken = np.empty(num_words, dtype=np.int64)
    state_stamp = np.full(num_states, -1, dtype=np.int64)
    total = found.total
    edges = work = current = 0
    is_within = True
    # Invariant: the sets before `current` have all their edges; part_of is 0 for every class.
    while current < total[0] and is_within:
        num_labels, links = _leave(found, current, offsets, target, label, leaving)
        work += links
        labels = leaving.labels[:num_labels]
        # Where no two labels share a class, as almost everywhere, each of them is a part.
        whole = _take_whole(labels, label_sets, set_offsets, taken, parts)
        count = num_labels
        if whole:
            for j in range(num_labels):
                work += set_offsets[labels[j] + 1] - set_offsets[labels[j]]
        else:
            parts, count, looked = _split_classes(
                labels, set_offsets, set_classes, part_of, touched, parts
            )
            work += looked
        for j in range(count):
            p = j + 1
            if not whole:
                c = touched[j]
                p = part_of[c]
                part_of[c] = 0
            if parts[_EDGE, p] < 0:
                if edges == ends.shape[1]:
                    ends = wider(ends)
                if num_sets == len(sets):
                    sets = grown_rows(sets)
                size, looked = _targets(p, parts, leaving, state_stamp, edges, reached)
                sort_head(reached, size)
                if not has_room(found, size):
                    found = reserved(found, size)
                number = total[0]
                ends[0, edges] = current
                ends[1, edges] = intern_list(found, reached, 0, size)
                ends[2, edges] = labels[j] if whole else len(label_sets) + num_sets
                if not whole:
                    num_sets += 1
                work += looked + (size if ends[1, edges] == number else 0)
                parts[_EDGE, p] = edges
                edges += 1
                number = total[0]
                if number > state_limit or found.first[number] > member_limit:
                    is_within = False
                    break
            if not whole:
                own = ends[2, parts[_EDGE, p]] - len(label_sets)
                sets[own, c >> 6] |= np.int64(1) << (c & 63)
        is_within &= work <= work_limit
        current += 1
    number = total[0]
    accepts = np.zeros(number, dtype=np.bool_)
    for i in range(number):
        for m in range(found.first[i], found.first[i + 1]):
            accepts[i] |= accepting[found.pool[m]]
    return (
        number if is_within else -1,
        head(ends[0], edges),
        head(ends[1], edges),
        head(ends[2], edges),
        head_rows(sets, num_sets),
        accepts,
        found.first,
        found.pool,
    )


@inlined
def _none_leaving(num_labels: Any, num_edges: Any) -> Any:
    return _Leaving(
        np.empty(num_labels, dtype=np.int64),
        np.full(num_labels, -1, dtype=np.int64),
        np.empty(num_labels, dtype=np.int64),
        np.empty(num_edges, dtype=np.int64),
        np.empty(num_edges, dtype=np.int64),
    )


@inlined
def _leave(found: Any, current: Any, offsets: Any, target: Any, label: Any, leaving: Any) -> Any:
    """Collect the labels that leave a set of states; how many, and how many edges have them."""
    labels, stamp, first = leaving.labels, leaving.stamp, leaving.head
    num_labels = links = 0
    for m in range(found.first[current], found.first[current + 1]):
        s = found.pool[m]
        for e in range(offsets[s], offsets[s + 1]):
            a = label[e]
            if stamp[a] != current:
                stamp[a] = current
                first[a] = -1
                labels[num_labels] = a
                num_labels += 1
            leaving.following[links] = first[a]
            leaving.state[links] = target[e]
            first[a] = links
            links += 1
    return num_labels, links


@inlined
def _take_whole(labels: Any, label_sets: Any, set_offsets: Any, taken: Any, parts: Any) -> Any:
    """Make each label a part if no two of them share a class; whether that is so."""
    for w in range(len(taken)):
        taken[w] = 0
    for j in range(len(labels)):
        a = labels[j]
        shared = np.int64(0)
        for w in range(len(taken)):
            shared |= taken[w] & label_sets[a, w]
            taken[w] |= label_sets[a, w]
        if shared != 0 or set_offsets[a] == set_offsets[a + 1]:
            return False
        parts[_PARENT, j + 1] = 0
        parts[_LABEL, j + 1] = a
        parts[_EDGE, j + 1] = -1
    return True


@inlined
def _split_classes(
    labels: Any, set_offsets: Any, set_classes: Any, part_of: Any, touched: Any, parts: Any
) -> Any:
    """Split the classes into parts that no label tells apart.

    Part 0 holds the classes that are in no label. What a label shares with a part is split off it,
    as a new part, so the labels of a part are those on the way up through its parents.

    Returns:
        The array of parts, the number of classes in labels, and how many were looked at.
    """
    num_parts = 1
    num_touched = looked = 0
    parts[_STAMP, 0] = -1
    for j in range(len(labels)):
        a = labels[j]
        looked += set_offsets[a + 1] - set_offsets[a]
        # Invariant: classes are in one part iff the labels before the j-th do not tell them apart.
        for k in range(set_offsets[a], set_offsets[a + 1]):
            c = set_classes[k]
            p = part_of[c]
            if p == 0:
                touched[num_touched] = c
                num_touched += 1
            if parts[_STAMP, p] != j:
                if num_parts == parts.shape[1]:
                    parts = wider(parts)
                parts[_STAMP, p] = j
                parts[_SPLIT, p] = num_parts
                parts[_PARENT, num_parts] = p
                parts[_LABEL, num_parts] = a
                parts[_STAMP, num_parts] = j
                parts[_EDGE, num_parts] = -1
                num_parts += 1
            part_of[c] = parts[_SPLIT, p]
    return parts, num_touched, looked


@inlined
def _targets(p: Any, parts: Any, leaving: Any, stamp: Any, ticket: Any, reached: Any) -> Any:
    """Find the states that some classes lead to, each once; their number, and the work."""
    size = looked = 0
    while p > 0:
        link = leaving.head[parts[_LABEL, p]]
        while link >= 0:
            looked += 1
            t = leaving.state[link]
            if stamp[t] != ticket:
                stamp[t] = ticket
                reached[size] = t
                size += 1
            link = leaving.following[link]
        p = parts[_PARENT, p]
    return size, looked

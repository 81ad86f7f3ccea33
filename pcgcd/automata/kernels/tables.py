"""The tables of an automaton that lifting and masks need."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.edges import by_target, group
from pcgcd.automata.kernels.growing import head, span_hash
from pcgcd.automata.kernels.jit import Indices, compiled_if_large, compiled_part, in_place
from pcgcd.automata.kernels.searches import search
from pcgcd.automata.kernels.walks import EMPTY


def steps_to_accept(source: Any, target: Any, accepting: Any) -> Indices:
    """Return the least number of steps from each state to an accepting one, or NEVER, (S,).

    Breadth-first search against the edges. Other arrays than those that may be written to are
    copied, since they would have to be compiled for again.
    """
    source, target = np.require(source, np.int32, "W"), np.require(target, np.int32, "W")
    distance: Indices = _steps_back(source, target, np.array(accepting))
    return distance


@compiled_if_large(most=100_000)
def _steps_back(source: Any, target: Any, accepting: Any) -> Any:
    before, offsets = by_target(source, target, len(accepting))
    return search(offsets, before, accepting)[1]


@compiled_if_large()
def index_moves(
    source: Any, target: Any, label: Any, label_class: Any, by_byte: Any, num_states: Any
) -> Any:
    """Return the slots of states, as in :class:`pcgcd.automata.kernels.walks.Moves`.

    States with the same labels have the same pattern, so that the classes are looked at once for
    each pattern: O(S + E + P C k) with P patterns and k edges from a state.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        label_class: Which classes are in each label, (L, C).
        by_byte: The classes, by their first byte; those without bytes are left out.
        num_states: The number of states S.

    Returns:
        ``pattern``, the number of slots of each pattern, and ``kind``, ``start``, ``targets``,
        ``several`` and ``first``.
    """
    # Edges by source, and then by label.
    order, _ = group(label, len(label_class))
    key = np.empty(len(order), dtype=np.int64)
    for i in range(len(order)):
        key[i] = source[order[i]]
    by_source, offsets = group(key, num_states)
    for i in range(len(order)):
        key[i] = order[by_source[i]]
    order = key
    labels = np.empty(len(order), dtype=np.int64)
    for i in range(len(order)):
        labels[i] = label[order[i]]
    kind, sample = _same_spans(labels, offsets)
    num_patterns, num_classes = len(sample), label_class.shape[1]
    pattern = np.full((num_patterns, num_classes), EMPTY, dtype=np.int16)
    # The class of bytes of a slot with several targets, or -1; the slot of the i-th edge, or -1.
    shared = np.full((num_patterns, num_classes), -1, dtype=np.int16)
    slot_of = np.full(len(order), -1, dtype=np.int64)
    num_slots = np.zeros(num_patterns, dtype=np.int64)
    for p in range(num_patterns):
        begin, end = offsets[sample[p]], offsets[sample[p] + 1]
        for letter in by_byte:
            count, chosen = 0, 0
            for i in range(begin, end):
                if label_class[labels[i], letter]:
                    chosen = i
                    count += 1
            if count == 0:
                continue
            slot = -1
            if count == 1:
                slot = slot_of[chosen]
            else:
                for other in range(num_slots[p]):
                    twin = shared[p, other]
                    if twin >= 0 and _agree(label_class, labels, begin, end, letter, twin):
                        slot = other
                        break
            if slot < 0:
                slot = num_slots[p]
                num_slots[p] += 1
                if count == 1:
                    slot_of[chosen] = slot
                else:
                    shared[p, slot] = letter
            pattern[p, letter] = slot
    # Twice over the states: to count the targets of their slots, and to write them.
    start = np.empty(num_states, dtype=np.int32)
    num_targets = num_cells = num_several = 0
    for s in range(num_states):
        p = kind[s]
        start[s] = num_targets
        num_targets += num_slots[p]
        for slot in range(num_slots[p]):
            if shared[p, slot] >= 0:
                num_cells += 1
                for i in range(offsets[s], offsets[s + 1]):
                    num_several += label_class[labels[i], shared[p, slot]]
    targets = np.empty(num_targets, dtype=np.int32)
    several = np.empty(num_several, dtype=np.int32)
    first = np.zeros(num_cells + 1, dtype=np.int64)
    num_cells = num_several = 0
    for s in range(num_states):
        p = kind[s]
        ahead = offsets[sample[p]] - offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            slot = slot_of[i + ahead]
            if slot >= 0:
                targets[start[s] + slot] = target[order[i]]
        for slot in range(num_slots[p]):
            if shared[p, slot] >= 0:
                for i in range(offsets[s], offsets[s + 1]):
                    if label_class[labels[i], shared[p, slot]]:
                        several[num_several] = target[order[i]]
                        num_several += 1
                targets[start[s] + slot] = -2 - num_cells
                num_cells += 1
                first[num_cells] = num_several
    return pattern, num_slots, kind, start, targets, several, first


@in_place
def _agree(label_class: Any, labels: Any, begin: Any, end: Any, one: Any, other: Any) -> Any:
    """Return whether two classes are in the same ones of some labels."""
    same = True
    for i in range(begin, end):
        same &= label_class[labels[i], one] == label_class[labels[i], other]
    return same


@compiled_part
def _same_spans(items: Any, offsets: Any) -> Any:
    """Number the distinct spans ``items[offsets[s]:offsets[s + 1]]`` as they come, by hashing.

    Returns:
        The number of each span, (S,), and where each number is first seen.
    """
    num_spans = len(offsets) - 1
    size = 16
    while size < 2 * num_spans:
        size *= 2
    table = np.full(size, -1, dtype=np.int32)
    number = np.empty(num_spans, dtype=np.int32)
    sample = np.empty(num_spans, dtype=np.int64)
    count = 0
    for s in range(num_spans):
        begin, length = offsets[s], offsets[s + 1] - offsets[s]
        slot = span_hash(items, begin, begin + length) & (size - 1)
        while table[slot] >= 0:
            other = offsets[sample[table[slot]]]
            x = 0
            if offsets[sample[table[slot]] + 1] - other == length:
                while x < length and items[other + x] == items[begin + x]:
                    x += 1
                if x == length:
                    break
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = count
            sample[count] = s
            count += 1
        number[s] = table[slot]
    return number, head(sample, count)


@compiled_if_large()
def write_moves(source: Any, target: Any, label: Any, label_class: Any, num_states: Any) -> Any:
    """Return the target of each state and class of a deterministic automaton, or EMPTY, (S, C)."""
    num_classes = label_class.shape[1]
    delta = np.empty((num_states, num_classes), dtype=np.int32)
    for state in range(num_states):
        for letter in range(num_classes):
            delta[state, letter] = EMPTY
    for edge in range(len(source)):
        for letter in range(num_classes):
            if label_class[label[edge], letter]:
                delta[source[edge], letter] = target[edge]
    return delta


@compiled_if_large()
def self_loops(delta: Any, byte_class: Any) -> Any:
    """Return the bytes on which each state only stays where it is, (S, 4)."""
    num_classes = delta.shape[1]
    members = np.zeros((num_classes, 4), dtype=np.uint64)
    for b in range(256):
        members[byte_class[b], b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    loops = np.zeros((len(delta), 4), dtype=np.uint64)
    for state in range(len(delta)):
        for letter in range(num_classes):
            if delta[state, letter] == state:
                for w in range(4):
                    loops[state, w] |= members[letter, w]
    return loops

"""Masks from the edges of a token automaton.

The edges of a state are sorted by the budget that they need, so the mask for a budget is the union
of the labels of a first few of them. Labels of many tokens are packed bits, which are joined word
by word; those of few are lists, whose bits are set one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import sort_head, with_room
from pcgcd.automata.kernels.jit import compiled, compiled_part
from pcgcd.automata.kernels.lists import intern_list, new_lists, reserved

EDGE_WORDS = 5  # of `mask_rows`: the entries for each edge
NONE = -1  # of `step`: the token is not allowed
_OTHER = -2  # of `step`: several targets, or no such state or token


@compiled_part
def _class_sizes(token_class: Any, num_classes: Any) -> Any:
    """How many tokens each class has. Most are in one class: four counters wait less than one."""
    counts = np.zeros((4, num_classes), dtype=np.int64)
    for token in range(len(token_class)):
        counts[token & 3, token_class[token]] += 1
    for c in range(num_classes):
        counts[0, c] += counts[1, c] + counts[2, c] + counts[3, c]
    return counts[0]


@compiled_part
def _pack_bits(label_class: Any, token_class: Any, labels: Any, places: Any, pool: Any) -> None:
    """Write labels as packed bits to their places in the pool, eight labels at a time.

    One pass over the tokens gives each a byte, whose bit i says whether label i has it; then the
    i-th bits of 32 such bytes are a word. O(V labels / 8) passes.
    """
    vocab_size = len(token_class)
    class_code = np.empty(label_class.shape[1], dtype=np.uint8)
    code = np.zeros((vocab_size + 31) // 32 * 32, dtype=np.uint8)
    eight = code.view(np.uint64)
    for low in range(0, len(labels), 8):
        number = min(8, len(labels) - low)
        for c in range(label_class.shape[1]):
            class_code[c] = 0
            for i in range(number):
                if label_class[labels[low + i], c]:
                    class_code[c] |= np.uint8(1 << i)
        for token in range(vocab_size):
            code[token] = class_code[token_class[token]]
        for i in range(number):
            row = pool[places[low + i] : places[low + i] + len(code) // 32]
            for w in range(len(row)):
                word = np.uint32(0)
                for part in range(4):
                    # The lowest bits of eight bytes, side by side in the highest byte.
                    bits = eight[4 * w + part] >> np.uint64(i) & np.uint64(0x0101010101010101)
                    bits = bits * np.uint64(0x0102040810204080) >> np.uint64(56)
                    word |= np.uint32(bits) << np.uint32(8 * part)
                row[w] = word


@compiled
def pack_labels(label_class: Any, token_class: Any, width: Any, num_listed: Any) -> Any:
    """Labels of more than ``num_listed`` tokens as packed bits, the others as lists.

    Returns:
        Where each label begins and ends in the pool, (labels, 2), ends being -1 for packed bits;
        the pool.
    """
    num_labels, num_classes = label_class.shape
    size = _class_sizes(token_class, num_classes)
    span = np.empty((num_labels, 2), dtype=np.int64)
    is_listed = np.zeros(num_classes, dtype=np.bool_)
    total = np.int64(0)
    for label in range(num_labels):
        number = np.int64(0)
        for c in range(num_classes):
            if label_class[label, c]:
                number += size[c]
        span[label, 0] = total
        if number > num_listed:
            span[label, 1] = -1
            total += width
            continue
        total += number
        span[label, 1] = total
        for c in range(num_classes):
            if label_class[label, c]:
                is_listed[c] = True
    # The members of the classes that lists are made of.
    last = np.zeros(num_classes, dtype=np.int64)
    count = np.int64(0)
    for c in range(num_classes):
        last[c] = count
        if is_listed[c]:
            count += size[c]
    member = np.empty(count, dtype=np.uint32)
    for token in range(len(token_class)):
        c = token_class[token]
        if is_listed[c]:
            member[last[c]] = token
            last[c] += 1
    pool = np.empty(total, dtype=np.uint32)
    for label in range(num_labels):
        if span[label, 1] >= 0:
            place = span[label, 0]
            for c in range(num_classes):
                if label_class[label, c]:
                    for i in range(last[c] - size[c], last[c]):
                        pool[place] = member[i]
                        place += 1
    packed, places = np.empty(num_labels, dtype=np.int64), np.empty(num_labels, dtype=np.int64)
    count = np.int64(0)
    for label in range(num_labels):
        if span[label, 1] < 0:
            packed[count], places[count] = label, span[label, 0]
            count += 1
    _pack_bits(label_class, token_class, packed[:count], places[:count], pool)
    return span, pool


@compiled
def common_sets(first: Any, labels: Any, span: Any, least: Any, most_sets: Any) -> Any:
    """Return the sets of labels of states whose masks take long to write, each set once.

    Args:
        first: Where the edges of each state begin.
        labels: The label of each edge.
        span: See :func:`pack_labels`.
        least: A state with no more tokens to write is left out; packed bits count so many.
        most_sets: How many sets there may be; further ones are left out.

    Returns:
        The number of each state's set, or -1; the sets.
    """
    sets, members = new_lists(32, 1024), np.empty(64, dtype=np.int32)
    number = np.empty(len(first) - 1, dtype=np.int64)
    for state in range(len(number)):
        number[state] = -1
        cost = np.int64(0)
        for edge in range(first[state], first[state + 1]):
            start, stop = span[labels[edge], 0], span[labels[edge], 1]
            cost += stop - start if stop >= 0 else least
        if cost > least and sets.total[0] < most_sets:
            size = first[state + 1] - first[state]
            members = with_room(members, size)
            for i in range(size):
                members[i] = labels[first[state] + i]
            sort_head(members, size)
            sets = reserved(sets, size)
            number[state] = intern_list(sets, members, np.int64(0), size)
    return number, sets.first[: sets.total[0] + 1].copy(), sets.pool[: sets.first[sets.total[0]]]


@compiled
def mask_rows(
    first: Any,
    needs: Any,
    targets: Any,
    labels: Any,
    span: Any,
    pool: Any,
    number: Any,
    set_first: Any,
    set_pool: Any,
    width: Any,
) -> Any:
    """Return all that masks are written from, in one array, since each array of a call takes time.

    The number of states; where the edges of each begin and where the mask of all its tokens is (0:
    not written out), and where the last edges end; for each edge its budget, where its label begins
    and ends (0: packed bits), the label and the target; the labels; the masks that are written out.
    """
    num_states, num_sets = len(number), len(set_first) - 1
    at_edges = 2 * num_states + 2
    at_pool = at_edges + EDGE_WORDS * len(labels)
    at_sets = at_pool + len(pool)
    table = np.zeros(at_sets + num_sets * width, dtype=np.uint32)
    table[0] = num_states
    for state in range(num_states + 1):
        table[1 + 2 * state] = at_edges + EDGE_WORDS * first[state]
    for state in range(num_states):
        if number[state] >= 0:
            table[2 + 2 * state] = at_sets + number[state] * width
    for edge in range(len(labels)):
        label, at = labels[edge], at_edges + EDGE_WORDS * edge
        table[at] = needs[edge]
        table[at + 1] = at_pool + span[label, 0]
        table[at + 2] = at_pool + span[label, 1] if span[label, 1] >= 0 else 0
        table[at + 3] = label
        table[at + 4] = targets[edge]
    table[at_pool:at_sets] = pool
    for k in range(num_sets):
        row = table[at_sets + k * width : at_sets + (k + 1) * width]
        for label in set_pool[set_first[k] : set_first[k + 1]]:
            stop = at_pool + span[label, 1] if span[label, 1] >= 0 else np.int64(0)
            _add_label(row, table, at_pool + span[label, 0], stop)
    return table


@compiled_part
def _add_label(words: Any, pool: Any, start: Any, stop: Any) -> None:
    """Add the tokens of a label: packed bits if ``stop`` is 0, otherwise a list."""
    if stop == 0:
        row = pool[start : start + len(words)]
        for w in range(len(words)):
            words[w] |= row[w]
    else:
        for token in pool[start:stop]:
            words[token >> np.uint32(5)] |= np.uint32(1) << (token & np.uint32(31))


@compiled_part
def _add(words: Any, state: Any, budget: Any, table: Any) -> Any:
    """Add the tokens that a state allows within a budget; whether there is such a state."""
    if state < 0 or state >= np.int64(table[0]):
        return False
    low, high = np.int64(table[2 * state + 1]), np.int64(table[2 * state + 3])
    everything = np.int64(table[2 * state + 2])
    if everything and np.int64(table[high - EDGE_WORDS]) <= budget:
        _add_label(words, table, everything, np.int64(0))
        return True
    for edge in range(low, high, EDGE_WORDS):
        if np.int64(table[edge]) > budget:
            break
        _add_label(words, table, np.int64(table[edge + 1]), np.int64(table[edge + 2]))
    return True


@compiled
def write_mask(words: Any, state: Any, budget: Any, table: Any) -> Any:
    """Write the mask of a state; whether there is such a state."""
    words[:] = 0
    return _add(words, state, budget, table)


@compiled
def write_union(words: Any, members: Any, budget: Any, table: Any) -> Any:
    """Write the mask of a set of states; whether there are such states."""
    words[:] = 0
    known = True
    for i in range(len(members)):
        known &= _add(words, members[i], budget, table)
    return known


@compiled
def write_masks(rows: Any, members: Any, starts: Any, budgets: Any, table: Any) -> Any:
    """Write the masks of sets ``members[starts[k]:starts[k + 1]]``; whether there are such."""
    for k in range(len(rows)):
        if not write_union(rows[k], members[starts[k] : starts[k + 1]], budgets[k], table):
            return False
    return True


@compiled
def reached_budget(state: Any, budget: Any, table: Any) -> Any:
    """Return the least budget with which a state has the same mask; -1 if there is no such state.

    Binary search among the budgets of its edges.
    """
    if state < 0 or state >= np.int64(table[0]):
        return np.int64(-1)
    first = np.int64(table[2 * state + 1])
    low, high = np.int64(0), (np.int64(table[2 * state + 3]) - first) // EDGE_WORDS
    # Invariant: the edges before `low` are within the budget, those from `high` on are not.
    while low < high:
        middle = (low + high) // 2
        if np.int64(table[first + EDGE_WORDS * middle]) <= budget:
            low = middle + 1
        else:
            high = middle
    return np.int64(table[first + EDGE_WORDS * (low - 1)]) if low > 0 else np.int64(0)


@compiled
def step(state: Any, token: Any, table: Any, label_class: Any, token_class: Any) -> Any:
    """Return the state after a token, if there is just one, or NONE."""
    if state < 0 or state >= np.int64(table[0]) or token < 0 or token >= len(token_class):
        return np.int64(_OTHER)
    column = token_class[token]
    found = np.int64(NONE)
    for edge in range(np.int64(table[2 * state + 1]), np.int64(table[2 * state + 3]), EDGE_WORDS):
        if label_class[table[edge + 3], column]:
            if found >= 0 and found != np.int64(table[edge + 4]):
                return np.int64(_OTHER)
            found = np.int64(table[edge + 4])
    return found


@compiled
def steps(members: Any, token: Any, table: Any, label_class: Any, token_class: Any) -> Any:
    """Return the states after a token from any of several, in order.

    One step of Thompson's simulation (1968, "Regular expression search algorithm").
    """
    count = 0
    for state in members:
        count += (np.int64(table[2 * state + 3]) - np.int64(table[2 * state + 1])) // EDGE_WORDS
    found = np.empty(count, dtype=np.int64)
    count = 0
    column = token_class[token]
    for state in members:
        low, high = np.int64(table[2 * state + 1]), np.int64(table[2 * state + 3])
        for edge in range(low, high, EDGE_WORDS):
            if label_class[table[edge + 3], column]:
                found[count] = table[edge + 4]
                count += 1
    return np.unique(found[:count])

"""What an automaton with blocks as letters is, seen from outside."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large


@compiled_if_large()
def first_bytes(
    source: Indices,
    label: Indices,
    sets: Bits,
    token_class: Indices,
    begins: Bits,
    initial: Mask,
    accepting: Mask,
) -> tuple[bool, Bits]:
    """Say whether an automaton can be a block, and what its texts begin with.

    Args:
        source: The source of each edge, (E,).
        label: The row of ``sets`` of each edge, (E,).
        sets: Sets of classes as bits, (L, words).
        token_class: The class of each of the 256 bytes and of each letter, (256 + letters,).
        begins: The bytes that each letter begins with, as bits, (letters, 4).
        initial: Which states are initial, (S,).
        accepting: Which states accept, (S,).

    Returns:
        Whether there is one accepting state, which is not initial and which no edge leaves; and the
        bytes that the texts begin with, as bits, (4,).
    """
    first = np.zeros(4, dtype=np.int64)
    is_block, num_accepting = True, 0
    for s in range(len(initial)):
        if accepting[s]:
            num_accepting += 1
            is_block = is_block and not initial[s]
    is_done = np.zeros(len(sets), dtype=np.bool_)
    for e in range(len(source)):
        a = label[e]
        is_block = is_block and not accepting[source[e]]
        if not initial[source[e]] or is_done[a]:
            continue
        is_done[a] = True
        for token in range(len(token_class)):
            c = token_class[token]
            if sets[a, c >> 6] >> (c & 63) & 1 == 0:
                continue
            if token < 256:
                first[token >> 6] |= np.int64(1) << (token & 63)
            else:
                for w in range(4):
                    first[w] |= begins[token - 256, w]
    return is_block and num_accepting == 1, first


@compiled_if_large()
def num_copied(
    target: Indices,
    label: Indices,
    sets: Bits,
    letter_class: Indices,
    inner: Indices,
    num_states: int,
) -> int:
    """Count the states that are added when letters are written out.

    Edges with one letter to one target share its inner states.

    Args:
        target: The target of each edge, (E,).
        label: The row of ``sets`` of each edge, (E,).
        sets: Sets of classes as bits, (L, words).
        letter_class: The class of each letter, (letters,).
        inner: How many inner states each letter has, (letters,).
        num_states: The number of states S.
    """
    num_letters = len(inner)
    has_letters = np.zeros((len(sets), num_letters + 1), dtype=np.bool_)  # the last one: any
    for a in range(len(sets)):
        for k in range(num_letters):
            c = letter_class[k]
            has_letters[a, k] = sets[a, c >> 6] >> (c & 63) & 1
            has_letters[a, num_letters] |= has_letters[a, k]
    is_there = np.zeros((num_states, num_letters), dtype=np.bool_)
    total = 0
    for e in range(len(target)):
        a, t = label[e], target[e]
        for k in range(num_letters if has_letters[a, num_letters] else 0):
            if has_letters[a, k] and not is_there[t, k]:
                is_there[t, k] = True
                total += inner[k]
    return total

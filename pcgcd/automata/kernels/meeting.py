"""Where several ways on from one state begin with the same byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import Bits, Indices, Mask, compiled_if_large, inlined


@compiled_if_large()
def begun_twice(source: Indices, label: Indices, once: Bits, twice: Bits, num_states: int) -> Bits:
    """Find the bytes that several ways on from each state begin with, (S, words).

    Args:
        source: The source of each edge, (E,).
        label: The label of each edge, (E,).
        once: The bytes that the ways on with each label begin with, as bits, (L, words).
        twice: Those that several of them begin with, (L, words).
        num_states: The number of states S.
    """
    words = once.shape[1]
    any_way = np.zeros((num_states, words), dtype=np.int64)
    several = np.zeros((num_states, words), dtype=np.int64)
    for e in range(len(source)):
        s, a = source[e], label[e]
        for w in range(words):
            several[s, w] |= twice[a, w] | (any_way[s, w] & once[a, w])
            any_way[s, w] |= once[a, w]
    return several


@compiled_if_large()
def clashing(
    subsets: tuple[Indices, Indices, Bits],
    members: tuple[Indices, Indices],
    edges: tuple[Indices, Indices, Bits],
    num_states: int,
    token_class: Indices,
    begins: Bits,
) -> tuple[Indices, Mask]:
    """Find the edges of letters that meet another way on which begins with the same bytes.

    Args:
        subsets: The source and label of each edge of a subset construction, and its sets of
            classes, (L, words).
        members: Where the members of each of its states begin, and the states that are members.
        edges: The source and label of each edge of what it was made of, and its sets of classes.
        num_states: The number of states of that.
        token_class: The class of each of the 256 bytes and of each letter, (256 + letters,).
        begins: The bytes that each letter begins with, as bits, (letters, 4).

    Returns:
        The edges, in order, and which of their letters meet another way, (edges, letters).
    """
    source, label, sets = subsets
    count = len(begins)
    once, twice, has_letters = _begun(sets, token_class, begins)
    # Only states that letters leave are looked at.
    number = np.full(len(members[0]), -1, dtype=np.int64)
    near = 0
    for e in range(len(source)):
        if has_letters[label[e]] and number[source[e]] < 0:
            number[source[e]] = near
            near += 1
    ways = np.zeros((2, near, 4), dtype=np.int64)  # bytes that one way begins with, several ways
    for e in range(len(source)):
        s, a = number[source[e]], label[e]
        if s >= 0:
            for w in range(4):
                ways[1, s, w] |= twice[a, w] | (ways[0, s, w] & once[a, w])
                ways[0, s, w] |= once[a, w]
    meets = np.zeros((num_states, count), dtype=np.bool_)
    for state in range(len(number)):
        s = number[state]
        for k in range(count if s >= 0 else 0):
            shared = np.int64(0)
            for w in range(4):
                shared |= ways[1, s, w] & begins[k, w]
            if shared != 0:
                for i in range(members[0][state], members[0][state + 1]):
                    meets[members[1][i], k] = True
    # Twice: to count them, and to write them down.
    chosen = np.empty(0, dtype=np.int64)
    letters = np.empty((0, count), dtype=np.bool_)
    for is_counted in (False, True):
        found = 0
        for e in range(len(edges[0])):
            before, s, a = found, edges[0][e], edges[1][e]
            for k in range(count):
                c = token_class[256 + k]
                if meets[s, k] and edges[2][a, c >> 6] >> (c & 63) & 1:
                    found = before + 1
                    if is_counted:
                        chosen[before] = e
                        letters[before, k] = True
        if not is_counted:
            chosen = np.empty(found, dtype=np.int64)
            letters = np.zeros((found, count), dtype=np.bool_)
    return chosen, letters


@inlined
def _begun(sets: Any, token_class: Any, begins: Any) -> Any:
    """Find the bytes that any way on with each label begins with, and those of several, (L, 4).

    And which labels have letters, (L,).
    """
    of_class = np.zeros((64 * sets.shape[1], 4), dtype=np.int64)
    for byte in range(256):
        of_class[token_class[byte], byte >> 6] |= np.int64(1) << (byte & 63)
    once = np.zeros((len(sets), 4), dtype=np.int64)
    twice = np.zeros((len(sets), 4), dtype=np.int64)
    has_letters = np.zeros(len(sets), dtype=np.bool_)
    for a in range(len(sets)):
        for c in range(len(of_class)):
            if sets[a, c >> 6] >> (c & 63) & 1:
                for w in range(4):
                    once[a, w] |= of_class[c, w]
        for k in range(len(begins)):
            c = token_class[256 + k]
            if sets[a, c >> 6] >> (c & 63) & 1:
                has_letters[a] = True
                for w in range(4):
                    twice[a, w] |= once[a, w] & begins[k, w]
                    once[a, w] |= begins[k, w]
    return once, twice, has_letters

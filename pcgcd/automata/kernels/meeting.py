"""Where several ways on from one state begin with the same byte."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.jit import Bits, Indices, compiled_if_large


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

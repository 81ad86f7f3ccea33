"""Compiled: loops over sets of tokens as packed bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import compiled

# Each 5 bits of a de Bruijn sequence differ, so the highest 5 bits of its product with 2 ** i
# give i (Leiserson, Prokop and Randall, 1998).
_DE_BRUIJN = np.uint32(0x077CB531)
_BIT = np.argsort([0x077CB531 << i >> 27 & 31 for i in range(32)])


@compiled
def set_intervals(words: Any, bounds: Any, start: Any, stop: Any, token: Any) -> None:
    """Set the bits of tokens in intervals of ranks, ``bounds[start:stop]``."""
    for pair in range(start, stop, 2):
        for rank in range(bounds[pair], bounds[pair + 1]):
            words[token[rank] >> 5] |= np.uint32(1) << np.uint32(token[rank] & 31)


@compiled
def add_counts(words: Any, out: Any) -> None:
    """Count the bits of each row: sums of 2, 4 and 8 bits side by side, then of all four bytes."""
    for row in range(len(words)):
        for w in range(words.shape[1]):
            word = words[row, w]
            word -= word >> np.uint32(1) & np.uint32(0x55555555)
            word = (word & np.uint32(0x33333333)) + (word >> np.uint32(2) & np.uint32(0x33333333))
            word = word + (word >> np.uint32(4)) & np.uint32(0x0F0F0F0F)
            out[row] += np.uint32(word * np.uint32(0x01010101)) >> np.uint32(24)


@compiled
def write_logs(words: Any, out: Any) -> None:
    """Write rows of packed bits as rows of 0 and -inf."""
    vocab_size = out.shape[1]
    for row in range(len(words)):
        for w in range(words.shape[1]):
            word = words[row, w]
            for token in range(32 * w, min(32 * w + 32, vocab_size)):
                allowed = word >> np.uint32(token & 31) & np.uint32(1)
                out[row, token] = np.float32(0) if allowed else np.float32(-np.inf)


@compiled
def write_tokens(words: Any, out: Any) -> None:
    """Write the tokens of rows of packed bits, in order."""
    for row in range(len(words)):
        place = 0
        for w in range(words.shape[1]):
            word = words[row, w]
            while word:
                low = word & (~word + np.uint32(1))
                out[row, place] = 32 * w + _BIT[np.uint32(low * _DE_BRUIJN) >> np.uint32(27)]
                place += 1
                word ^= low

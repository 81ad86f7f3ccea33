"""Sets of tokens as packed bits: token v is bit v % 32 of word v // 32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata.arrays import Indices, Mask
from pcgcd.automata.kernels.jit import compiled
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"

# Each 5 bits of a de Bruijn sequence differ, so the highest 5 bits of its product with 2 ** i
# give i (Leiserson, Prokop and Randall, 1998).
_DE_BRUIJN = np.uint32(0x077CB531)
_BIT = np.argsort([0x077CB531 << i >> 27 & 31 for i in range(32)])


def num_words(vocab_size: int) -> int:
    """How many words hold a mask over that many tokens."""
    return (vocab_size + 31) // 32


def pack(allowed: np.ndarray[Any, Any]) -> Words:
    """Booleans (..., V) as packed bits (..., W).

    >>> pack(np.array([True, False, True]))
    array([5], dtype=uint32)
    """
    flags = np.asarray(allowed, dtype=np.bool_)
    width = num_words(flags.shape[-1])
    padding = [(0, 0)] * (flags.ndim - 1) + [(0, 32 * width - flags.shape[-1])]
    bits = np.packbits(np.pad(flags, padding), axis=-1, bitorder="little")
    return np.ascontiguousarray(bits).view("<u4").astype(np.uint32, copy=False)


def unpack(words: Words, vocab_size: int) -> Mask:
    """Packed bits (..., W) as booleans (..., V)."""
    _check(words.shape[-1], vocab_size)
    raw = np.ascontiguousarray(words, dtype="<u4").view(np.uint8)
    flags = np.unpackbits(raw, axis=-1, count=vocab_size, bitorder="little")
    return flags.view(np.bool_)


def unpack_tensor(
    words: Words, vocab_size: int, device: torch.device | str | None = None
) -> Tensor:
    """Packed bits (..., W) as a boolean tensor (..., V)."""
    result = torch.from_numpy(unpack(words, vocab_size))
    return result if device is None else result.to(device)


def apply_mask(logits: Tensor, words: Words, *, in_place: bool = False) -> Tensor:
    """Logits (..., V) with exactly -inf where a token is not allowed.

    >>> apply_mask(torch.zeros(3), pack(np.array([True, False, True])))
    tensor([0., -inf, 0.])
    """
    if not logits.is_floating_point():
        raise InvalidParameterError(
            f"logits must be floating-point to become -inf, but have type {logits.dtype}"
        )
    forbidden = ~unpack_tensor(words, logits.shape[-1], logits.device)
    if in_place:
        return logits.masked_fill_(forbidden, float("-inf"))
    return logits.masked_fill(forbidden, float("-inf"))


def log_mask(words: Words, vocab_size: int) -> Tensor:
    """Masks (k, W) as what to add to logits: 0 for a token that is allowed, else -inf, (k, V).

    >>> log_mask(pack(np.array([[True, False, True]])), 3)
    tensor([[0., -inf, 0.]])
    """
    _check(words.shape[-1], vocab_size)
    result = np.empty((len(words), vocab_size), dtype=np.float32)
    _write_logs(words, result)
    return torch.from_numpy(result)


def count(words: Words) -> Indices:
    """How many tokens masks (k, W) allow, (k,)."""
    counts = np.zeros(len(words), dtype=np.int64)
    _add_counts(words, counts)
    return counts


def listed(words: Words, vocab_size: int) -> tuple[Indices, Indices]:
    """The tokens of masks (k, W): in order, (k, m), and how many there are in each row, (k,).

    m is the number of tokens of the longest row; the others have zeros at their ends.

    >>> listed(pack(np.array([[True, False, True], [False, True, False]])), 3)
    (array([[0, 2], [1, 0]]), array([2, 1]))
    """
    _check(words.shape[-1], vocab_size)
    counts = count(words)
    tokens = np.zeros((len(words), int(counts.max(initial=0))), dtype=np.int64)
    _write_tokens(words, tokens)
    return tokens, counts


def _check(width: int, vocab_size: int) -> None:
    if width != num_words(vocab_size):
        raise VocabularyMismatchError(
            f"a mask over {vocab_size} tokens has {num_words(vocab_size)} words, but this one has "
            f"{width}; was it made for another vocabulary?"
        )


@compiled
def set_intervals(words: Any, bounds: Any, start: Any, stop: Any, token: Any) -> None:
    """Set the bits of tokens in intervals of ranks, ``bounds[start:stop]``."""
    for pair in range(start, stop, 2):
        for rank in range(bounds[pair], bounds[pair + 1]):
            words[token[rank] >> 5] |= np.uint32(1) << np.uint32(token[rank] & 31)


@compiled
def _add_counts(words: Any, out: Any) -> None:
    """Count the bits of each row: sums of 2, 4 and 8 bits side by side, then of all four bytes."""
    for row in range(len(words)):
        for w in range(words.shape[1]):
            word = words[row, w]
            word -= word >> np.uint32(1) & np.uint32(0x55555555)
            word = (word & np.uint32(0x33333333)) + (word >> np.uint32(2) & np.uint32(0x33333333))
            word = word + (word >> np.uint32(4)) & np.uint32(0x0F0F0F0F)
            out[row] += np.uint32(word * np.uint32(0x01010101)) >> np.uint32(24)


@compiled
def _write_logs(words: Any, out: Any) -> None:
    """Write rows of packed bits as rows of 0 and -inf."""
    vocab_size = out.shape[1]
    for row in range(len(words)):
        for w in range(words.shape[1]):
            word = words[row, w]
            for token in range(32 * w, min(32 * w + 32, vocab_size)):
                allowed = word >> np.uint32(token & 31) & np.uint32(1)
                out[row, token] = np.float32(0) if allowed else np.float32(-np.inf)


@compiled
def _write_tokens(words: Any, out: Any) -> None:
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

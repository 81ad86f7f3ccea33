"""Sets of tokens as packed bits: token v is bit v % 32 of word v // 32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata.arrays import Indices, Mask
from pcgcd.automata.kernels.bits import add_counts, write_logs, write_tokens
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"


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
    write_logs(words, result)
    return torch.from_numpy(result)


def count(words: Words) -> Indices:
    """How many tokens masks (k, W) allow, (k,)."""
    counts = np.zeros(len(words), dtype=np.int64)
    add_counts(words, counts)
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
    write_tokens(words, tokens)
    return tokens, counts


def _check(width: int, vocab_size: int) -> None:
    if width != num_words(vocab_size):
        raise VocabularyMismatchError(
            f"a mask over {vocab_size} tokens has {num_words(vocab_size)} words, but this one has "
            f"{width}; was it made for another vocabulary?"
        )

"""An n-gram model to compare an HMM with."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

from pcgcd.errors import InvalidParameterError
from pcgcd.learning.sequences import Data, Sequences, inside, lengths_of

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_DISCOUNT = 0.75
_ROWS = 8192


def ngram_log_likelihood(
    data: Data, held_out: Data, vocab_size: int, *, order: int = 2, eos_ids: tuple[int, ...] = ()
) -> float:
    """Nats per token of sequences under an n-gram model with interpolated absolute discounting.

        p_k(w | h) = max(c(hw) - d, 0) / c(h) + d * |{w : c(hw) > 0}| / c(h) * p_{k-1}(w | h')

    where h' is h without its first token, d is 0.75, and below unigrams all tokens are as likely.

    Args:
        data: What is counted, (N, n), or shards.
        held_out: What is measured.
        vocab_size: The number of tokens.
        order: 1, 2 or 3.
        eos_ids: Padding behind the first of these is neither counted nor measured.
    """
    if order not in (1, 2, 3):
        raise InvalidParameterError(f"the order must be 1, 2 or 3, but is {order}")
    base = vocab_size + 1  # one more, for what is before the first token
    if base**order >= 2**63:
        raise InvalidParameterError(
            f"{vocab_size} tokens are too many for order {order}; use a lower order"
        )
    seen = _ngrams(data, vocab_size, order, eos_ids)
    asked = _ngrams(held_out, vocab_size, order, eos_ids)
    likelihood = np.full(len(asked), 1.0 / vocab_size)
    for size in range(1, order + 1):
        grams, contexts = _codes(seen, size, base)
        wanted, before = _codes(asked, size, base)
        known, counts = np.unique(grams, return_counts=True)
        context, totals = np.unique(contexts, return_counts=True)
        followers = np.unique(known // base, return_counts=True)[1]
        total = _looked_up(context, totals, before)
        count = _looked_up(known, counts, wanted)
        kinds = _looked_up(context, followers, before)
        met = total > 0
        own = np.maximum(count - _DISCOUNT, 0) + _DISCOUNT * kinds * likelihood
        likelihood = np.where(met, own / np.maximum(total, 1), likelihood)
    return float(np.log(likelihood).mean())


def _ngrams(data: Data, vocab_size: int, order: int, eos_ids: tuple[int, ...]) -> Array:
    """Return all windows of ``order`` tokens that end in a token, (number, order)."""
    sequences = Sequences(data, vocab_size, torch.device("cpu"))
    found = []
    for batch in sequences.batches(_ROWS):
        padded = torch.nn.functional.pad(batch, (order - 1, 0), value=vocab_size)
        windows = padded.unfold(1, order, 1)  # (batch, n, order)
        kept = (windows >= 0).all(-1) & inside(batch, lengths_of(batch, eos_ids))
        found.append(windows[kept].numpy())
    if not found or not sum(map(len, found)):
        raise InvalidParameterError("an n-gram model needs at least one observed token")
    return np.concatenate(found)


def _codes(windows: Array, size: int, base: int) -> tuple[Array, Array]:
    """Return the last ``size`` tokens of each window as a number, with and without the last."""
    code = np.zeros(len(windows), dtype=np.int64)
    for column in range(windows.shape[1] - size, windows.shape[1]):
        code = code * base + windows[:, column]
    return code, code // base


def _looked_up(keys: Array, values: Array, wanted: Array) -> Array:
    """Return the value of each wanted key; 0 where there is none."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    result: Array = np.where(keys[place] == wanted, values[place], 0)
    return result

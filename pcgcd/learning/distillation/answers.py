"""Answers of engines that draw in their own way, brought into the form of samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError

_PRIME = 1_000_003


def row_seed(seed: int, row: int) -> int:
    """Return the seed of a row of a batch: rows with equal prompts have different ones."""
    return (seed + row * _PRIME) % 2**63


def padded_answer(
    ids: Sequence[int], length: int, eos_ids: Sequence[int], width: int, who: str
) -> Tensor:
    """One answer as a row of samples: cut at the length, and padded with its EOS, (n,) int32.

    Args:
        ids: The tokens, with the one that ended the text.
        length: The number of tokens n.
        eos_ids: The tokens that end a text.
        width: The number of tokens there are.
        who: What answered, for the errors.

    Raises:
        InvalidParameterError: The tokens are those of another model, or the answer stops early.
    """
    ids = list(ids)[:length]
    if not all(0 <= token < width for token in ids):
        raise InvalidParameterError(
            f"{who} answered with {len(ids)} tokens, some of them outside 0..{width - 1}; is it "
            "the same model?"
        )
    ended = bool(ids) and ids[-1] in eos_ids
    if not ended and len(ids) < length:
        raise InvalidParameterError(
            f"{who} stopped after {len(ids)} of {length} tokens without an end of text; is its "
            "context long enough, and does it return the token that ends a text?"
        )
    row = torch.full((length,), ids[-1] if ended else 0, dtype=torch.int32)
    row[: len(ids)] = torch.tensor(ids, dtype=torch.int32)
    return row

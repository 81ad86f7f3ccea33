"""Sums of products whose terms differ by more than the floating range.

A row of numbers is brought near one by a common shift, multiplied with ordinary floating-point
arithmetic, and shifted back. Terms far below the row's largest then vanish. That is harmless when
the largest term takes part in the sum, and wrong when its weight is zero: the sum's true value is
made of the vanished terms. Such entries are found here, so that they can be computed one by one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.semirings.tensors import contract

_CHUNK = 1 << 22


def lost_entries(x: Tensor, support: Tensor, y: Tensor, weights: Tensor) -> Tensor | None:
    """Which entries of ``y = contract(x, weights)`` lost terms that matter.

    Args:
        x: The shifted row, its largest element of order one, (..., J).
        support: Where the unshifted row is not zero, (..., J).
        y: The computed sums, (..., I).
        weights: The weights, (I, J) or (B, I, J).

    Returns:
        Index tuples (one row each) into y, or None when nothing was lost.
    """
    with torch.no_grad():
        # What vanished, in x or in a product, is below J * tiny * max(weight, 1); keep it under
        # the rounding error of the sum.
        info = torch.finfo(x.dtype)
        suspect = y <= weights.amax().clamp(min=1) * (x.shape[-1] * info.tiny / info.eps)
        if not bool(suspect.any()):
            return None
        reachable = contract(support.to(x.dtype), (weights != 0).to(x.dtype)) > 0
        lost = (suspect & reachable).nonzero()
        return lost if len(lost) else None


def entry_chunks(entries: Tensor, width: int) -> tuple[Tensor, ...]:
    """Split a list of entries so that (entries in a chunk) x width stays within memory."""
    size = max(1, _CHUNK // max(1, width))
    return tuple(entries[i : i + size] for i in range(0, len(entries), size))

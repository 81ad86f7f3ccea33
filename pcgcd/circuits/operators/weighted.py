"""What operators share that hold one tensor of weights."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.operators.base import Operator

__all__ = ["Weighted"]


class Weighted(Operator):
    """An operator whose weights are one tensor: of probabilities, or booleans."""

    weights: Tensor

    @property
    def dtype(self) -> torch.dtype | None:
        """See :class:`Operator`."""
        return self.weights.dtype if self.weights.is_floating_point() else None

    @property
    def device(self) -> torch.device:
        """See :class:`Operator`."""
        return self.weights.device

    @property
    def requires_grad(self) -> bool:
        """See :class:`Operator`."""
        return self.weights.requires_grad

    def _moved(self, device: torch.device | str | None, dtype: torch.dtype | None) -> Tensor:
        """The weights elsewhere; whole numbers keep their type."""
        return self.weights.to(device=device, dtype=dtype if self.dtype is not None else None)

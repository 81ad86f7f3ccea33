"""One step of messages through a transition, and what its parameters are expected to have done.

A transition W is a product of factors, and each factor's rows are distributions. Messages are
batches of rows (batch, H). What is counted here is without the factors themselves:

    dense     X[h, k]    = sum m[h] r[k]            expected count of h -> k:       W[h, k] X[h, k]
    Monarch   X[i, j, l] = sum m[i, j] v[i, l]      of (i, j) -> (i, l):         left[i, j, l] X
              Y[l, i, k] = sum q[i, l] r[k, l]      of (i, l) -> (k, l):        right[l, i, k] Y

where m are forward messages, r ratios of posterior to prediction, and the Monarch's q and v are the
same two in between its factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.hmm import HMM, MonarchHMM

__all__ = ["DenseSteps", "MonarchSteps", "Steps", "steps_of"]


class Steps(ABC):
    """Messages through one kind of transition.

    Attributes:
        factors: The parameters; each is read, and never written to.
        arrays_per_step: How many arrays (batch, H) are kept for each step of a walk.
    """

    factors: tuple[Tensor, ...]
    arrays_per_step: int

    @property
    @abstractmethod
    def num_hidden(self) -> int:
        """The number of hidden states H."""

    @abstractmethod
    def start(self, num_steps: int, batch_size: int) -> None:
        """Make room for a walk of that many transitions."""

    @abstractmethod
    def forward(self, step: int, message: Tensor, out: Tensor) -> None:
        """``out = message @ W``, both (batch, H)."""

    @abstractmethod
    def backward(self, step: int, ratio: Tensor, out: Tensor) -> None:
        """``out = ratio @ W.T``, both (batch, H)."""

    @abstractmethod
    def add_counts(self, into: Sequence[Tensor], messages: Tensor, ratios: Tensor) -> None:
        """Add up the counts of a walk, both arguments (steps, batch, H), one sum per factor."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> Steps:
        """The same in another floating type."""


class DenseSteps(Steps):
    """A matrix (H, H)."""

    arrays_per_step = 3

    def __init__(self, weights: Tensor) -> None:
        """Hold the matrix; it is not copied."""
        self.factors = (weights,)
        self._transposed = weights.t()

    @property
    def num_hidden(self) -> int:
        """See :class:`Steps`."""
        return int(self.factors[0].shape[0])

    def start(self, num_steps: int, batch_size: int) -> None:
        """See :class:`Steps`."""

    def forward(self, step: int, message: Tensor, out: Tensor) -> None:
        """See :class:`Steps`."""
        torch.mm(message, self.factors[0], out=out)

    def backward(self, step: int, ratio: Tensor, out: Tensor) -> None:
        """See :class:`Steps`."""
        torch.mm(ratio, self._transposed, out=out)

    def add_counts(self, into: Sequence[Tensor], messages: Tensor, ratios: Tensor) -> None:
        """See :class:`Steps`."""
        into[0].addmm_(messages.flatten(0, 1).t(), ratios.flatten(0, 1))

    def to(self, dtype: torch.dtype) -> DenseSteps:
        """See :class:`Steps`."""
        return DenseSteps(self.factors[0].to(dtype))


class MonarchSteps(Steps):
    """Two block-diagonal factors, left (a, b, b) and right (b, a, a); see :class:`Monarch`."""

    arrays_per_step = 6

    def __init__(self, left: Tensor, right: Tensor) -> None:
        """Hold the factors; they are not copied."""
        self.factors = (left, right)
        self._left_transposed, self._right_transposed = left.mT, right.mT
        self.start(0, 0)

    @property
    def num_hidden(self) -> int:
        """See :class:`Steps`."""
        left = self.factors[0]
        return int(left.shape[0] * left.shape[1])

    def start(self, num_steps: int, batch_size: int) -> None:
        """See :class:`Steps`."""
        left, right = self.factors
        a, b = left.shape[:2]
        self._between = left.new_empty(b, num_steps, batch_size, a)  # q, (l, step, batch, i)
        self._ratios = right.new_empty(b, num_steps, batch_size, a)  # r, (l, step, batch, k)
        self._returned = left.new_empty(a, num_steps, batch_size, b)  # v, (i, step, batch, l)

    def forward(self, step: int, message: Tensor, out: Tensor) -> None:
        """See :class:`Steps`."""
        left, right = self.factors
        a, b = left.shape[:2]
        mixed = torch.bmm(message.view(-1, a, b).transpose(0, 1), left)  # (i, batch, l)
        between = self._between[:, step]
        between.copy_(mixed.permute(2, 1, 0))
        moved = torch.bmm(between, right)  # (l, batch, k)
        out.view(-1, a, b).copy_(moved.permute(1, 2, 0))

    def backward(self, step: int, ratio: Tensor, out: Tensor) -> None:
        """See :class:`Steps`."""
        a, b = self.factors[0].shape[:2]
        ratios, returned = self._ratios[:, step], self._returned[:, step]
        ratios.copy_(ratio.view(-1, a, b).permute(2, 0, 1))
        returned.copy_(torch.bmm(ratios, self._right_transposed).permute(2, 1, 0))
        moved = torch.bmm(returned, self._left_transposed)  # (i, batch, j)
        out.view(-1, a, b).copy_(moved.transpose(0, 1))

    def add_counts(self, into: Sequence[Tensor], messages: Tensor, ratios: Tensor) -> None:
        """See :class:`Steps`. The ratios are those of the walk itself, in its own layout."""
        a, b = self.factors[0].shape[:2]
        rows = messages.reshape(-1, a, b).permute(1, 2, 0)  # (i, j, step and batch)
        into[0].baddbmm_(rows, self._returned.flatten(1, 2))
        into[1].baddbmm_(self._between.flatten(1, 2).mT, self._ratios.flatten(1, 2))

    def to(self, dtype: torch.dtype) -> MonarchSteps:
        """See :class:`Steps`."""
        return MonarchSteps(self.factors[0].to(dtype), self.factors[1].to(dtype))


def steps_of(hmm: HMM | MonarchHMM, dtype: torch.dtype) -> Steps:
    """The steps of a model's transition."""
    if isinstance(hmm, HMM):
        return DenseSteps(hmm.transition.detach().to(dtype))
    if isinstance(hmm, MonarchHMM):
        return MonarchSteps(hmm.left.detach().to(dtype), hmm.right.detach().to(dtype))
    raise InvalidParameterError(
        f"expected an HMM or a MonarchHMM, but got {type(hmm).__name__}; only these can be fitted"
    )

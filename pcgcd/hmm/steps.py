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
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from pcgcd.circuits import Dense, Monarch, Operator
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.model import HiddenMarkovModel


class Steps(ABC):
    """Messages through one kind of transition.

    Attributes:
        factors: The parameters; each is read, and never written to.
        arrays_per_step: How many arrays (batch, H) are kept for each step of a walk.
    """

    arrays_per_step: ClassVar[int]

    def __init__(self, *factors: Tensor) -> None:
        self.factors = factors

    @cached_property
    @abstractmethod
    def operator(self) -> Operator:
        """The transition W itself."""

    @property
    def num_hidden(self) -> int:
        """The number of hidden states H."""
        return self.operator.shape[0]

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


class DenseSteps(Steps):
    """A matrix (H, H)."""

    arrays_per_step = 3

    @cached_property
    def operator(self) -> Operator:
        return Dense(*self.factors)

    def start(self, num_steps: int, batch_size: int) -> None:
        """See :class:`Steps`."""

    def forward(self, step: int, message: Tensor, out: Tensor) -> None:
        torch.mm(message, self.factors[0], out=out)

    def backward(self, step: int, ratio: Tensor, out: Tensor) -> None:
        torch.mm(ratio, self.factors[0].t(), out=out)

    def add_counts(self, into: Sequence[Tensor], messages: Tensor, ratios: Tensor) -> None:
        into[0].addmm_(messages.flatten(0, 1).t(), ratios.flatten(0, 1))


class MonarchSteps(Steps):
    """Two block-diagonal factors, left (a, b, b) and right (b, a, a); see :class:`Monarch`."""

    arrays_per_step = 6

    @cached_property
    def operator(self) -> Operator:
        return Monarch(*self.factors)

    def start(self, num_steps: int, batch_size: int) -> None:
        left, right = self.factors
        a, b = left.shape[:2]
        self._between = left.new_empty(b, num_steps, batch_size, a)  # q, (l, step, batch, i)
        self._ratios = right.new_empty(b, num_steps, batch_size, a)  # r, (l, step, batch, k)
        self._returned = left.new_empty(a, num_steps, batch_size, b)  # v, (i, step, batch, l)

    def forward(self, step: int, message: Tensor, out: Tensor) -> None:
        left, right = self.factors
        a, b = left.shape[:2]
        mixed = torch.bmm(message.view(-1, a, b).transpose(0, 1), left)  # (i, batch, l)
        between = self._between[:, step]
        between.copy_(mixed.permute(2, 1, 0))
        moved = torch.bmm(between, right)  # (l, batch, k)
        out.view(-1, a, b).copy_(moved.permute(1, 2, 0))

    def backward(self, step: int, ratio: Tensor, out: Tensor) -> None:
        left, right = self.factors
        a, b = left.shape[:2]
        ratios, returned = self._ratios[:, step], self._returned[:, step]
        ratios.copy_(ratio.view(-1, a, b).permute(2, 0, 1))
        returned.copy_(torch.bmm(ratios, right.mT).permute(2, 1, 0))
        moved = torch.bmm(returned, left.mT)  # (i, batch, j)
        out.view(-1, a, b).copy_(moved.transpose(0, 1))

    def add_counts(self, into: Sequence[Tensor], messages: Tensor, ratios: Tensor) -> None:
        """The ratios are those of the walk itself, in its own layout."""
        a, b = self.factors[0].shape[:2]
        rows = messages.reshape(-1, a, b).permute(1, 2, 0)  # (i, j, step and batch)
        into[0].baddbmm_(rows, self._returned.flatten(1, 2))
        into[1].baddbmm_(self._between.flatten(1, 2).mT, self._ratios.flatten(1, 2))


def steps_of(hmm: HiddenMarkovModel, dtype: torch.dtype) -> Steps:
    """Return the steps of a model's transition."""
    factors = [factor.detach().to(dtype) for factor in hmm.transition_factors]
    if isinstance(hmm, HMM):
        return DenseSteps(*factors)
    if isinstance(hmm, MonarchHMM):
        return MonarchSteps(*factors)
    raise InvalidParameterError(
        f"expected an HMM or a MonarchHMM, but got {type(hmm).__name__}; only these can be fitted"
    )

"""What the engine keeps of an HMM: emissions by token, and its transition."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pcgcd.circuits import Operator
from pcgcd.hmm import HMM, MonarchHMM

__all__ = ["ModelTables"]


class ModelTables:
    """The parameters of one HMM, laid out for reading the emissions of single tokens.

    It does not refer to the HMM itself, so that a weak cache can let go of both.

    Attributes:
        rows: p(token | hidden state) with one contiguous row for each token, (V, H). The one copy
            that the engine makes, unless the HMM has its emission in this order already.
        initial: p(z_1), (H,).
        transition: p(z_{t+1} | z_t), dense or Monarch.
        dtype: The type of messages in computation, float32 or float64.
    """

    def __init__(self, hmm: HMM | MonarchHMM, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        emission = hmm.emission.detach()
        if emission.dtype != torch.bfloat16:
            emission = emission.to(dtype)
        self.rows: Tensor = emission.mT.contiguous()
        self.initial: Tensor = hmm.initial.detach().to(dtype)
        self.transition: Operator = hmm.operators.transition.to(dtype=dtype)

    _kept: ClassVar[WeakKeyDictionary[HMM | MonarchHMM, dict[torch.dtype, ModelTables]]] = (
        WeakKeyDictionary()
    )

    @classmethod
    def of(cls, hmm: HMM | MonarchHMM, dtype: torch.dtype = torch.float32) -> ModelTables:
        """The tables of an HMM, made once and forgotten with it."""
        tables = cls._kept.setdefault(hmm, {})
        if dtype not in tables:
            tables[dtype] = cls(hmm, dtype)
        return tables[dtype]

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return int(self.rows.shape[0])

    @property
    def num_hidden(self) -> int:
        """The number of hidden states H."""
        return int(self.rows.shape[1])

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.rows.device

    def forward(self, filters: Tensor) -> Tensor:
        """p(z_{t+1} | x_{1:t}) from p(z_t | x_{1:t}), (k, H)."""
        with torch.no_grad():
            result: Tensor = self.transition.rmatvec(filters)
        return result

    def backward(self, messages: Tensor) -> Tensor:
        """From a function of the next hidden state to its mean given the current one, (m, H)."""
        with torch.no_grad():
            result: Tensor = self.transition.matvec(messages)
        return result

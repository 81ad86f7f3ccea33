"""What the engine keeps of a real-valued chain: emissions by token, its transition, its ends."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from pcgcd.basics.keeping import kept_with
from pcgcd.circuits import Chain, Operator
from pcgcd.circuits.semirings import LINEAR

_TOKENS_AT_A_TIME = 1 << 12
_DOUBLE = LINEAR.with_dtype(torch.float64)
# How far sums of probabilities may be from one before their mass is summed up step by step.
_TOLERANCE = 2e-6


def table_size(chain: Chain) -> int:
    """Return the number of entries of a chain's emission, written out."""
    return chain.num_units * chain.vocab_size


class GuideTables:
    """The parameters of one chain, laid out for reading the emissions of single tokens.

    Any chain will do: an HMM, a mixture of HMMs (block-diagonal), a product of HMMs (Kronecker), or
    one with operators of the user's. It does not refer to the chain itself, which keeps it.

    Attributes:
        rows: The emission with one contiguous row for each token, (V, H). The one copy that the
            engine makes, unless the chain has its emission in this order already.
        initial: The weights of the first hidden unit, (H,).
        transition: From one hidden unit to the next, any operator.
        ending: How much a text may end in each hidden unit, (H,); ones for an HMM.
        dtype: The type of messages in computation, float32 or float64.
    """

    def __init__(self, chain: Chain, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        initial, transition, emission, final = chain.operators
        with torch.no_grad():
            self.rows: Tensor = _by_token(emission, dtype)
            zero = torch.zeros(1, dtype=torch.long, device=self.rows.device)
            self.initial: Tensor = initial.rows(zero, _DOUBLE).flatten().to(dtype)
            self.transition: Operator = transition.to(dtype=dtype)
            ones = torch.ones(chain.num_units, dtype=dtype, device=self.rows.device)
            self.ending: Tensor = final.matvec(ones).to(dtype)

    @classmethod
    def of(cls, chain: Chain, dtype: torch.dtype = torch.float32) -> GuideTables:
        """The tables of a chain, made once and forgotten with it, or when its tensors change."""
        tables: dict[torch.dtype, tuple[object, GuideTables]] = kept_with(chain, "_tables", dict)
        version = _version(chain)
        if dtype not in tables or tables[dtype][0] != version:
            tables[dtype] = (version, cls(chain, dtype))
        return tables[dtype][1]

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return int(self.rows.shape[0])

    @property
    def num_hidden(self) -> int:
        """The number of hidden units H."""
        return int(self.rows.shape[1])

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.rows.device

    @cached_property
    def totals(self) -> Tensor:
        """The emission summed over all tokens, (H,) float64."""
        result = torch.zeros(self.num_hidden, dtype=torch.float64, device=self.device)
        for rows in self.rows.split(_TOKENS_AT_A_TIME):
            result += rows.double().sum(0)
        return result

    @cached_property
    def log_initial(self) -> float:
        """The logarithm of the sum of the initial weights; 0 for an HMM."""
        total = float(self.initial.double().sum())
        return 0.0 if abs(total - 1) <= _TOLERANCE else math.log(total)

    @cached_property
    def is_normalised(self) -> bool:
        """Whether all that may follow a hidden unit sums to one, so that it need not be summed."""
        ones = torch.ones(self.num_hidden, dtype=self.dtype, device=self.device)
        sums = (self.totals, self.backward(ones), self.ending)
        return all(bool(((sum_ - 1).abs() <= _TOLERANCE).all()) for sum_ in sums)

    @cached_property
    def is_counting(self) -> bool:
        """Whether it is one unit that weighs every token as one: it counts what the others say."""
        ones = (self.rows, self.initial, self.ending, self.backward(torch.ones_like(self.initial)))
        return self.num_hidden == 1 and all(bool((part == 1).all()) for part in ones)

    def forward(self, filters: Tensor) -> Tensor:
        """p(z_{t+1} | x_{1:t}) from p(z_t | x_{1:t}), (k, H)."""
        with torch.no_grad():
            result: Tensor = self.transition.rmatvec(filters)
        return result

    def backward(self, messages: Tensor) -> Tensor:
        """From a function of the next hidden unit to its mean given the current one, (m, H)."""
        with torch.no_grad():
            result: Tensor = self.transition.matvec(messages)
        return result


def _version(chain: Chain) -> tuple[int, ...]:
    """How often each tensor of a chain has been written to."""
    found, stack = [], list(chain.operators)
    while stack:
        operator = stack.pop()
        stack.extend(operator.parts)
        found += [0 if part.is_inference() else part._version for part in operator.tensors]
    return tuple(found)


def _by_token(emission: Operator, dtype: torch.dtype) -> Tensor:
    """The emission as rows of tokens, (V, H); bfloat16 stays as it is."""
    kept = torch.bfloat16 if emission.dtype == torch.bfloat16 else dtype
    device = emission.device or torch.device("cpu")
    result = torch.empty(emission.shape[1], emission.shape[0], dtype=kept, device=device)
    for tokens in torch.arange(emission.shape[1], device=device).split(_TOKENS_AT_A_TIME):
        result[tokens] = emission.columns(tokens).detach().to(kept)
    return result

"""Potentials: how good a prefix is, beyond its probability.

The intermediate target of SMC is phi(x_1:t) = p_lm(x_1:t) * psi(x_1:t). Where a text ends, psi is
the indicator of the constraint whatever the potential says before, so that the weights aim at
p_lm(x) * 1{x in C} with every potential, and for ambiguous automata too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from pcgcd.decoding.prefixes import Prefixes
from pcgcd.decoding.proposals import check_weight

__all__ = ["LookAhead", "Potential", "PrefixValidity", "Terminal"]


class Potential(Protocol):
    """Anything that rates unfinished prefixes.

    The result is unbiased if psi is positive wherever the prefix can still be completed.

    Attributes:
        needs_product: Whether it reads ``prefixes.product``.
    """

    @property
    def needs_product(self) -> bool:
        """Whether it needs an HMM."""

    def log_twist(self, prefixes: Prefixes) -> Tensor:
        """The logarithm of psi(x_1:t) of each prefix, (k,); -inf kills it."""


@dataclass(frozen=True)
class Terminal:
    """Nothing before the end: psi = 1."""

    needs_product: ClassVar[bool] = False

    def log_twist(self, prefixes: Prefixes) -> Tensor:
        """Zeros."""
        return torch.zeros(prefixes.num_rows, dtype=torch.float64)


@dataclass(frozen=True)
class PrefixValidity:
    """psi = 1 if the prefix can be completed, else 0.

    Attributes:
        within_budget: Completed in the tokens that remain; else in any number of them.
    """

    within_budget: bool = True
    needs_product: ClassVar[bool] = False

    def log_twist(self, prefixes: Prefixes) -> Tensor:
        """Zero or -inf."""
        viable = prefixes.automaton.viable(within_budget=self.within_budget)
        return torch.where(viable, 0.0, -torch.inf).double()


@dataclass(frozen=True)
class LookAhead:
    """psi = p_hmm(C | x_1:t)^(1 - w), the HMM's guess that the text will do.

    For an ambiguous automaton it counts paths; the end of the text corrects that.

    Attributes:
        w: Between 0, the potential of P-GCD, and 1, which is :class:`PrefixValidity`.
    """

    w: float = 0.0
    needs_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the range."""
        check_weight(self.w)

    def log_twist(self, prefixes: Prefixes) -> Tensor:
        """The product's log-probability of a completion, tempered."""
        log_chance = prefixes.need_product().log_lookahead().double().cpu()
        # Not zero times infinity: what cannot be completed stays impossible.
        return torch.where(log_chance.isneginf(), log_chance, (1 - self.w) * log_chance)

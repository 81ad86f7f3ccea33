"""Potentials: how good a prefix is, beyond its probability.

The intermediate target of SMC is phi(x_1:t) = p_lm(x_1:t) * psi(x_1:t). Where a text ends, psi is
f(x), the indicator of the constraint (or its weight, where it is weighted), whatever the potential
says before. So the weights aim at p_lm(x) f(x) with every potential, and for ambiguous automata
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from pcgcd.decoding.proposals import check_weight
from pcgcd.engine.state import PrefixState


class Potential(Protocol):
    """Anything that rates unfinished prefixes.

    The result is unbiased if psi is positive wherever the prefix can still be completed.

    Attributes:
        needs_guide: Whether it needs a guide: whether it asks the state what a circuit says.
    """

    @property
    def needs_guide(self) -> bool:
        """Whether it needs a guide, such as an HMM."""

    def log_twist(self, state: PrefixState) -> Tensor:
        """Return the logarithm of psi(x_1:t) of each prefix, (k,); -inf kills it."""


@dataclass(frozen=True)
class Terminal:
    """Nothing before the end: psi = 1."""

    needs_guide: ClassVar[bool] = False

    def log_twist(self, state: PrefixState) -> Tensor:
        """Zeros."""
        return torch.zeros(state.num_rows, dtype=torch.float64)


@dataclass(frozen=True)
class PrefixValidity:
    """psi = 1 if the prefix can be completed, else 0; with weights, the weight so far.

    Attributes:
        within_budget: Completed in the tokens that remain; else in any number of them.
    """

    within_budget: bool = True
    needs_guide: ClassVar[bool] = False

    def log_twist(self, state: PrefixState) -> Tensor:
        """Zero (or the logarithm of the weight so far), or -inf."""
        viable = state.viable(within_budget=self.within_budget)
        return state.log_so_far().masked_fill(~viable, -torch.inf)


@dataclass(frozen=True)
class LookAhead:
    """psi = E_g[f | x_1:t]^(1 - w), the guide's guess of how well the text will do.

    For an ambiguous automaton it counts paths; the end of the text corrects that.

    Attributes:
        w: Between 0, the potential of P-GCD, and 1, which is :class:`PrefixValidity`.
    """

    w: float = 0.0
    needs_guide: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the range."""
        check_weight(self.w)

    def log_twist(self, state: PrefixState) -> Tensor:
        """Return the circuit's log-probability of a completion, tempered."""
        log_chance = state.log_lookahead().double().cpu()
        # Not zero times infinity: what cannot be completed stays impossible.
        return torch.where(log_chance.isneginf(), log_chance, (1 - self.w) * log_chance)

"""Potentials: how good a prefix is, beyond its probability.

The intermediate target of SMC is phi(x_1:t) = p_lm(x_1:t) * psi(x_1:t). Where a text ends, psi is
f(x), the indicator of the constraint (or its weight, where it is weighted), whatever the potential
says before. So the weights aim at p_lm(x) f(x) with every potential, and for ambiguous automata
too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from pcgcd.decoding.proposals import check_weight
from pcgcd.engine.state import PrefixState
from pcgcd.errors import InvalidParameterError


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


@dataclass(frozen=True)
class Hedged:
    """A potential that may be wrong, on which resampling relies only in part.

    A look-ahead that is wrong makes resampling drop the very particles that turn out well, and the
    weights cannot bring them back. Where w = p_lm / q is the weight of a particle without any
    potential, it is resampled by the defensive mixture (Hesterberg, 1995)

        share w trusted / sum w trusted  +  (1 - share) w psi / sum w psi      (over the particles)

    and keeps what this leaves out as its weight. So no particle has less than ``share`` of the
    offspring that it would have with the trusted potential alone. What comes after the resampling
    divides by the same numbers, so that the evidence stays unbiased.

    Attributes:
        potential: Psi, what rates the prefixes.
        share: From 0, which is psi alone, to 1, which resamples by the trusted potential.
        trusted: A potential that is not doubted.
    """

    potential: Potential
    share: float
    trusted: Potential = field(default_factory=PrefixValidity)

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 <= self.share <= 1:
            raise InvalidParameterError(f"the share must lie in [0, 1], but is {self.share}")

    @property
    def needs_guide(self) -> bool:
        """Whether one of the potentials does."""
        return self.potential.needs_guide or self.trusted.needs_guide

    def log_twist(self, state: PrefixState) -> Tensor:
        """Return what the potential says."""
        return self.potential.log_twist(state)


def hedge_of(potential: Potential) -> float:
    """How much of the resampling goes by a trusted potential instead."""
    return potential.share if isinstance(potential, Hedged) else 0.0


def hedged(log_weights: Tensor, log_twist: Tensor, log_trusted: Tensor, share: float) -> Tensor:
    """What the particles of a task are resampled by, (k,); see :class:`Hedged`.

    >>> weights = torch.tensor([0.0, -9.0])  # alike but for psi
    >>> hedged(weights, weights, torch.zeros(2), 0.5).exp()
    tensor([1.4999, 0.5001])

    Args:
        log_weights: With the potential, (k,).
        log_twist: The logarithm of psi, (k,).
        log_trusted: That of the trusted potential, (k,).
        share: Of the trusted potential.
    """
    if share == 0:
        return log_weights
    dead = log_twist.isneginf() | log_trusted.isneginf()
    safe = (log_weights - log_twist + log_trusted).masked_fill(dead, -torch.inf)
    log_safe, log_all = safe.logsumexp(0), log_weights.logsumexp(0)
    if not bool((log_safe + log_all).isfinite()):
        return log_weights
    shares = log_weights.new_tensor([share, 1 - share]).log()
    return torch.logaddexp(shares[0] + safe, shares[1] + log_weights - log_all + log_safe)

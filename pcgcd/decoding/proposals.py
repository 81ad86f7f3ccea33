"""Proposals: the distributions that the next tokens are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch

from pcgcd.decoding.next_step import NextStep
from pcgcd.engine.candidates import Candidates
from pcgcd.errors import InvalidParameterError


class Proposal(Protocol):
    """Anything that weighs the tokens that may come next.

    Whatever it does, SMC's weights correct it, provided that it gives weight to every token with
    which the target goes on.

    Attributes:
        needs_guide: Whether it needs a guide: whether it asks the state what a circuit says.
    """

    @property
    def needs_guide(self) -> bool:
        """Whether it needs a guide, such as an HMM."""

    def weigh(self, step: NextStep) -> Candidates:
        """Return the tokens and their log-weights, not normalised; a row without any dies."""


@dataclass(frozen=True)
class Unconstrained:
    """The language model itself."""

    needs_guide: ClassVar[bool] = False

    def weigh(self, step: NextStep) -> Candidates:
        """All tokens."""
        return Candidates(None, step.log_probs)


@dataclass(frozen=True)
class LCD:
    """Locally constrained decoding, Eq. (1): tokens after which some text of any length is left.

    The budget may end before the text does.
    """

    needs_guide: ClassVar[bool] = False

    def weigh(self, step: NextStep) -> Candidates:
        """Return the model's weights, masked."""
        return step.masked(within_budget=False)


@dataclass(frozen=True)
class GCD:
    """Globally constrained decoding, Eq. (2): tokens after which a text fits in the budget."""

    needs_guide: ClassVar[bool] = False

    def weigh(self, step: NextStep) -> Candidates:
        """Return the model's weights, masked."""
        return step.masked(within_budget=True)


def check_weight(w: float) -> None:
    """Check that w, the weight of the language model, lies in [0, 1].

    Raises:
        InvalidParameterError: It is not between 0 and 1.
    """
    if not 0 <= w <= 1:
        raise InvalidParameterError(f"w must lie in [0, 1], but is {w}")


@dataclass(frozen=True)
class _Weighted:
    """What depends on how far the language model is trusted rather than the guide."""

    w: float

    def __post_init__(self) -> None:
        """Check the range."""
        check_weight(self.w)

    @property
    def needs_guide(self) -> bool:
        """Whether it needs a guide, such as an HMM."""
        return self.w < 1


@dataclass(frozen=True)
class PGCD(_Weighted):
    """Probabilistic GCD: q(x_t) in proportion to p_lm(x_t)^w * p_circuit(x_t)^(1 - w).

    ``w`` weighs the language model (in GeLaTo and Ctrl-G, w weighs the HMM). Its support is that
    of GCD.

    Attributes:
        w: Between 0, the circuit alone, and 1, which is GCD.
    """

    w: float = 0.7

    def weigh(self, step: NextStep) -> Candidates:
        """Return the geometric mixture over the tokens that GCD allows."""
        if self.w == 1:
            return step.masked(within_budget=True)
        circuit = step.state.next_tokens()
        if self.w == 0:
            impossible = circuit.at(step.log_probs) == -torch.inf
            return circuit.with_weights(circuit.log_weights.masked_fill(impossible, -torch.inf))
        # In place: these (k, V) passes are what a step costs beside the circuit.
        mixture = circuit.log_weights.mul(1 - self.w)
        mixture.add_(circuit.at(step.log_probs).to(mixture.dtype), alpha=self.w)
        return circuit.with_weights(mixture)


@dataclass(frozen=True)
class Twisted(_Weighted):
    """The language model, twisted: q(x_t) in proportion to p_lm(x_t) * p_hmm(C | x_{1:t})^(1 - w).

    P-GCD asks the HMM which token comes next, which the language model knows better; this asks it
    only what the language model cannot tell, how likely each token is to end well. With the
    potential ``LookAhead(w)`` a particle's weight does not depend on the token that was drawn.
    Its support is that of GCD.

    Attributes:
        w: Between 0, which trusts the HMM's look-ahead in full, and 1, which is GCD.
    """

    w: float = 0.5

    def weigh(self, step: NextStep) -> Candidates:
        """Return the model's weights times those of the look-ahead."""
        if self.w == 1:
            return step.masked(within_budget=True)
        ahead = step.state.next_lookaheads()
        twisted = ahead.log_weights.mul(1 - self.w)
        twisted.add_(ahead.at(step.log_probs).to(twisted.dtype))
        return ahead.with_weights(twisted)

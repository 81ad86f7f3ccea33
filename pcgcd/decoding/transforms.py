r"""Temperature, top-k and top-p: explicit changes of the target.

The mask comes first, as in other engines: top-k and top-p choose among the tokens that the
constraint allows. Let p_T be the language model at temperature T, normalised over all tokens, and
K(x_{<t}) the k most likely of the allowed tokens, or the most likely ones that reach a share p of
the mass of all allowed tokens (first top-k, then top-p among what is left). Then

    gamma(x) = f(x) \prod_t p_T(x_t | x_{<t}) 1{x_t in K(x_{<t})}.

That is a function of the text alone, so that all methods with the same mask aim at the same thing;
without top-k and top-p it is the model at temperature T given the constraint. What is allowed is
what GCD allows (Eq. 2); for LCD, which knows no budget, what LCD allows (Eq. 1). Without SMC, GCD
draws its texts just as mask, temperature, top-k, top-p and a draw would.

Temperature 0 is greedy: see :mod:`pcgcd.decoding.beam`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pcgcd.basics.choices import check_one_of
from pcgcd.decoding.proposals import LCD, Proposal, Unconstrained
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.engine.candidates import Candidates
    from pcgcd.engine.state import PrefixState


@dataclass(frozen=True)
class Sharpening:
    """How next-token distributions are changed before anything else is done with them.

    Attributes:
        temperature: Log-probabilities are divided by it and normalised again; 1 changes nothing,
            0 is greedy.
        top_k: Only the k most likely tokens are kept.
        top_p: Only the most likely tokens that together reach this probability are kept.
        truncate: Among which tokens: those that are "allowed" by the constraint, or all of the
            "model", which is normalised again. A constraint that wants a token that the model
            would not choose then leaves nothing.

    >>> log_probs = torch.tensor([[0.7, 0.2, 0.1]]).log()
    >>> Sharpening(top_k=1)(log_probs)
    tensor([[0., -inf, -inf]])
    >>> from pcgcd.engine.candidates import Candidates
    >>> allowed = Candidates(torch.tensor([[1, 2]]), torch.zeros(1, 2))
    >>> Sharpening(top_k=1)(log_probs, allowed).exp()
    tensor([[0.0000, 0.2000, 0.0000]])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    truncate: str = "allowed"

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 <= self.temperature < float("inf"):
            raise InvalidParameterError(
                f"temperature must be a positive number, or 0 for greedy decoding, but is "
                f"{self.temperature}"
            )
        if self.top_k is not None and self.top_k < 1:
            raise InvalidParameterError(f"top_k must be at least 1, but is {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidParameterError(f"top_p must lie in (0, 1], but is {self.top_p}")
        check_one_of("truncate", self.truncate, "allowed", "model")

    @property
    def is_greedy(self) -> bool:
        """Whether nothing is drawn: the temperature is 0."""
        return self.temperature == 0

    @property
    def truncates(self) -> bool:
        """Whether top-k or top-p are asked for."""
        return self.top_k is not None or (self.top_p is not None and self.top_p < 1)

    def given(self, log_probs: Tensor, state: PrefixState, proposal: Proposal) -> Tensor:
        """Return the changed log-probabilities after some prefixes, (k, V).

        Args:
            log_probs: The language model's, (k, V).
            state: The prefixes.
            proposal: What the tokens are drawn from: its mask is the one that comes first.
        """
        allowed = None
        if (
            self.truncates
            and self.truncate == "allowed"
            and not isinstance(proposal, Unconstrained)
        ):
            found = state.allowed(within_budget=not isinstance(proposal, LCD))
            allowed = found.to(log_probs.device)
        return self(log_probs, allowed)

    def __call__(self, log_probs: Tensor, allowed: Candidates | None = None) -> Tensor:
        """The changed log-probabilities, (k, V).

        Args:
            log_probs: The language model's, (k, V).
            allowed: What is truncated, with the weights of a weighted automaton; without it, all
                tokens are, and normalised again.
        """
        result = log_probs
        if self.temperature not in (0, 1):
            result = (log_probs / self.temperature).log_softmax(-1)
        if not self.truncates:
            return result
        if allowed is None:
            return result.masked_fill(~self._kept(result), -torch.inf).log_softmax(-1)
        values = allowed.at(result)
        kept = self._kept(values + allowed.log_weights.to(values))
        return allowed.with_weights(values.masked_fill(~kept, -torch.inf)).dense(result.shape[1])

    def _kept(self, log_weights: Tensor) -> Tensor:
        """Which columns are kept: top-k, then top-p of what is left, (k, m)."""
        order = log_weights.sort(dim=-1, descending=True, stable=True)
        kept = order.values > -torch.inf
        if self.top_k is not None:
            kept[:, self.top_k :] = False
        if self.top_p is not None:
            shares = order.values.masked_fill(~kept, -torch.inf).softmax(-1)
            # The smallest set that reaches top_p: what came before has not reached it yet.
            kept &= shares.cumsum(-1) - shares < self.top_p
        return torch.zeros_like(kept).scatter(-1, order.indices, kept)

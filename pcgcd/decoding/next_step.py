"""What a proposal sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from pcgcd.engine.candidates import Candidates
from pcgcd.engine.state import PrefixState


@dataclass(frozen=True, eq=False)
class NextStep:
    """The prefixes, and what the language model says comes next.

    Attributes:
        state: k prefixes in the target's circuit.
        log_probs: The language model's log-probabilities of the next token, (k, V).
    """

    state: PrefixState
    log_probs: Tensor
    _allowed: dict[bool, Candidates] = field(default_factory=dict, repr=False)

    def allowed(self, *, within_budget: bool = True) -> Candidates:
        """Return the tokens that the constraint allows; see :meth:`PrefixState.allowed`."""
        if within_budget not in self._allowed:
            found = self.state.allowed(within_budget=within_budget)
            self._allowed[within_budget] = found.to(self.log_probs.device)
        return self._allowed[within_budget]

    def masked(self, *, within_budget: bool = True) -> Candidates:
        """Return the tokens that the constraint allows, with the model's log-probabilities."""
        found = self.state.allowed(within_budget=within_budget).to(self.log_probs.device)
        # In place: a (k, V) pass that needs new memory takes several times as long.
        weights = found.log_weights.to(self.log_probs.dtype).add_(found.at(self.log_probs))
        return found.with_weights(weights)

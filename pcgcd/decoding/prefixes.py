"""A batch of prefixes with all that is known of them, kept in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from pcgcd.decoding.tracking import AutomatonState
from pcgcd.engine.candidates import Candidates
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.engine import ProductState

__all__ = ["NextStep", "Prefixes"]


@dataclass(frozen=True, eq=False)
class Prefixes:
    """k prefixes: their tokens, their automaton states, and where an HMM guides, its messages.

    Immutable: :meth:`advance` and :meth:`select` move every part at once, so that no part can
    get out of step with another.

    Attributes:
        tokens: The tokens generated so far, without the prompt.
        automaton: The live automaton states.
        product: The forward messages of ``hmm * fa``; None if no HMM is used.
    """

    tokens: tuple[tuple[int, ...], ...]
    automaton: AutomatonState
    product: ProductState | None = None

    @property
    def num_rows(self) -> int:
        """The number of prefixes k."""
        return len(self.tokens)

    def advance(self, tokens: Sequence[int]) -> Prefixes:
        """After one more token each."""
        return Prefixes(
            tuple((*prefix, token) for prefix, token in zip(self.tokens, tokens, strict=True)),
            self.automaton.advance(tokens),
            None if self.product is None else self.product.advance(tokens),
        )

    def select(self, rows: Sequence[int]) -> Prefixes:
        """Other rows: repeated, dropped or in another order."""
        if list(rows) == list(range(self.num_rows)):
            return self
        return Prefixes(
            tuple(self.tokens[row] for row in rows),
            self.automaton.select(rows),
            None if self.product is None else self.product.select(rows),
        )

    def need_product(self) -> ProductState:
        """The product's messages.

        Raises:
            InvalidParameterError: The run has no HMM.
        """
        if self.product is None:
            raise InvalidParameterError("P-GCD needs an HMM: give hmm=")
        return self.product


@dataclass(frozen=True, eq=False)
class NextStep:
    """What a proposal sees: the prefixes and what the language model says comes next.

    Attributes:
        prefixes: k prefixes.
        log_probs: The language model's log-probabilities of the next token, (k, V).
    """

    prefixes: Prefixes
    log_probs: Tensor
    _allowed: dict[bool, Candidates] = field(default_factory=dict, repr=False)

    def allowed(self, *, within_budget: bool) -> Candidates:
        """The tokens that the automaton allows; see :meth:`AutomatonState.allowed`."""
        if within_budget not in self._allowed:
            self._allowed[within_budget] = self._find(within_budget)
        return self._allowed[within_budget]

    def masked(self, *, within_budget: bool) -> Candidates:
        """The tokens that the automaton allows, with the language model's log-probabilities."""
        found = self._find(within_budget)
        # In place: a (k, V) pass that needs new memory takes several times as long.
        weights = found.log_weights.to(self.log_probs.dtype).add_(found.at(self.log_probs))
        return found.with_weights(weights)

    def _find(self, within_budget: bool) -> Candidates:
        found = self.prefixes.automaton.allowed(within_budget=within_budget)
        device = self.log_probs.device
        tokens = None if found.tokens is None else found.tokens.to(device)
        return Candidates(tokens, found.log_weights.to(device))

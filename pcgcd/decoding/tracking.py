"""Where the prefixes of a batch stand in their automata, and what may come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata import FiniteAutomaton
from pcgcd.engine.candidates import Candidates
from pcgcd.errors import EmptyLanguageError, VocabularyMismatchError

__all__ = ["AutomatonState", "check_budget"]

Live: TypeAlias = "tuple[int, ...]"

_FEW = 8  # a row with at most V / 8 allowed tokens names them one by one


def check_budget(fa: FiniteAutomaton, budget: int) -> None:
    """Refuse a budget in which no text can be finished.

    Raises:
        EmptyLanguageError: It names the smallest budget that works.
    """
    shortest = fa.shortest_length()
    if shortest is None:
        raise EmptyLanguageError("the constraint accepts no sequence of tokens", length=budget)
    if budget < shortest:
        raise EmptyLanguageError(
            f"no text satisfies the constraint within {budget} tokens; the smallest budget that "
            f"works is {shortest}",
            length=budget,
            shortest_length=shortest,
        )


@dataclass(frozen=True, eq=False)
class AutomatonState:
    """The live states of k prefixes, each in an automaton of its own. Immutable.

    Attributes:
        automata: The automaton of each row.
        live: The states that each prefix can be in; none if it cannot be completed any more.
        remaining: How many tokens may still come, for each row.
    """

    automata: tuple[FiniteAutomaton, ...]
    live: tuple[Live, ...]
    remaining: tuple[int, ...]

    @classmethod
    def start(cls, automata: Sequence[FiniteAutomaton], budgets: Sequence[int]) -> AutomatonState:
        """Before the first token."""
        sizes = {fa.vocab_size for fa in automata}
        if len(sizes) > 1:
            raise VocabularyMismatchError(
                f"the automata of a batch must share a vocabulary, but have {sorted(sizes)} tokens"
            )
        return cls(tuple(automata), tuple(fa.start_states for fa in automata), tuple(budgets))

    @property
    def num_rows(self) -> int:
        """The number of prefixes k."""
        return len(self.live)

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return self.automata[0].vocab_size

    def allowed(self, *, within_budget: bool) -> Candidates:
        """The tokens after which a text can be finished, with log-weight 0.

        Args:
            within_budget: In the tokens that remain (GCD, Eq. 2), or in any number (LCD, Eq. 1).
        """
        masks = [
            fa.mask(live, remaining if within_budget else None) if live else None
            for fa, live, remaining in zip(self.automata, self.live, self.remaining, strict=True)
        ]
        counts = [0 if mask is None else int(np.count_nonzero(mask)) for mask in masks]
        width = max(counts, default=0)
        if width * _FEW > self.vocab_size:
            flags = np.zeros((self.num_rows, self.vocab_size), dtype=np.bool_)
            for row, mask in enumerate(masks):
                if mask is not None:
                    flags[row] = mask
            return Candidates(None, _log_indicator(torch.from_numpy(flags)))
        tokens = np.zeros((self.num_rows, max(width, 1)), dtype=np.int64)
        for row, mask in enumerate(masks):
            if mask is not None:
                tokens[row, : counts[row]] = np.flatnonzero(mask)
        filled = torch.arange(max(width, 1)) < torch.tensor(counts).unsqueeze(1)
        return Candidates(torch.from_numpy(tokens), _log_indicator(filled))

    def viable(self, *, within_budget: bool) -> Tensor:
        """Whether each prefix can still be finished, (k,) booleans."""
        result = []
        for fa, live, remaining in zip(self.automata, self.live, self.remaining, strict=True):
            distance = min((int(fa.distance_to_accept[s]) for s in live), default=None)
            result.append(distance is not None and (not within_budget or distance <= remaining))
        return torch.tensor(result, dtype=torch.bool)

    def accepted(self) -> Tensor:
        """Whether each prefix is a word as it stands, (k,) booleans."""
        return torch.tensor(
            [
                any(bool(fa.accepting_mask[state]) for state in live)
                for fa, live in zip(self.automata, self.live, strict=True)
            ],
            dtype=torch.bool,
        )

    def advance(self, tokens: Sequence[int]) -> AutomatonState:
        """After one more token each."""
        live = tuple(
            fa.advance(states, token) if states else ()
            for fa, states, token in zip(self.automata, self.live, tokens, strict=True)
        )
        return replace(self, live=live, remaining=tuple(left - 1 for left in self.remaining))

    def select(self, rows: Sequence[int]) -> AutomatonState:
        """Other rows: repeated, dropped or in another order."""
        return AutomatonState(
            tuple(self.automata[row] for row in rows),
            tuple(self.live[row] for row in rows),
            tuple(self.remaining[row] for row in rows),
        )


def _log_indicator(flags: Tensor) -> Tensor:
    return torch.where(flags, 0.0, -torch.inf)

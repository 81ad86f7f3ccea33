"""What decoding asks of a circuit: prefixes that grow token by token, and what may follow them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.frozen import Frozen
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.tracks import Track, allowed
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

LOG_SMALLEST = math.log(torch.finfo(torch.float32).tiny)


class PrefixState(Frozen, ABC):
    """k prefixes in a circuit g(x) f(x): a guide g, any circuit, and a constraint f, automata.

    Everything above the engine (proposals, potentials, SMC, logits processors) knows prefixes by
    this alone. Immutable: :meth:`advance` and :meth:`select` make others. n is the length of the
    whole text, tokens so far and tokens that remain.
    """

    # -- where the prefixes are ---------------------------------------------------------------

    @property
    @abstractmethod
    def tracks(self) -> tuple[Track, ...]:
        """Where each prefix stands in its automaton."""

    @property
    def num_rows(self) -> int:
        """The number of prefixes k."""
        return len(self.tracks)

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return self.tracks[0].graph.vocab_size if self.tracks else 0

    @cached_property
    def remaining(self) -> Indices:
        """How many tokens may still come in each row, (k,)."""
        return np.array([track.remaining for track in self.tracks], dtype=np.int64)

    @property
    def live_states(self) -> tuple[tuple[int, ...], ...]:
        """The automaton's states after each prefix; none if it has left the constraint."""
        return tuple(track.members for track in self.tracks)

    # -- what the constraint says -------------------------------------------------------------

    def allowed(self, *, within_budget: bool = True) -> Candidates:
        """Return the tokens after which a text can be finished, with log-weight 0: a mask.

        In a weighted automaton the log-weights say how much a token changes the weight so far.

        Args:
            within_budget: In the tokens that remain (GCD, Eq. 2), or in any number (LCD, Eq. 1).
        """
        return allowed(self.tracks, within_budget=within_budget)

    def viable(self, *, within_budget: bool = True) -> Tensor:
        """Return whether each prefix can still be finished, (k,) booleans."""
        return torch.tensor(
            [track.is_alive if within_budget else bool(track.members) for track in self.tracks],
            dtype=torch.bool,
        )

    def log_so_far(self) -> Tensor:
        """Return the log-weight of each prefix in a weighted automaton, else 0, (k,) float64."""
        return self._vector([track.log_so_far() for track in self.tracks])

    def log_final(self) -> Tensor:
        """Return the log of f(x) of each prefix as a whole text, (k,) float64.

        0 if it is accepted and -inf if not; in a weighted automaton the log of its weight.
        """
        return self._vector([track.log_final() for track in self.tracks])

    # -- what the circuit says ----------------------------------------------------------------

    @abstractmethod
    def _scored(self, *, exactly: bool) -> Candidates:
        """See :meth:`next_token_log_probs` and, not exactly, :meth:`next_tokens`."""

    def next_token_log_probs(self) -> Candidates:
        """Return the log of p(next token | prefix) of the normalised circuit g f, exactly.

        -inf where it is zero; throughout where the prefix has no mass.
        """
        return self._scored(exactly=True)

    @abstractmethod
    def guide_log_probs(self, columns: Tensor | None) -> Tensor:
        """Return log p(next token | prefix) of the guide g alone, at some tokens of each row.

        Args:
            columns: The tokens, (k, m); None for the whole vocabulary.
        """

    @property
    @abstractmethod
    def log_prefix(self) -> Tensor:
        """The log of the sum of g over all texts that begin with the prefix, (k,) float64.

        For an HMM that is log p(x_{1:t}).
        """

    @property
    @abstractmethod
    def log_mass(self) -> Tensor:
        """The log of the sum of g f over all texts that begin with the prefix, (k,) float64."""

    @abstractmethod
    def _unknown_log_lookahead(self) -> Tensor:
        """What a prefix that the guide deems impossible had before it did, (k,) float64."""

    def next_tokens(self) -> Candidates:
        """Return the log of p(next token | prefix) of g f, with the support of GCD.

        An allowed token always has a finite log-weight. Where its mass is zero (the guide says
        so, or it is too small for a float) it gets the smallest positive normal float32; where
        all masses of a row are zero the allowed tokens share the row equally. Importance weights
        correct the rest. Everything else is exactly -inf.
        """
        return self._scored(exactly=False)

    def next_lookaheads(self) -> Candidates:
        """Return the log of E_g[f | prefix, next token] / E_g[f | prefix] of the allowed tokens.

        How much a token raises or lowers the chance to end well. Where the guide gives an allowed
        token no mass it knows nothing of what follows, and the token is neutral (0); where it
        gives the token mass, but no way to end well, the smallest positive normal float32.
        """
        joint = self.next_tokens()
        marginal = self.guide_log_probs(joint.tokens).to(joint.log_weights)
        impossible = joint.log_weights.isneginf()
        log_weights = joint.log_weights - marginal
        log_weights = log_weights.masked_fill(joint.log_weights <= LOG_SMALLEST, LOG_SMALLEST)
        log_weights = log_weights.masked_fill(marginal.isneginf(), 0.0)
        return joint.with_weights(log_weights.masked_fill(impossible, -torch.inf))

    def log_lookahead(self) -> Tensor:
        """Return log E_g[f | prefix]: for a constraint, log p_g(it is satisfied), (k,) float64.

        -inf where nothing can be accepted in the tokens that remain. Where something can, but the
        guide gives it no mass, the smallest positive float32. A prefix that the guide deems
        impossible keeps what it had before. Paths count: an ambiguous automaton may give more
        than 1.
        """
        prefix, mass = self.log_prefix, self.log_mass
        known = torch.where(mass.isneginf(), torch.full_like(mass, LOG_SMALLEST), mass - prefix)
        result = torch.where(prefix.isneginf(), self._unknown_log_lookahead(), known)
        return result.masked_fill(~self.viable().to(result.device), -torch.inf)

    # -- moving on ----------------------------------------------------------------------------

    @abstractmethod
    def _advanced(self, tokens: list[int]) -> PrefixState:
        """See :meth:`advance`; the tokens are checked."""

    @abstractmethod
    def _selected(self, rows: list[int]) -> PrefixState:
        """See :meth:`select`; the rows are checked."""

    def advance(self, tokens: Sequence[int] | Tensor) -> PrefixState:
        """Append one token to each prefix; one that is not allowed leaves no live state."""
        chosen = _whole_numbers(tokens)
        if len(chosen) != self.num_rows:
            raise InvalidParameterError(
                f"advance needs one token for each of the {self.num_rows} rows, but got "
                f"{len(chosen)}"
            )
        for token in chosen:
            if not 0 <= token < self.vocab_size:
                raise VocabularyMismatchError(
                    f"tokens must lie in 0..{self.vocab_size - 1}, but {token} was given"
                )
        return self._advanced(chosen)

    def select(self, rows: Sequence[int] | Tensor) -> PrefixState:
        """Select rows by number: repeated, dropped, in any order."""
        chosen = _whole_numbers(rows)
        wrong = [row for row in chosen if not 0 <= row < self.num_rows]
        if wrong:
            raise InvalidParameterError(
                f"rows must lie in 0..{self.num_rows - 1}, but {wrong[:5]} were given"
            )
        if chosen == list(range(self.num_rows)):
            return self
        return self._selected(chosen)

    def _vector(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_rows} rows, remaining {self.remaining.tolist()})"


def _whole_numbers(values: Sequence[int] | Tensor) -> list[int]:
    return values.tolist() if isinstance(values, Tensor) else [int(value) for value in values]


def with_support(log_weights: Tensor, is_allowed: Tensor) -> Tensor:
    """Return the log-weights, with every allowed token in their support and no other."""
    result = log_weights.nan_to_num(neginf=LOG_SMALLEST)
    empty = log_weights.isneginf().all(1, keepdim=True)
    share = -is_allowed.sum(1, keepdim=True).clamp(min=1).log().to(result)
    return torch.where(empty, share, result).masked_fill(~is_allowed, -torch.inf)

"""Where prefixes stand in their automata: live states, weights so far, tokens that remain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.numbers import check_whole_number
from pcgcd.engine.candidates import FEW, Candidates
from pcgcd.engine.graph import Graph
from pcgcd.engine.live_sets import LiveSet
from pcgcd.errors import EmptyLanguageError

if TYPE_CHECKING:
    from pcgcd.automata.masks.lazy import TokenMasks
    from pcgcd.automata.masks.state_sets import PrefixMasks

Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# The budget of a text that may take any number of tokens.
UNLIMITED = 1 << 40


def check_budget(graph: Graph, budget: int) -> None:
    """Refuse a budget in which nothing can be accepted.

    Raises:
        InvalidParameterError: It is not a number of tokens.
        EmptyLanguageError: It names the smallest budget that works.
    """
    check_whole_number("the budget", budget)
    if not len(graph.initial):
        raise EmptyLanguageError("the constraint accepts no sequence of tokens", length=budget)
    if not graph.is_alive(graph.initial, int(budget)):
        raise too_short(budget, graph.shortest(int(budget)), exactly=not graph.is_padded)


def too_short(budget: int, shortest: int | None, *, exactly: bool = False) -> EmptyLanguageError:
    """Return the error of a budget in which nothing can be accepted."""
    return EmptyLanguageError(
        f"no text satisfies the constraint {'in exactly' if exactly else 'within'} {budget} "
        f"tokens; the smallest budget that works is {shortest}",
        length=int(budget),
        shortest_length=shortest,
    )


class Track(ABC):
    """One prefix in its automaton. Immutable.

    Attributes:
        graph: The automaton.
        remaining: How many tokens may still come.
        token: The last one; -1 before the first.
    """

    graph: Graph | TokenMasks
    remaining: int
    token: int

    @abstractmethod
    def advance(self, token: int) -> Track:
        """Return the prefix with one more token; without states if it is not allowed."""

    @abstractmethod
    def followers(self, limit: int) -> tuple[int, ...] | None:
        """Return the tokens after which something can be accepted; None if they are more."""

    @property
    @abstractmethod
    def members(self) -> tuple[int, ...]:
        """The states after the prefix from which something can be accepted."""

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether something can be accepted in the tokens that remain."""

    @property
    @abstractmethod
    def accepts(self) -> bool:
        """Whether the prefix is a word as it stands."""

    @abstractmethod
    def masks(self, *, within_budget: bool) -> PrefixMasks | None:
        """Return what writes the masks of such prefixes; None if no masks can say it."""

    def log_so_far(self) -> float:
        """Return the logarithm of the weight of the prefix; 0 where nothing is weighted."""
        return 0.0

    def log_final(self) -> float:
        """Return the logarithm of f(x) of the prefix as a whole text: 0, -inf, or its weight."""
        return 0.0 if self.accepts else -math.inf


@dataclass(frozen=True, eq=False)
class GraphTrack(Track):
    """One prefix in an automaton over tokens, with the weights of its paths.

    Attributes:
        graph: The automaton.
        live: The states after the prefix from which something can be accepted.
        log_counts: For each of them, the logarithm of the number (or the weight) of the paths.
        remaining: How many tokens may still come.
        token: The last one; -1 before the first.
    """

    graph: Graph
    live: LiveSet
    log_counts: Logs
    remaining: int
    token: int = -1

    @classmethod
    def start(cls, graph: Graph, budget: int) -> GraphTrack:
        """Before the first token."""
        live = graph.live_sets.enter(graph.initial)
        return cls(graph, live, np.zeros(len(live.states)), budget)

    @property
    def members(self) -> tuple[int, ...]:
        return self.live.members

    @cached_property
    def is_alive(self) -> bool:
        return self.remaining >= 0 and self.graph.is_alive(self.live.states, self.remaining)

    def advance(self, token: int) -> GraphTrack:
        graph = self.graph
        move = self.live.move(int(graph.token_class[token]))
        log_counts = self.log_counts[:0]
        if len(move.to) == 1:
            log_counts = self.log_counts[move.place] + move.log_weight
        elif len(move.to):
            log_counts = np.full(len(move.target.states), -np.inf)
            np.logaddexp.at(log_counts, move.to, self.log_counts[move.place] + move.log_weight)
        return GraphTrack(graph, move.target, log_counts, self.remaining - 1, token)

    def followers(self, limit: int) -> tuple[int, ...] | None:
        return self.live.followers(limit)

    @property
    def accepts(self) -> bool:
        return bool(self.graph.accepting[self.live.states].any())

    def masks(self, *, within_budget: bool) -> PrefixMasks | None:
        if self.graph.log_weight is not None or (within_budget and not self.graph.is_padded):
            return None
        from pcgcd.automata.masks.table import MaskTable

        return MaskTable.of(self.graph.automaton)

    def log_so_far(self) -> float:
        if self.graph.log_weight is None:
            return super().log_so_far()
        return float(np.logaddexp.reduce(self.log_counts, initial=-np.inf))

    def log_final(self) -> float:
        if self.graph.log_weight is None:
            return super().log_final()
        ends = self.log_counts[self.graph.accepting[self.live.states]]
        return float(np.logaddexp.reduce(ends, initial=-np.inf))


@dataclass(frozen=True, eq=False)
class LazyTrack(Track):
    """One prefix in an automaton over bytes, which is lifted to tokens where prefixes lead.

    Attributes:
        graph: The masks of the automaton.
        states: The states after the prefix from which something can be accepted.
        remaining: How many tokens may still come.
        token: The last one; -1 before the first.
    """

    graph: TokenMasks
    states: tuple[int, ...]
    remaining: int
    token: int = -1

    @property
    def members(self) -> tuple[int, ...]:
        return self.states

    @cached_property
    def is_alive(self) -> bool:
        return self.graph.can_end(self.states, self.remaining)

    def advance(self, token: int) -> LazyTrack:
        after = self.graph.advance(self.states, token)
        return LazyTrack(self.graph, after, self.remaining - 1, token)

    def followers(self, limit: int) -> tuple[int, ...] | None:
        return self.graph.followers(self.states, limit)

    @property
    def accepts(self) -> bool:
        return self.graph.is_accepting(self.states)

    def masks(self, *, within_budget: bool) -> PrefixMasks:
        return self.graph


def allowed(tracks: Sequence[Track], *, within_budget: bool) -> Candidates:
    """Return the tokens after which a text can be finished.

    Their log-weights are 0; in a weighted automaton, how much a token changes the weight so far.

    Args:
        tracks: k prefixes, in automata over one vocabulary.
        within_budget: In the tokens that remain (GCD, Eq. 2), or in any number (LCD, Eq. 1).
    """
    vocab_size = tracks[0].graph.vocab_size if tracks else 0
    members: dict[int, list[int]] = {}
    for row, track in enumerate(tracks):
        members.setdefault(id(track.graph), []).append(row)
    parts = []
    for rows in members.values():
        chosen = [tracks[row] for row in rows]
        masks = chosen[0].masks(within_budget=within_budget)
        if masks is not None:
            parts.append(_packed(masks, chosen, within_budget))
        else:
            weights = [_by_class(t, within_budget) for t in chosen if isinstance(t, GraphTrack)]
            parts.append(Candidates(None, torch.stack(weights)))
    return Candidates.merged(parts, list(members.values()), vocab_size)


def _packed(masks: PrefixMasks, tracks: Sequence[Track], within_budget: bool) -> Candidates:
    """Write the masks of all rows in one call, as packed bits, and read them."""
    from pcgcd.automata.masks.bits import count, listed, log_mask

    states = [track.members for track in tracks]
    budgets = [max(track.remaining, 0) if within_budget else None for track in tracks]
    words = masks.masks(states, budgets)
    if int(count(words).max(initial=0)) > FEW * masks.vocab_size:
        return Candidates(None, log_mask(words, masks.vocab_size))
    tokens, counts = listed(words, masks.vocab_size)
    filled = np.arange(tokens.shape[1]) < counts[:, None]
    return Candidates(
        torch.from_numpy(tokens), torch.where(torch.from_numpy(filled), 0.0, -torch.inf)
    )


def _by_class(track: GraphTrack, within_budget: bool) -> Tensor:
    """The log-weights of one row over the vocabulary, (V,), from the ways that tokens lead."""
    graph = track.graph
    if within_budget and track.remaining < 1:
        return torch.full((graph.vocab_size,), -torch.inf)
    group, first, place, log_weight = track.live.ways(track.remaining if within_budget else None)
    relative = np.full(int(group.max(initial=-1)) + 2, -np.inf)  # the last entry is for -1
    if graph.log_weight is None:
        relative[:-1] = 0.0
    elif len(first) > 1:
        ways = track.log_counts[place] + log_weight
        relative[:-1] = np.logaddexp.reduceat(ways, first[:-1]) - track.log_so_far()
    return torch.from_numpy(relative[group][graph.token_class]).float()

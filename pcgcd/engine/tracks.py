"""Where prefixes stand in their automata: live states, weights so far, tokens that remain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.numbers import check_whole_number
from pcgcd.engine.candidates import FEW, Candidates
from pcgcd.engine.graph import Graph
from pcgcd.engine.live_sets import LiveSet
from pcgcd.errors import EmptyLanguageError

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
        shortest = graph.shortest(int(budget))
        within = "within" if graph.is_padded else "in exactly"
        raise EmptyLanguageError(
            f"no text satisfies the constraint {within} {budget} tokens; the smallest budget that "
            f"works is {shortest}",
            length=int(budget),
            shortest_length=shortest,
        )


@dataclass(frozen=True, eq=False)
class Track:
    """One prefix in its automaton. Immutable.

    Attributes:
        graph: The automaton.
        live: The states after the prefix from which something can be accepted.
        log_counts: For each of them, the logarithm of the number (or the weight) of the paths.
        remaining: How many tokens may still come.
    """

    graph: Graph
    live: LiveSet
    log_counts: Logs
    remaining: int

    @classmethod
    def start(cls, graph: Graph, budget: int) -> Track:
        """Before the first token."""
        live = graph.live_sets.enter(graph.initial)
        return cls(graph, live, np.zeros(len(live.states)), budget)

    @cached_property
    def is_alive(self) -> bool:
        """Whether something can be accepted in the tokens that remain."""
        return self.remaining >= 0 and self.graph.is_alive(self.live.states, self.remaining)

    def advance(self, token: int) -> Track:
        """After one more token; without live states if it is not allowed."""
        graph = self.graph
        move = self.live.move(int(graph.token_class[token]))
        log_counts = self.log_counts[:0]
        if len(move.to) == 1:
            log_counts = self.log_counts[move.place] + move.log_weight
        elif len(move.to):
            log_counts = np.full(len(move.target.states), -np.inf)
            np.logaddexp.at(log_counts, move.to, self.log_counts[move.place] + move.log_weight)
        return Track(graph, move.target, log_counts, self.remaining - 1)

    @property
    def accepts(self) -> bool:
        """Whether the prefix is a word as it stands."""
        return bool(self.graph.accepting[self.live.states].any())

    def log_so_far(self) -> float:
        """Return the logarithm of the weight of the prefix; 0 where nothing is weighted."""
        if self.graph.log_weight is None:
            return 0.0
        return float(np.logaddexp.reduce(self.log_counts, initial=-np.inf))

    def log_final(self) -> float:
        """The logarithm of f(x) of the prefix as a whole text: 0 or -inf, or what it weighs."""
        if self.graph.log_weight is None:
            return 0.0 if self.accepts else -math.inf
        ends = self.log_counts[self.graph.accepting[self.live.states]]
        return float(np.logaddexp.reduce(ends, initial=-np.inf))


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
        graph = tracks[rows[0]].graph
        chosen = [tracks[row] for row in rows]
        if graph.log_weight is None and (graph.is_padded or not within_budget):
            parts.append(_packed(graph, chosen, within_budget))
        else:
            weights = torch.stack([_by_class(track, within_budget) for track in chosen])
            parts.append(Candidates(None, weights))
    return Candidates.merged(parts, list(members.values()), vocab_size)


def _packed(graph: Graph, tracks: Sequence[Track], within_budget: bool) -> Candidates:
    """One compiled call for all rows: their masks as packed bits."""
    from pcgcd.automata.masks.bits import count, listed, log_mask

    states = [track.live.members for track in tracks]
    budgets = [max(track.remaining, 0) if within_budget else None for track in tracks]
    words = graph.automaton.masks(states, budgets)
    if int(count(words).max(initial=0)) > FEW * graph.vocab_size:
        return Candidates(None, log_mask(words, graph.vocab_size))
    tokens, counts = listed(words, graph.vocab_size)
    filled = np.arange(tokens.shape[1]) < counts[:, None]
    return Candidates(
        torch.from_numpy(tokens), torch.where(torch.from_numpy(filled), 0.0, -torch.inf)
    )


def _by_class(track: Track, within_budget: bool) -> Tensor:
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

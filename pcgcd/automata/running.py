"""Reading words with an automaton that is made deterministic only where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pcgcd.automata.arrays import Indices, Weights, indicator

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton

# How many states all sets together may have before they are forgotten: 40 MB.
_KEPT_STATES = 5_000_000


class Runner:
    """The sets of states that words lead to, numbered as they are met; number 0 is the start.

    Each step from a set is worked out once and kept, up to a bound on their number.
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        self._index = fa.edge_index
        self._label_class, self._token_class = fa.labels.label_class, fa.labels.token_class
        self._accepting = fa.accepting_mask
        self._initial = np.flatnonzero(fa.initial_mask)
        self._forget()

    def _forget(self) -> None:
        self._number: dict[bytes, int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        self._size = 0
        self.members: list[Indices] = []
        self.accepts: list[bool] = []
        self._enter(self._initial)

    def _enter(self, states: Indices) -> int:
        key = states.tobytes()
        if key not in self._number:
            self._number[key] = len(self.members)
            self.members.append(states)
            self._size += len(states) + 1
            self.accepts.append(bool(self._accepting[states].any()))
        return self._number[key]

    def step(self, current: int, token_class: int) -> int:
        """The set that a class of tokens leads to from a set."""
        key = (current, token_class)
        found = self._steps.get(key)
        if found is None:
            edges = self._edges(self.members[current], token_class)
            reached = indicator(self._index.target[edges], len(self._accepting))
            found = self._steps[key] = self._enter(np.flatnonzero(reached))
        return found

    def _edges(self, states: Indices, token_class: int) -> Indices:
        """The edges that leave some states with a class of tokens."""
        edges = self._index.leaving(states)
        chosen: Indices = edges[self._label_class[self._index.label[edges], token_class]]
        return chosen

    def classes(self, current: int) -> Indices:
        """The classes of tokens with which a set can be left."""
        labels = np.unique(self._index.label[self._index.leaving(self.members[current])])
        return np.flatnonzero(self._label_class[labels].any(axis=0))

    def accepts_word(self, tokens: Sequence[int]) -> bool:
        """Return whether a word leads to a set with an accepting state."""
        word = self._classes_of(tokens)
        if word is None:
            return False
        current = 0
        for token_class in word:
            if self._size > _KEPT_STATES:
                states = self.members[current]
                self._forget()
                current = self._enter(states)
            current = self.step(current, token_class)
            if not len(self.members[current]):
                return False
        return self.accepts[current]

    def log_weight(self, tokens: Sequence[int]) -> float:
        """The logarithm of the weights of a word's accepting paths, summed; -inf without any."""
        word = self._classes_of(tokens)
        if word is None:
            return -np.inf
        target, weight = self._index.target, self._index.weight
        states: Indices = self._initial
        sums: Weights = np.zeros(len(states))  # the logarithm for each of the states
        for token_class in word:
            edges = self._edges(states, token_class)
            terms = sums[np.searchsorted(states, self._index.source[edges])]
            if weight is not None:
                terms += np.log(weight[edges])
            states, place = np.unique(target[edges], return_inverse=True)
            sums = np.full(len(states), -np.inf)
            np.logaddexp.at(sums, place.reshape(-1), terms)
        return float(np.logaddexp.reduce(sums[self._accepting[states]]))

    def _classes_of(self, tokens: Sequence[int]) -> list[int] | None:
        """The classes of a word's tokens; None if one is beyond the vocabulary."""
        if isinstance(tokens, bytes | bytearray):
            word = np.frombuffer(tokens, dtype=np.uint8)
        else:
            word = np.array([int(token) for token in tokens], dtype=np.int64)
        if len(word) and not 0 <= int(word.min()) <= int(word.max()) < len(self._token_class):
            return None
        classes: list[int] = self._token_class[word].tolist()
        return classes

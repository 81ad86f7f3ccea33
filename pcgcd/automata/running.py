"""Reading words with an automaton that is made deterministic only where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton

__all__ = ["Runner"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# How many states all sets together may have before they are forgotten: 40 MB.
_KEPT_STATES = 5_000_000


class Runner:
    """The sets of states that words lead to, numbered as they are met; number 0 is the start.

    Each step from a set is worked out once and kept, up to a bound on their number.
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        order = np.argsort(fa.source, kind="stable")
        self._offsets = np.searchsorted(fa.source[order], np.arange(fa.num_states + 1))
        self._target, self._label = fa.target[order], fa.label[order]
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
            edges = self.edges(current)
            chosen = edges[self._label_class[self._label[edges], token_class]]
            reached = np.zeros(len(self._accepting), dtype=np.bool_)
            reached[self._target[chosen]] = True
            found = self._steps[key] = self._enter(np.flatnonzero(reached))
        return found

    def edges(self, current: int) -> Indices:
        """The edges that leave a set, in the order of their sources."""
        parts = [
            np.arange(self._offsets[s], self._offsets[s + 1])
            for s in self.members[current].tolist()
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def classes(self, current: int) -> Indices:
        """The classes of tokens with which a set can be left."""
        labels = np.unique(self._label[self.edges(current)])
        return np.flatnonzero(self._label_class[labels].any(axis=0))

    def accepts_word(self, tokens: Sequence[int]) -> bool:
        """Whether a word leads to a set with an accepting state."""
        if isinstance(tokens, bytes | bytearray):
            word = np.frombuffer(tokens, dtype=np.uint8)
        else:
            word = np.array([int(token) for token in tokens], dtype=np.int64)
        if len(word) and not 0 <= int(word.min()) <= int(word.max()) < len(self._token_class):
            return False
        current = 0
        for token_class in self._token_class[word].tolist():
            if self._size > _KEPT_STATES:
                states = self.members[current]
                self._forget()
                current = self._enter(states)
            current = self.step(current, token_class)
            if not len(self.members[current]):
                return False
        return self.accepts[current]

"""Random words of automata that are too large, or too far from deterministic, to be counted."""

from __future__ import annotations

import random
from itertools import pairwise

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.errors import EmptyLanguageError


class RandomWalks:
    """Words along random edges.

    Where :meth:`FiniteAutomaton.random_word` draws all words alike, and so mostly from where there
    are most of them (inside a quoted string, say), a walk sees all parts of the automaton.
    """

    def __init__(self, automaton: FiniteAutomaton, seed: int) -> None:
        """Prepare the edges from which an end can be reached."""
        self.random = random.Random(seed)
        self._labels = automaton.labels
        self._distance: list[int] = automaton.distance_to_accept.tolist()
        index = automaton.edge_index
        edges = list(zip(index.target.tolist(), index.label.tolist()))
        self._edges = [edges[a:b] for a, b in pairwise(index.first.tolist())]
        starts = automaton.initial_mask.nonzero()[0].tolist()
        self._starts = [state for state in starts if self._distance[state] < automaton.num_states]
        if not self._starts:
            raise EmptyLanguageError("the automaton accepts no word, so there is none to draw")

    def word(self, length: int) -> tuple[int, ...]:
        """Return a walk of so many steps if there are as many, then the shortest way to an end.

        >>> from pcgcd.constraints import regex
        >>> bytes(RandomWalks(regex("(ab)*").automaton, seed=0).word(3))
        b'abab'
        """
        state = self.random.choice(self._starts)
        result: list[int] = []
        while len(result) < length or self._distance[state]:
            choices = self._edges[state]
            if len(result) >= length:
                choices = [e for e in choices if self._distance[e[0]] < self._distance[state]]
            if not choices:
                break
            state, label = self.random.choice(choices)
            result.append(self.random.choice(self._labels.tokens(label).tolist()))
        return tuple(result)

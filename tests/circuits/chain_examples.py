"""Two small automata over three tokens: a deterministic and an ambiguous one."""

from __future__ import annotations

from pcgcd import FiniteAutomaton


def dfa() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=3,
        initial=0,
        accepting={1},
        edges=[(0, 0, {0}), (0, 1, {1, 2}), (1, 1, {0, 2})],
    )


def nfa() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=3,
        initial={0, 1},
        accepting={1, 2},
        edges=[(0, 0, {0, 1, 2}), (0, 1, {1}), (1, 2, {1, 2}), (2, 2, {0, 1}), (1, 0, {0})],
    )

"""Automata to draw."""

from __future__ import annotations

from pcgcd import FiniteAutomaton
from pcgcd.demo.exact import CHARACTERS, integer_object

JSON_NAMES = list(CHARACTERS)


def json_automaton() -> FiniteAutomaton:
    """The paper's Figure 1."""
    return integer_object()


def parity() -> FiniteAutomaton:
    """Two states with edges both ways and loops; the initial one accepts."""
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=2,
        initial=0,
        accepting={0},
        edges=[(0, 0, {0}), (0, 1, {1}), (1, 1, {0}), (1, 0, {1})],
    )


def large_vocabulary() -> FiniteAutomaton:
    """Two initial states, long token sets, far more tokens than can be drawn."""
    return FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=1000,
        initial=[0, 1],
        accepting={2, 3},
        edges=[(0, 2, range(500)), (1, 2, range(400, 412)), (2, 3, {7}), (3, 0, {7, 8, 9})],
    )


EXAMPLES = {"json": json_automaton, "parity": parity, "large_vocabulary": large_vocabulary}

"""Small circuits for the tests of the bridge to pyjuice, in both of their processes."""

from __future__ import annotations

import torch

from pcgcd import HMM, FiniteAutomaton
from pcgcd.circuits import CircuitLike

VOCAB_SIZE = 3


def hmm(num_hidden: int = 4, seed: int = 0) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(num_hidden, VOCAB_SIZE, generator=generator, dtype=torch.float64)


def automaton() -> FiniteAutomaton:
    """A deterministic one, with a state that nothing leaves and one that nothing reaches."""
    return FiniteAutomaton.from_edges(
        num_states=5,
        vocab_size=VOCAB_SIZE,
        initial=0,
        accepting={2},
        edges=[
            (0, 0, {0}),
            (0, 1, {1, 2}),
            (1, 2, {0, 1}),
            (1, 3, {2}),
            (2, 2, {0, 2}),
            (4, 2, {0}),
        ],
    )


def ambiguous_automaton() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=VOCAB_SIZE,
        initial={0, 1},
        accepting={1, 2},
        edges=[(0, 0, {0, 1}), (0, 1, {0, 2}), (1, 1, {0, 1, 2}), (1, 2, {2}), (2, 0, {1})],
    )


def dead_units() -> CircuitLike:
    """State 3 emits the one token that is forbidden, and state 2 leads to it alone."""
    model = hmm()
    transition, emission = model.transition.clone(), model.emission.clone()
    transition[2] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    emission[3] = torch.tensor([0.0, 0.0, 1.0])
    no_twos = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=VOCAB_SIZE, initial=0, accepting={0}, edges=[(0, 0, {0, 1})]
    )
    return HMM(model.initial, transition, emission) * no_twos

"""The engine computes what Algorithm 1 computes."""

from __future__ import annotations

import math

import pytest
import torch

from pcgcd.engine import ChainEngine
from tests.engine.algorithm_1 import Algorithm1
from tests.engine.worlds import (
    VOCAB_SIZE,
    Oracle,
    padded_automata,
    random_automaton,
    random_hmm,
)

PADDED = padded_automata()


def test_algorithm_1_is_the_mass_of_completions() -> None:
    for seed in range(6):
        hmm, fa, length = random_hmm(seed), random_automaton(seed), 3
        oracle = Oracle(hmm, fa, length)
        if oracle.mass() == 0:
            continue
        algorithm = Algorithm1(hmm, fa)
        for prefix in oracle.prefixes():
            if len(prefix) < length:
                masses = [oracle.mass((*prefix, v)) for v in range(VOCAB_SIZE)]
                found = algorithm.next_tokens(prefix, length) * oracle.mass()
                assert found.tolist() == pytest.approx(masses, abs=1e-7)


@pytest.mark.parametrize("name", [*PADDED, *range(8)])
def test_the_engine_follows_algorithm_1(name: str | int) -> None:
    hmm, length = random_hmm(7), 6
    fa = PADDED[name] if isinstance(name, str) else random_automaton(name)
    engine, algorithm = ChainEngine(hmm, fa), Algorithm1(hmm, fa)
    if engine.log_mass(length) == -math.inf:
        return
    betas = algorithm.backward(length)
    assert engine.log_mass(length) == pytest.approx(math.log(algorithm.gamma), abs=1e-5)
    alpha, state = algorithm.first(), engine.start([length])
    for step in range(length):
        joint = algorithm.scores(alpha, betas[step])
        found = state.next_tokens().dense(VOCAB_SIZE)[0]
        expected = (joint / joint.sum()).log()
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
        token = int(found.argmax())
        alpha, state = algorithm.forward(alpha, token), state.advance([token])

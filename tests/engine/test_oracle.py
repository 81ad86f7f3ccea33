"""What circuits, worlds and prefix states say, against fractions that share no code with them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.engine import compile_circuit
from pcgcd.hmm import HMM
from pcgcd.testing.worlds import enumerate_values

SIZE, LENGTH = 3, 4
Edge = tuple[int, int, frozenset[int]]
# Not padded, ambiguous, with a state that leads nowhere.
EDGES: list[Edge] = [
    (0, 0, frozenset({0, 1})),
    (0, 1, frozenset({0})),
    (1, 1, frozenset({1, 2})),
    (1, 2, frozenset({2})),
    (0, 3, frozenset({2})),
]
ACCEPTING = frozenset({1, 2})

Rows = list[list[Fraction]]


def dyadic(rows: list[list[int]]) -> Rows:
    """Whole numbers over a power of two, so that floats hold them exactly."""
    return [[Fraction(value, sum(row)) for value in row] for row in rows]


MODELS: dict[str, tuple[Rows, Rows, Rows]] = {
    "dense": (
        dyadic([[3, 5]]),
        dyadic([[1, 3], [5, 3]]),
        dyadic([[2, 1, 1], [1, 5, 2]]),
    ),
    "zeros": (
        dyadic([[1, 0]]),
        dyadic([[1, 1], [0, 1]]),
        dyadic([[1, 1, 0], [0, 1, 3]]),
    ),
    "deterministic": (
        dyadic([[1, 0]]),
        dyadic([[0, 1], [1, 0]]),
        dyadic([[1, 0, 0], [0, 1, 0]]),
    ),
}


def hmm_value(name: str, text: tuple[int, ...]) -> Fraction:
    """The sum over hidden paths."""
    (pi,), a, b = MODELS[name]
    total = Fraction(0)
    for path in itertools.product(range(len(pi)), repeat=len(text)):
        moves = math.prod((a[y][z] for y, z in itertools.pairwise(path)), start=pi[path[0]])
        total += moves * math.prod(b[z][x] for z, x in zip(path, text, strict=True))
    return total


def fa_paths(text: tuple[int, ...]) -> int:
    """The number of accepting paths, edge by edge."""
    counts = {0: 1}
    for x in text:
        after: dict[int, int] = {}
        for source, target, tokens in EDGES:
            if x in tokens and source in counts:
                after[target] = after.get(target, 0) + counts[source]
        counts = after
    return sum(count for state, count in counts.items() if state in ACCEPTING)


def value(name: str, text: tuple[int, ...]) -> Fraction:
    return hmm_value(name, text) * fa_paths(text)


def product_of(name: str) -> tuple[HMM, FiniteAutomaton]:
    pi, a, b = (torch.tensor([[float(v) for v in row] for row in part]) for part in MODELS[name])
    fa = FiniteAutomaton.from_edges(
        num_states=4, vocab_size=SIZE, initial=0, accepting=ACCEPTING, edges=EDGES
    )
    return HMM(pi[0].double(), a.double(), b.double()), fa


@pytest.mark.parametrize("name", MODELS)
def test_worlds_list_the_values_that_fractions_give(name: str) -> None:
    hmm, fa = product_of(name)
    world = enumerate_values(hmm * fa, LENGTH)
    for text, found in zip(world.strings.tolist(), world.log_values.exp().tolist(), strict=True):
        assert found == pytest.approx(float(value(name, tuple(text))), rel=1e-12, abs=0)


@pytest.mark.parametrize("name", MODELS)
def test_prefix_states_give_the_next_tokens_that_fractions_give(name: str) -> None:
    hmm, fa = product_of(name)
    texts = list(itertools.product(range(SIZE), repeat=LENGTH))
    values = {text: value(name, text) for text in texts}
    compared = 0
    for length in range(LENGTH):
        for prefix in itertools.product(range(SIZE), repeat=length):
            mass = sum((v for x, v in values.items() if x[:length] == prefix), Fraction(0))
            state = compile_circuit(hmm * fa).start([LENGTH])
            for token in prefix:
                state = state.advance([token])
            found = state.log_mass.exp().item()
            assert found == pytest.approx(float(mass), rel=1e-5, abs=0)
            if not mass:
                continue
            chances = state.next_token_log_probs().dense(SIZE)[0].exp().tolist()
            for token, chance in enumerate(chances):
                longer = (*prefix, token)
                part = sum((v for x, v in values.items() if x[: length + 1] == longer), Fraction(0))
                assert chance == pytest.approx(float(part / mass), rel=1e-5, abs=0)
                compared += 1
    assert compared > SIZE

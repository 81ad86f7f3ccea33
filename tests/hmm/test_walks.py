"""Forward and backward walks against sums over all hidden paths, in numpy, zeros included."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from pcgcd import HMM, MonarchHMM
from pcgcd.errors import ImpossibleEvidenceError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.hmm.steps import steps_of
from pcgcd.hmm.walks import index_of, log_likelihoods, posteriors, token_table
from pcgcd.learning.em.expected_counts import expected_counts

V, LENGTH = 3, 4
EVERY = torch.tensor(list(itertools.product(range(V), repeat=LENGTH)))

Array = np.ndarray[Any, np.dtype[np.float64]]


def rows(*shape: int, seed: int, zeros: float) -> torch.Tensor:
    """Distributions, many entries of which are exactly zero."""
    rng = np.random.default_rng(seed)
    weights = rng.random(shape) * (rng.random(shape) >= zeros)
    largest = rng.integers(shape[-1], size=shape[:-1])
    np.put_along_axis(weights, largest[..., None], 0.5, -1)
    return torch.from_numpy(weights / weights.sum(-1, keepdims=True))


def dense(seed: int, zeros: float) -> HMM:
    parts = (rows(*shape, seed=seed + i, zeros=zeros) for i, shape in enumerate([(3,), (3, 3)]))
    return HMM(*parts, rows(3, V, seed=seed + 5, zeros=zeros))


def monarch(seed: int, zeros: float) -> MonarchHMM:
    shapes = [(4,), (2, 2, 2), (2, 2, 2), (4, V)]
    return MonarchHMM(*(rows(*shape, seed=seed + i, zeros=zeros) for i, shape in enumerate(shapes)))


def deterministic() -> HMM:
    """One string of each length has probability one."""
    return HMM(torch.eye(3)[0].double(), torch.eye(3).double().roll(1, 1), torch.eye(3).double())


MODELS = [
    *(dense(seed, zeros) for seed in range(3) for zeros in (0.0, 0.5)),
    *(monarch(seed, zeros) for seed in range(3) for zeros in (0.0, 0.5)),
    dense(7, 1.0),
    monarch(7, 1.0),
    deterministic(),
]


def matrix(hmm: HiddenMarkovModel) -> Array:
    """The transition, written out from the definition of a Monarch matrix."""
    if isinstance(hmm, MonarchHMM):
        left, right = hmm.left.double().numpy(), hmm.right.double().numpy()
        size = left.shape[0] * left.shape[1]
        return np.asarray(np.einsum("ijl,lik->ijkl", left, right).reshape(size, size))
    assert isinstance(hmm, HMM)
    return np.asarray(hmm.transition.double().numpy())


def joint(hmm: HiddenMarkovModel, x: list[int]) -> Array:
    """The weight of x with every hidden path, (H, ..., H), one axis for each position."""
    transition, emission = matrix(hmm), hmm.emission.double().numpy()
    start, size = hmm.initial.double().numpy(), hmm.num_hidden
    weights = np.zeros((size,) * len(x))
    for z in itertools.product(range(size), repeat=len(x)):
        weight = start[z[0]]
        for t, token in enumerate(x):
            weight *= 1.0 if token < 0 else emission[z[t], token]
            weight *= transition[z[t], z[t + 1]] if t + 1 < len(x) else 1.0
        weights[z] = weight
    return weights


def marginal(weights: Array, *axes: int) -> Array:
    return np.asarray(weights.sum(tuple(set(range(weights.ndim)) - set(axes))))


def test_some_sequences_of_the_models_are_impossible() -> None:
    """Else the tests below would not try what they should."""
    impossible = [sum(not joint(hmm, x).any() for x in EVERY.tolist()) for hmm in MODELS]
    assert sum(count > 0 for count in impossible) >= 6
    assert impossible[-1] == len(EVERY) - 1


@pytest.mark.parametrize("hmm", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_posteriors_and_likelihoods_are_those_of_all_paths(
    hmm: HiddenMarkovModel, dtype: torch.dtype
) -> None:
    found = posteriors(hmm.to(dtype=dtype), EVERY)
    assert found.states.dtype == dtype
    for row, x in enumerate(EVERY.tolist()):
        weights = joint(hmm, x)
        total = weights.sum()
        likelihood = float(found.log_likelihoods[row])
        if not total:
            assert likelihood == -math.inf
            assert not bool(found.states[row].any())
            continue
        assert likelihood == pytest.approx(math.log(total), rel=1e-5, abs=1e-6)
        for t in range(LENGTH):
            expected = marginal(weights, t) / total
            np.testing.assert_allclose(found.states[row, t].numpy(), expected, 1e-4, 1e-7)
            assert not found.states[row, t].numpy()[expected == 0].any()


@pytest.mark.parametrize("hmm", MODELS)
def test_the_forward_walk_alone_finds_the_same_likelihoods(hmm: HiddenMarkovModel) -> None:
    tokens, table = token_table(hmm, EVERY)
    steps = steps_of(hmm, table.dtype)
    found = log_likelihoods(steps, hmm.initial, table, index_of(EVERY, tokens))
    with np.errstate(divide="ignore"):
        expected = np.log([joint(hmm, x).sum() for x in EVERY.tolist()])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("hmm", [model for model in MODELS if isinstance(model, HMM)])
def test_counts_are_those_of_all_paths_and_impossible_sequences_are_errors(hmm: HMM) -> None:
    possible = [x for x in EVERY.tolist() if joint(hmm, x).any()]
    for dtype in (torch.float32, torch.float64):
        counts = expected_counts(hmm.to(dtype=dtype), torch.tensor(possible))
        expected = np.zeros((3, 3))
        for x in possible:
            weights = joint(hmm, x)
            expected += sum(marginal(weights, t, t + 1) for t in range(LENGTH - 1)) / weights.sum()
        np.testing.assert_allclose(counts.transition[0].numpy(), expected, 1e-4, 1e-6)
        assert not counts.transition[0].numpy()[expected == 0].any()
    for x in EVERY.tolist():
        if x in possible:
            continue
        dead = next(t for t in range(LENGTH) if not joint(hmm, x[: t + 1]).any())
        with pytest.raises(ImpossibleEvidenceError, match=f"sequence 1 .* position {dead} "):
            expected_counts(hmm, torch.tensor([possible[0], x]))


@pytest.mark.parametrize("hmm", MODELS)
def test_a_position_that_was_not_observed_counts_as_every_token(hmm: HiddenMarkovModel) -> None:
    x = [0, -1, 1, -1]
    found = posteriors(hmm, torch.tensor([x]))
    weights = joint(hmm, x)
    total = weights.sum()
    assert float(found.log_likelihoods[0].exp()) == pytest.approx(total, rel=1e-10)
    for t in range(LENGTH):
        expected = marginal(weights, t) / (total or 1)
        np.testing.assert_allclose(found.states[0, t].numpy(), expected, 1e-9, 1e-12)


def test_tokens_below_the_range_of_every_type_are_walked_exactly() -> None:
    """The chances of a token multiply to 1e-900, and to 1e-600 with one hidden state only."""
    tiny = Fraction(1, 10**300)
    emission = torch.tensor([[1.0, 1e-300], [1.0, 0.5]], dtype=torch.float64)
    transition = torch.tensor([[1.0, 0.0], [1e-300, 1.0]], dtype=torch.float64)
    hmm = HMM(
        torch.tensor([1.0, 1e-300], dtype=torch.float64), transition, emission, validate=False
    )
    x = torch.tensor([[1, 1, 1], [0, 0, 0]])
    found = posteriors(hmm, x)
    half = Fraction(1, 2)
    paths = {
        (0, 0, 0): tiny**3,
        (1, 0, 0): tiny * half * tiny * tiny * tiny,
        (1, 1, 0): tiny * half**2 * tiny * tiny,
        (1, 1, 1): tiny * half**3,
    }
    total = sum(paths.values())
    log_total = math.log(total.numerator) - math.log(total.denominator)
    assert float(found.log_likelihoods[0]) == pytest.approx(log_total, rel=1e-14)
    for t in range(3):
        for z in range(2):
            share = sum(weight for path, weight in paths.items() if path[t] == z) / total
            assert float(found.states[0, t, z]) == pytest.approx(
                float(share), rel=1e-12, abs=1e-300
            )
    counts = expected_counts(hmm, x[:1])
    assert float(counts.transition[0][1, 1]) == pytest.approx(2)


def test_hidden_states_that_only_the_future_makes_likely_keep_their_posterior() -> None:
    """In float32 the share of state 1 after one token is 1e-36, too small to divide by."""
    steps = 3
    rare = 1e-12
    emission = torch.tensor([[1.0, rare], [rare**3, 1.0]], dtype=torch.float32)
    hmm = HMM(torch.tensor([0.5, 0.5]), torch.eye(2), emission, validate=False)
    x = [0] + [1] * steps
    weights = [1.0 * rare**steps, rare**3]
    found = posteriors(hmm, torch.tensor([x]))
    total = sum(weights) / 2
    assert float(found.log_likelihoods[0]) == pytest.approx(math.log(total), rel=1e-6)
    for t in range(len(x)):
        shares = [weight / sum(weights) for weight in weights]
        np.testing.assert_allclose(found.states[0, t].numpy(), shares, rtol=1e-4)


def test_what_is_not_a_number_stays_so() -> None:
    hmm = dense(0, 0.0)
    tokens, table = token_table(hmm, EVERY)
    table[0, 1] = torch.nan
    index = index_of(EVERY, tokens)
    found = log_likelihoods(steps_of(hmm, table.dtype), hmm.initial, table, index)
    assert torch.equal(found.isnan(), (EVERY == 0).any(1))

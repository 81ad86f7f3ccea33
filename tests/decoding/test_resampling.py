"""Resampling gives every particle its share of descendants."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcgcd.decoding import RESAMPLERS, Randomness, effective_sample_size
from pcgcd.decoding.resampling import resampler
from pcgcd.errors import InvalidParameterError

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda w: sum(w) > 1e-3)


def normalised(weights: list[float]) -> torch.Tensor:
    values = torch.tensor(weights, dtype=torch.float64)
    return values / values.sum()


@pytest.mark.parametrize("method", RESAMPLERS)
def test_the_expected_number_of_descendants_is_k_times_the_weight(method: str) -> None:
    weights = normalised([0.1, 0.0, 0.35, 0.25, 0.3])
    rng, runs = Randomness(0), 4_000
    counts = torch.zeros(runs, 5)
    for run in range(runs):
        counts[run] = torch.bincount(RESAMPLERS[method](weights, rng), minlength=5)
    error = counts.std(0) / math.sqrt(runs)
    assert ((counts.mean(0) - 5 * weights).abs() <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("method", RESAMPLERS)
@given(weights=WEIGHTS, seed=st.integers(0, 10**6))
def test_k_ancestors_none_without_weight(method: str, weights: list[float], seed: int) -> None:
    shares = normalised(weights)
    ancestors = RESAMPLERS[method](shares, Randomness(seed))
    assert len(ancestors) == len(weights)
    assert (shares[ancestors] > 0).all()


@pytest.mark.parametrize("method", ["systematic", "residual"])
@given(weights=WEIGHTS, seed=st.integers(0, 10**6))
def test_no_particle_gets_fewer_than_its_whole_share(
    method: str, weights: list[float], seed: int
) -> None:
    shares = normalised(weights)
    counts = torch.bincount(RESAMPLERS[method](shares, Randomness(seed)), minlength=len(weights))
    assert (counts >= torch.floor(shares * len(weights) - 1e-6)).all()


@pytest.mark.parametrize("method", ["systematic", "stratified", "residual"])
def test_equal_weights_keep_every_particle(method: str) -> None:
    for k in range(1, 40):
        ancestors = RESAMPLERS[method](normalised([1.0] * k), Randomness(k))
        assert sorted(ancestors.tolist()) == list(range(k))


@given(log_weights=st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_the_effective_sample_size_lies_between_one_and_k(log_weights: list[float]) -> None:
    size = effective_sample_size(torch.tensor(log_weights, dtype=torch.float64))
    assert 1 - 1e-9 <= size <= len(log_weights) + 1e-9


def test_the_effective_sample_size_of_nothing_is_zero() -> None:
    assert effective_sample_size(torch.tensor([-math.inf, -math.inf])) == 0
    assert effective_sample_size(torch.tensor([0.0, -math.inf])) == 1


def test_an_unknown_resampler_is_named() -> None:
    with pytest.raises(InvalidParameterError, match="systematic"):
        resampler("best")

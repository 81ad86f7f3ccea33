"""Drawing columns: only those with weight, with the probability that is reported."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcgcd.decoding import Randomness
from pcgcd.decoding.randomness import log_total
from pcgcd.errors import InvalidParameterError

LOG_WEIGHTS = st.lists(st.one_of(st.floats(-200, 200), st.just(-math.inf)), min_size=1, max_size=6)


@given(row=LOG_WEIGHTS, seed=st.integers(0, 10**6))
def test_a_column_without_weight_is_never_drawn(row: list[float], seed: int) -> None:
    log_weights = torch.tensor([row], dtype=torch.float64)
    draw = Randomness(seed).categorical(log_weights)
    column = int(draw.column)
    if max(row) == -math.inf:
        assert draw.log_q == -math.inf
    else:
        assert row[column] > -math.inf
        exact = row[column] - float(log_weights.logsumexp(-1))
        assert float(draw.log_q) == pytest.approx(exact, abs=1e-9)


def test_columns_come_as_often_as_their_weights_say() -> None:
    probabilities = torch.tensor([0.5, 0.0, 0.2, 0.3])
    runs = 20_000
    draw = Randomness(1).categorical(probabilities.log().expand(runs, 4))
    share = torch.bincount(draw.column, minlength=4) / runs
    error = (probabilities * (1 - probabilities) / runs).sqrt()
    assert ((share - probabilities).abs() <= 4.5 * error).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [255, 256, 257, 512, 3000])
def test_wide_rows_are_drawn_as_exactly_as_short_ones(width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(width)
    log_weights = 3 * torch.randn(64, width, generator=generator, dtype=torch.float64)
    kept = torch.rand(64, width, generator=generator) < torch.linspace(0, 0.5, 64).unsqueeze(1)
    log_weights = torch.where(kept, log_weights, -torch.inf).to(dtype)
    before, some = log_weights.clone(), kept.any(1)
    exact = log_weights.double().log_softmax(-1)
    rng = Randomness(width)
    for _ in range(20):
        draw = rng.categorical(log_weights)
        assert kept.gather(1, draw.column.unsqueeze(1))[some].all()
        found = exact.gather(1, draw.column.unsqueeze(1)).squeeze(1)
        error = 1e-12 if dtype == torch.float64 else 2e-6
        assert torch.allclose(draw.log_q[some], found[some], atol=error, rtol=0)
        assert (draw.log_q[~some] == -torch.inf).all()
    assert torch.equal(log_weights, before)


def test_columns_of_all_blocks_come_as_often_as_their_weights_say() -> None:
    width, runs = 700, 20_000
    weights = torch.rand(width, generator=torch.Generator().manual_seed(0)) ** 8
    probabilities = weights.double() / weights.double().sum()
    draw = Randomness(5).categorical(weights.log().expand(runs, width))
    share = torch.bincount(draw.column, minlength=width) / runs
    chi_square = (runs * (share - probabilities) ** 2 / probabilities)[probabilities > 2e-4]
    cells = len(chi_square)
    assert chi_square.sum() < cells + 5 * math.sqrt(2 * cells)


def test_the_same_seed_draws_the_same() -> None:
    log_weights = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    first, second = (Randomness(3).categorical(log_weights).column for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, Randomness(4).categorical(log_weights).column)


@given(row=LOG_WEIGHTS)
def test_log_total_is_logsumexp(row: list[float]) -> None:
    values = torch.tensor([row], dtype=torch.float64)
    assert torch.allclose(log_total(values), values.logsumexp(-1))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_undefined_weights_are_refused(bad: float) -> None:
    with pytest.raises(InvalidParameterError, match="NaN"):
        Randomness(0).categorical(torch.tensor([[0.0, bad]]))

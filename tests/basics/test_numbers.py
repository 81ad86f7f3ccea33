"""Whole numbers and weights."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
import torch

from pcgcd.basics.numbers import (
    check_weights,
    check_whole_number,
    draw,
    draw_at,
    normalise_,
    normalised,
)
from pcgcd.errors import InvalidParameterError


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3)])
def test_integers_of_python_and_numpy_are_whole_numbers(value: object) -> None:
    found = check_whole_number("size", value, 1, 7)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (8, "8"),
        (2.0, "2.0"),
        (True, "True"),
        ("3", "'3'"),
        (None, "None"),
        (np.float64(3), "3.0"),
        (torch.tensor(3), "tensor"),
    ],
)
def test_what_is_none_or_outside_is_shown_in_the_error(value: object, shown: str) -> None:
    with pytest.raises(InvalidParameterError, match=r"size must be .* between 1 and 7") as caught:
        check_whole_number("size", value, 1, 7)
    assert shown in str(caught.value)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_too_long_to_be_shown_is_not(sign: int) -> None:
    with pytest.raises(InvalidParameterError, match="more than 30 digits"):
        check_whole_number("size", sign * 10**5000, 1, 7)


@pytest.mark.parametrize("function", [normalised, lambda weights: normalise_(weights.clone())])
def test_rows_sum_to_one_and_rows_of_zeros_stay(function) -> None:  # type: ignore[no-untyped-def]
    weights = np.random.default_rng(0).random((2, 3, 5))
    weights[1, 2] = 0
    weights[0, 0] *= 1e-300
    found = function(torch.from_numpy(weights)).numpy()
    for place in np.ndindex(2, 3):
        total = weights[place].sum()
        expected = weights[place] / total if total else weights[place]
        np.testing.assert_allclose(found[place], expected, rtol=1e-14)
    assert not found[1, 2].any()


def test_large_rows_are_normalised_in_place_and_precisely() -> None:
    weights = torch.rand(700, 1000, generator=torch.Generator().manual_seed(0))
    expected = weights.double() / weights.double().sum(-1, keepdim=True)
    assert normalise_(weights) is weights
    torch.testing.assert_close(weights.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("wrong", [float("nan"), -1e-9, float("inf"), -float("inf")])
def test_weights_are_finite_and_not_negative(wrong: float) -> None:
    weights = torch.tensor([[0.0, 2.0], [1.0, 0.5]])
    check_weights("it", weights)
    weights[1, 0] = wrong
    with pytest.raises(InvalidParameterError, match="it must be probabilities"):
        check_weights("it", weights)


def test_draws_pass_the_distribution_function_and_never_meet_a_zero() -> None:
    weights = [[0.0, 1.0, 0.0, 3.0, 0.0], [2.0, 0.0, 2.0, 4.0, 0.0]]
    points = [0.0, 0.125, 0.25, 0.5, 0.75, 1 - 2**-53]
    for row in weights:
        total = sum(map(Fraction, row))
        expected = []
        for point in points:
            sums = accumulate(map(Fraction, row))
            expected.append(next(i for i, s in enumerate(sums) if s > Fraction(point) * total))
        repeated = torch.tensor([row] * len(points))
        found = draw_at(repeated, torch.tensor(points, dtype=torch.float64))
        assert found.tolist() == expected


def test_draws_follow_the_weights() -> None:
    weights = torch.tensor([[1.0, 0.0, 3.0]]).expand(40_000, -1)
    found = draw(weights, torch.Generator().manual_seed(0)).bincount(minlength=3)
    assert found[1] == 0
    assert abs(found[2] / 40_000 - 0.75) < 5 * (0.75 * 0.25 / 40_000) ** 0.5

"""Exact arithmetic with fractions: the reference that floating-point results are compared with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.semirings import Boolean, Counting, Log, Maximum, Semiring

Exact: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"

_to_fraction = np.frompyfunc(Fraction, 1, 1)
_ratio = np.frompyfunc(Fraction, 2, 1)
_to_int = np.frompyfunc(int, 1, 1)
_power_of_two = np.frompyfunc(lambda exponent: Fraction(2) ** int(exponent), 1, 1)


def exact(weights: Tensor, semiring: Semiring[Any] | None = None) -> Exact:
    """Return the numbers of a tensor as fractions; for the boolean semiring, zeros and ones.

    >>> exact(torch.tensor([0.5, 3.0]))
    array([Fraction(1, 2), Fraction(3, 1)], dtype=object)
    """
    numbers = weights.detach().cpu().double()
    if isinstance(semiring, Boolean):
        numbers = (numbers > 0).double()
    return np.asarray(_to_fraction(numbers.numpy()), dtype=object)


def exact_power(values: Tensor, exponents: Tensor, semiring: Semiring[Any] | None = None) -> Exact:
    """``values * 2 ** exponents`` as fractions; for the boolean semiring, zeros and ones."""
    numbers = exact(values, semiring)
    if isinstance(semiring, Boolean):
        return numbers
    return np.asarray(numbers * _power_of_two(exponents.cpu().numpy()), dtype=object)


def exact_sum(terms: Exact, semiring: Semiring[Any]) -> Exact:
    """Return the semiring's sum over the last axis: a sum or, in some semirings, a maximum."""
    add = np.maximum if isinstance(semiring, Boolean | Maximum) else np.add
    return np.asarray(add.reduce(terms, axis=-1), dtype=object)


def exact_product(matrix: Exact, x: Exact, semiring: Semiring[Any]) -> Exact:
    """``y[..., i] = sum_j matrix[i, j] x[..., j]`` in the semiring's own meaning of a sum."""
    # Over a common denominator the work is on integers, which are much faster than fractions.
    (left, first), (right, second) = _whole(matrix), _whole(x)
    total = exact_sum(left * right[..., None, :], semiring)
    return np.asarray(_ratio(total, first * second), dtype=object)


def _whole(numbers: Exact) -> tuple[Exact, int]:
    """Numerators over one denominator, and the denominator."""
    denominator = math.lcm(*(number.denominator for number in numbers.flat))
    return np.asarray(_to_int(numbers * denominator), dtype=object), denominator


def _exponent(number: Fraction) -> int:
    """A power of two near the number; 0 for zero."""
    return number.numerator.bit_length() - number.denominator.bit_length() if number else 0


def log_of(number: Fraction) -> float:
    """Return the logarithm of a fraction of any size; -inf for zero.

    >>> log_of(Fraction(1, 2**10_000)) == -10_000 * math.log(2)
    True
    """
    if not number:
        return -math.inf
    shift = _exponent(number)
    return math.log(number / Fraction(2) ** shift) + shift * math.log(2)


def powers_of_two(semiring: Semiring[Any], values: Tensor, exponents: Tensor) -> Any:
    """Make the elements ``values * 2 ** exponents`` by squaring, from ``lift`` and ``mul`` alone.

    This reaches sizes that no float has, in any semiring, without looking inside its elements.
    """
    result = semiring.lift(values)
    for base, left in ((2.0, exponents.clamp(min=0)), (0.5, (-exponents).clamp(min=0))):
        power = semiring.lift(torch.full(tuple(values.shape), base)) if left.any() else None
        while bool(left.any()):
            result = semiring.where(left % 2 == 1, semiring.mul(result, power), result)
            power = semiring.mul(power, power)
            left = left // 2
    return result


def assert_same_elements(semiring: Semiring[Any], actual: Any, expected: Exact, what: str) -> None:
    """Raise ``AssertionError`` unless the elements are the expected numbers.

    Zeros must be exactly the expected zeros, and counts exactly the expected counts. Other
    elements are first scaled near one, in the semiring, so that the logarithm that is compared
    loses no precision.
    """
    shape = tuple(semiring.shape(actual))
    assert shape == expected.shape, f"{what}: expected shape {expected.shape}, found {shape}"
    if isinstance(semiring, Counting):
        same = all(found == number for found, number in zip(actual.flat, expected.flat))
        assert same, f"{what}: expected the counts\n{expected}, found\n{actual}"
        return
    zero = np.vectorize(lambda number: not number, otypes=[bool])(expected)
    found_zero = torch.isneginf(semiring.to_log(actual)).cpu().numpy()
    for place in map(tuple, np.argwhere(zero != found_zero).tolist()):
        raise AssertionError(
            f"{what}: at {place} expected {'exactly' if zero[place] else 'other than'} zero, found "
            f"{'zero' if found_zero[place] else 'a positive number'}; the logarithm should be "
            f"{log_of(expected[place]):g} (in {semiring})"
        )
    exponents = np.vectorize(_exponent, otypes=[int])(expected)
    unit = powers_of_two(semiring, torch.ones(shape), torch.as_tensor(-exponents))
    log = semiring.to_log(semiring.mul(actual, unit)).detach().cpu().double().numpy()
    reference = np.vectorize(log_of, otypes=[float])(expected / _power_of_two(exponents))
    error = np.abs(np.where(zero, 0.0, log) - np.where(zero, 0.0, reference))
    # A semiring that stores logarithms rounds them relative to their size, so that numbers far
    # from one are less precise; the others round relative to the number.
    stores_logs = isinstance(semiring, Log | Maximum)
    largest = float(np.abs(exponents).max(initial=0)) if stores_logs else 0.0
    tolerance = torch.finfo(semiring.dtype).eps * (64 + 8 * largest)
    wrong = ~(error <= tolerance)
    for place in map(tuple, np.argwhere(wrong).tolist()):
        raise AssertionError(
            f"{what}: at {place} (and {wrong.sum() - 1} others) the result is off by a factor of "
            f"1 + {np.expm1(error[place]):.3g}, where {tolerance:.3g} is allowed; the logarithm "
            f"should be {log_of(expected[place]):.12g} (in {semiring})"
        )

"""Exact arithmetic with fractions: the reference that floating-point results are compared with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.semirings import Boolean, Counting, Log, Maximum, Semiring

__all__ = [
    "Exact",
    "assert_same_elements",
    "exact",
    "exact_power",
    "exact_product",
    "exact_sum",
    "log_of",
    "powers_of_two",
]

Exact: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"

_to_fraction = np.frompyfunc(Fraction, 1, 1)
_is_positive = np.frompyfunc(lambda number: Fraction(number > 0), 1, 1)


def _is_boolean(semiring: Semiring[Any] | None) -> bool:
    return isinstance(semiring, Boolean)


def exact(weights: Tensor, semiring: Semiring[Any] | None = None) -> Exact:
    """The numbers of a tensor as fractions; for the boolean semiring, zeros and ones.

    >>> exact(torch.tensor([0.5, 3.0]))
    array([Fraction(1, 2), Fraction(3, 1)], dtype=object)
    """
    numbers = np.asarray(_to_fraction(weights.detach().cpu().double().numpy()), dtype=object)
    if _is_boolean(semiring):
        numbers = np.asarray(_is_positive(numbers), dtype=object)
    return numbers


def exact_power(values: Tensor, exponents: Tensor, semiring: Semiring[Any] | None = None) -> Exact:
    """``values * 2 ** exponents`` as fractions; for the boolean semiring, zeros and ones."""
    numbers = exact(values, semiring)
    if _is_boolean(semiring):
        return numbers
    power = np.vectorize(lambda e: Fraction(2) ** int(e), otypes=[object])
    return np.asarray(numbers * power(exponents.cpu().numpy()), dtype=object)


def exact_sum(terms: Exact, semiring: Semiring[Any]) -> Exact:
    """The semiring's sum over the last axis: a sum, or a maximum where that is what it means."""
    add = np.maximum if isinstance(semiring, Boolean | Maximum) else np.add
    return np.asarray(add.reduce(terms, axis=-1), dtype=object)


def exact_product(matrix: Exact, x: Exact, semiring: Semiring[Any]) -> Exact:
    """``y[..., i] = sum_j matrix[i, j] x[..., j]`` in the semiring's own meaning of a sum."""
    # Over a common denominator the work is on integers, which are much faster than fractions.
    first, second = _denominator(matrix), _denominator(x)
    terms = _numerators(matrix, first) * _numerators(x, second)[..., None, :]
    return np.asarray(_over(exact_sum(terms, semiring), first * second), dtype=object)


_over = np.frompyfunc(Fraction, 2, 1)


def _denominator(numbers: Exact) -> int:
    return math.lcm(*(number.denominator for number in numbers.flat))


def _numerators(numbers: Exact, denominator: int) -> Exact:
    return np.asarray(np.frompyfunc(int, 1, 1)(numbers * denominator), dtype=object)


def _exponent(number: Fraction) -> int:
    """A power of two near the number; 0 for zero."""
    return number.numerator.bit_length() - number.denominator.bit_length() if number else 0


def log_of(number: Fraction) -> float:
    """The logarithm of a fraction of any size; -inf for zero.

    >>> log_of(Fraction(1, 2**10_000)) == -10_000 * math.log(2)
    True
    """
    if not number:
        return -math.inf
    shift = _exponent(number)
    return math.log(number / Fraction(2) ** shift) + shift * math.log(2)


def powers_of_two(semiring: Semiring[Any], values: Tensor, exponents: Tensor) -> Any:
    """The elements ``values * 2 ** exponents``, made by squaring from ``lift`` and ``mul`` alone.

    This reaches sizes that no float has, in any semiring, without looking inside its elements.
    """
    result = semiring.lift(values)
    for base, sign in ((2.0, 1), (0.5, -1)):
        left = (sign * exponents).clamp(min=0)
        if not bool(left.any()):
            continue
        power = semiring.lift(torch.full(tuple(values.shape), base))
        while bool(left.any()):
            result = semiring.where(left % 2 == 1, semiring.mul(result, power), result)
            power = semiring.mul(power, power)
            left = left // 2
    return result


def _rounding(semiring: Semiring[Any], exponents: Any) -> float:
    """How far a result of a few dozen operations may be off, as a difference of logarithms.

    A semiring that stores logarithms rounds them relative to their size, so that numbers far from
    one are less precise; the others round relative to the number.
    """
    eps = torch.finfo(semiring.dtype).eps
    stores_logs = isinstance(semiring, Log | Maximum)
    largest = float(np.abs(exponents).max(initial=0)) if stores_logs else 0.0
    return eps * (64 + 8 * largest)


def assert_same_elements(semiring: Semiring[Any], actual: Any, expected: Exact, what: str) -> None:
    """Raise ``AssertionError`` unless the elements are the expected numbers.

    Zeros must be exactly the expected zeros, and counts exactly the expected counts. Other
    elements are first scaled near one, in the semiring, so that the logarithm that is compared
    loses no precision.
    """
    shape = tuple(semiring.shape(actual))
    if shape != expected.shape:
        raise AssertionError(f"{what}: expected shape {expected.shape}, found {shape}")
    if isinstance(semiring, Counting):
        if not all(found == number for found, number in zip(actual.flat, expected.flat)):
            raise AssertionError(f"{what}: expected the counts\n{expected}, found\n{actual}")
        return
    zero = np.vectorize(lambda number: not number, otypes=[bool])(expected)
    found_zero = torch.isneginf(semiring.to_log(actual)).cpu().numpy()
    if (zero != found_zero).any():
        place = tuple(np.argwhere(zero != found_zero)[0].tolist())
        raise AssertionError(
            f"{what}: at {place} expected {'exactly' if zero[place] else 'other than'} zero, found "
            f"{'zero' if found_zero[place] else 'a positive number'}; the logarithm should be "
            f"{log_of(expected[place]):g} (in {semiring})"
        )
    exponents = np.vectorize(_exponent, otypes=[int])(expected)
    unit = powers_of_two(semiring, torch.ones(shape), torch.as_tensor(-exponents))
    log = semiring.to_log(semiring.mul(actual, unit)).detach().cpu().double().numpy()
    near_one = [log_of(n / Fraction(2) ** int(e)) for n, e in zip(expected.flat, exponents.flat)]
    reference = np.array(near_one).reshape(shape)
    error = np.abs(np.where(zero, 0.0, log) - np.where(zero, 0.0, reference))
    tolerance = _rounding(semiring, exponents)
    wrong = ~(error <= tolerance)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        raise AssertionError(
            f"{what}: at {place} (and {wrong.sum() - 1} others) the result is off by a factor of "
            f"1 + {np.expm1(error[place]):.3g}, where {tolerance:.3g} is allowed; the logarithm "
            f"should be {log_of(expected[place]):.12g} (in {semiring})"
        )

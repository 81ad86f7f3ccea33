"""Means over examples with 95 % intervals, by the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, variance
from typing import Any, NamedTuple

import numpy as np

from pcgcd.experiments.harness.rows import Row

_RESAMPLES = 2_000
_LEVEL = 0.95

Group = tuple[str, str, int]
"""A setting, a method and a number of particles."""


class Estimate(NamedTuple):
    """A mean over examples.

    Attributes:
        mean: The mean of the examples' means.
        low: The lower end of the 95 % interval.
        high: The upper end.
        examples: How many.
    """

    mean: float
    low: float
    high: float
    examples: int


def bootstrap(values: Sequence[float], seed: int = 0) -> Estimate:
    """Return the mean, and the interval of means of examples drawn again (percentiles).

    >>> bootstrap([1.0, 1.0, 1.0])
    Estimate(mean=1.0, low=1.0, high=1.0, examples=3)
    """
    data = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = data[rng.integers(len(data), size=(_RESAMPLES, len(data)))].mean(1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(float(data.mean()), float(low), float(high), len(data))


def grouped(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """Return the rows of each setting, method and k, in the order in which they first occur."""
    result: dict[Group, list[Row]] = {}
    for row in rows:
        result.setdefault((row.key.setting, row.key.method, row.key.k), []).append(row)
    return result


def by_example(rows: Iterable[Row], value: Callable[[Row], float | None]) -> dict[str, list[float]]:
    """Return the values of each example, those that are missing left out."""
    result: dict[str, list[float]] = {}
    for row in rows:
        found = value(row)
        if found is not None:
            result.setdefault(row.key.example, []).append(found)
    return result


def estimate(rows: Iterable[Row], value: Callable[[Row], float | None]) -> Estimate | None:
    """Return the mean of a value: over seeds for each example, then over examples.

    Args:
        rows: The rows of one group.
        value: What to average; None where it is missing.
    """
    means = [fmean(found) for found in by_example(rows, value).values()]
    return bootstrap(means) if means else None


def variance_over_seeds(
    rows: Iterable[Row], value: Callable[[Row], float | None]
) -> Estimate | None:
    """Return the variance over the seeds of an example, averaged over examples."""
    found = by_example(rows, value).values()
    spread = [variance(values) for values in found if len(values) > 1]
    return bootstrap(spread) if spread else None


def measure(name: str) -> Callable[[Row], float | None]:
    """What reads a number of a row: one of its own, or one of its measures."""

    def read(row: Row) -> float | None:
        value: Any = getattr(row, name, None)
        return value if isinstance(value, int | float) else row.measures.get(name)

    return read

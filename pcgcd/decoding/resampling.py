"""Resampling: which particles have descendants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor

from pcgcd.decoding.randomness import Randomness
from pcgcd.errors import InvalidParameterError

Resampler: TypeAlias = Callable[[Tensor, Randomness], Tensor]
"""From normalised weights (k,) to k ancestors, each i expected k * weights[i] times."""


def multinomial(weights: Tensor, rng: Randomness) -> Tensor:
    """Draw ancestors independently."""
    return _invert(weights, rng.uniform(len(weights)))


def stratified(weights: Tensor, rng: Randomness) -> Tensor:
    """Draw one ancestor in each of k equal strata."""
    k = len(weights)
    return _invert(weights, (torch.arange(k) + rng.uniform(k)) / k)


def systematic(weights: Tensor, rng: Randomness) -> Tensor:
    """Draw one point and shift it through the k strata: the least random of the four."""
    k = len(weights)
    return _invert(weights, (torch.arange(k) + rng.uniform(1)) / k)


def residual(weights: Tensor, rng: Randomness) -> Tensor:
    """Copy each particle as often as is certain; draw the remaining ones independently."""
    k = len(weights)
    expected = weights * k
    # Weights such as 1 / 3 times 3 must count as a whole one.
    sure = torch.floor(expected + 1e-9).long()
    ancestors = torch.repeat_interleave(torch.arange(k), sure)
    left = k - len(ancestors)
    if left:
        rest = (expected - sure).clamp(min=0)
        ancestors = torch.cat([ancestors, _invert(rest / rest.sum(), rng.uniform(left))])
    return ancestors[:k]


RESAMPLERS: Mapping[str, Resampler] = MappingProxyType(
    {
        "multinomial": multinomial,
        "stratified": stratified,
        "systematic": systematic,
        "residual": residual,
    }
)


def resampler(method: str | Resampler) -> Resampler:
    """Return the resampler of that name.

    >>> resampler("systematic")(torch.tensor([0.5, 0.5, 0.0, 0.0]), Randomness(0))
    tensor([0, 0, 1, 1])
    """
    if callable(method):
        return method
    if method not in RESAMPLERS:
        raise InvalidParameterError(
            f"resampling must be one of {', '.join(RESAMPLERS)}, but {method!r} was given"
        )
    return RESAMPLERS[method]


def effective_sample_size(log_weights: Tensor) -> float:
    """(sum w)^2 / sum w^2, between 1 and k; 0 if all weights are zero.

    >>> effective_sample_size(torch.zeros(4))
    4.0
    """
    values = log_weights.tolist()  # so few that each operation on a tensor takes as long as all
    largest = max(values, default=-math.inf)
    if largest == -math.inf:
        return 0.0
    weights = [math.exp(value - largest) for value in values]
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)


def _invert(weights: Tensor, points: Tensor) -> Tensor:
    sums = weights.double().cumsum(0)
    index = torch.searchsorted(sums, points * sums[-1], right=True)
    # Rounding must not choose a particle without weight.
    return index.clamp(max=int(weights.nonzero().max()))

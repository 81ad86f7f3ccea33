"""Adaptation to samples: the steps of MAP-EM, against sums over all hidden paths."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HMM, Copying, MonarchHMM

Array = np.ndarray[Any, Any]

SAMPLES = [(0, 2, 1), (1,), (2, 2, 0, 1), (0, 2, 1)]


def model(seed: int = 0, num_hidden: int = 3) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(num_hidden, 4, generator=generator, dtype=torch.float64)


def map_step(prior: HMM, now: HMM, strength: float) -> tuple[Array, Array, Array]:
    """One step of MAP-EM by enumeration of hidden paths, in numpy."""
    pi, a, b = (t.numpy() for t in (now.initial, now.transition, now.emission))
    counts = [np.zeros_like(pi), np.zeros_like(a), np.zeros_like(b)]
    for sample in SAMPLES:
        paths = list(itertools.product(range(len(pi)), repeat=len(sample)))
        chances = []
        for path in paths:
            chance = pi[path[0]]
            for t, (z, x) in enumerate(zip(path, sample, strict=True)):
                chance *= b[z, x] * (a[path[t - 1], z] if t else 1.0)
            chances.append(chance)
        for path, chance in zip(paths, np.array(chances) / sum(chances), strict=True):
            counts[0][path[0]] += chance
            for t, (z, x) in enumerate(zip(path, sample, strict=True)):
                counts[2][z, x] += chance
                if t:
                    counts[1][path[t - 1], z] += chance
    result = []
    for old, count in zip((prior.initial, prior.transition, prior.emission), counts, strict=True):
        weighted = count + strength * old.numpy()
        result.append(weighted / weighted.sum(-1, keepdims=True))
    return result[0], result[1], result[2]


@pytest.mark.parametrize("strength", [0.1, 3.0])
@pytest.mark.parametrize("steps", [1, 2])
def test_each_step_is_that_of_map_em(steps: int, strength: float) -> None:
    prior = model()
    expected = prior
    for _ in range(steps):
        expected = HMM(*map(torch.tensor, map_step(prior, expected, strength)))
    found = prior.adapted(SAMPLES, strength=strength, steps=steps)
    for name in ("initial", "transition", "emission"):
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-9
        )


def test_samples_become_more_likely_and_a_strong_prior_stays() -> None:
    hmm = MonarchHMM.random(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def log_likelihood(model: MonarchHMM | HMM) -> float:
        return sum(float(model.log_value(torch.tensor([sample]))) for sample in SAMPLES)

    values = [log_likelihood(hmm.adapted(SAMPLES, strength=s)) for s in (1e6, 10.0, 1.0, 0.1)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(log_likelihood(hmm), abs=1e-3)
    assert values[-1] > values[0] + 1
    found = hmm.adapted(SAMPLES, strength=1.0)
    assert isinstance(found, MonarchHMM)
    for part in (found.initial, found.left, found.right, found.emission):
        assert torch.allclose(part.sum(-1), torch.ones(()).double())


def test_what_is_impossible_stays_so_and_teaches_nothing() -> None:
    emission = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    transition = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    hmm = HMM(torch.tensor([1.0, 0.0]), transition, emission)
    found = hmm.adapted([(0, 0, 3), (2, 0), (0, 3, 3), (3, 0)], strength=1.0)
    expected = hmm.adapted([(0, 0, 3), (0, 3, 3)], strength=1.0)
    torch.testing.assert_close(found.emission, expected.emission)
    torch.testing.assert_close(found.transition, expected.transition)
    assert bool((found.emission[hmm.emission == 0] == 0).all())
    assert float(found.transition[1, 0]) == 0.0
    unchanged = hmm.adapted([(2,), ()], strength=1.0)
    assert torch.equal(unchanged.emission, hmm.emission)


def test_copying_is_kept() -> None:
    plain = model()
    copying = Copying(torch.full((3,), 0.5).double(), torch.ones(4).double())
    hmm = HMM(plain.initial, plain.transition, plain.emission, copying=copying)
    assert hmm.adapted(SAMPLES).copying is copying


def test_bad_arguments_are_refused() -> None:
    hmm = model()
    with pytest.raises(InvalidParameterError, match="strength"):
        hmm.adapted(SAMPLES, strength=0.0)
    with pytest.raises(InvalidParameterError, match="EM steps"):
        hmm.adapted(SAMPLES, steps=0)
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.3"):
        hmm.adapted([(1, 4)])

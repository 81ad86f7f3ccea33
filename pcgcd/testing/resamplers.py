"""The laws of resamplers, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pcgcd.decoding import Randomness
from pcgcd.decoding.contracts import check_ancestors
from pcgcd.decoding.resampling import Resampler
from pcgcd.testing.running import Laws, as_violations
from pcgcd.testing.texts import Z_SCORE


class ResamplerLaws(Laws):
    """What every resampler must satisfy: a function of weights and a source of randomness.

    >>> from pcgcd.decoding import residual
    >>> class TestResidual(ResamplerLaws):
    ...     def create_resampler(self):
    ...         return residual
    >>> TestResidual().test_descendants_are_in_proportion_to_the_weights()

    Attributes:
        weights: Normalised weights of particles that it is tried on.
        num_draws: How often it is called for each of them.
    """

    weights: Sequence[Sequence[float]] = (
        (1.0,),
        (0.25, 0.25, 0.25, 0.25),
        (0.5, 0.0, 0.5, 0.0),
        (0.0, 0.0, 1.0),
        (0.0, 0.1, 0.2, 0.7),
        (0.3, 0.05, 0.0, 0.15, 0.01, 0.29, 0.2, 0.0),
        (1e-12, 1 - 1e-12),
    )
    num_draws: int = 1000

    def create_resampler(self) -> Resampler:
        """Return the resampler."""
        raise NotImplementedError("return the resampler to be tested")

    def test_every_place_has_an_ancestor(self) -> None:
        """One of the particles for each of k places, and none without weight."""
        for weights in self._examples():
            for seed in range(50):
                self._ancestors(weights, Randomness(seed))

    def test_descendants_are_in_proportion_to_the_weights(self) -> None:
        """Particle i is expected k * weights[i] times: else the estimates are biased."""
        for weights in self._examples():
            rng, size = Randomness(0), len(weights)
            draws = [self._ancestors(weights, rng) for _ in range(self.num_draws)]
            counts = torch.stack([draw.bincount(minlength=size) for draw in draws]).double()
            expected = size * weights
            # No whole number of expectation m + f varies less than this, whatever was seen.
            part = expected - expected.floor()
            variance = torch.maximum(counts.var(0), part * (1 - part))
            off = (counts.mean(0) - expected).abs()
            wrong = off > Z_SCORE * (variance / self.num_draws).sqrt() + 1e-9
            assert not bool(wrong.any()), (
                f"with weights {weights.tolist()}, particles have {counts.mean(0).tolist()} "
                f"descendants on average, but {expected.tolist()} are expected"
            )

    def test_equal_seeds_give_equal_ancestors(self) -> None:
        """All randomness comes from the source, so that a run can be repeated."""
        for weights in self._examples():
            first, second = (self._ancestors(weights, Randomness(3)) for _ in range(2))
            assert torch.equal(first, second), "the same seed gave other ancestors"

    def _examples(self) -> Iterator[Tensor]:
        for weights in self.weights:
            yield torch.tensor(weights, dtype=torch.float64)

    def _ancestors(self, weights: Tensor, rng: Randomness) -> Tensor:
        method = self.create_resampler()
        with as_violations():
            return torch.tensor(check_ancestors(method(weights.clone(), rng), weights, method))

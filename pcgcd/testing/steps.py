"""What proposals and potentials have in common: laws of each step of worlds of a few texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from torch import Tensor

from pcgcd.decoding import NextStep, Potential, Proposal
from pcgcd.testing.running import Laws, as_violations, assert_close
from pcgcd.testing.texts import Z_SCORE, TextWorld, text_worlds


class StepLaws(Laws):
    """Laws of what answers for each prefix, in a batch, and takes part in SMC.

    Attributes:
        num_runs: How many runs of SMC estimate the evidence.
        num_particles: The particles of each.
    """

    num_runs: int = 200
    num_particles: int = 4
    _shortest_prefix: ClassVar[int] = 0
    _atol: ClassVar[float] = 1e-4

    def create_worlds(self) -> Sequence[TextWorld]:
        """Where it is tested; worlds of your own where it is made for one vocabulary."""
        return text_worlds()

    def _parts(self) -> tuple[Proposal, Potential]:
        """What SMC runs with."""
        raise NotImplementedError

    def _answers(self, step: NextStep) -> Tensor:
        """What is tested says this of each prefix, (k, ...)."""
        raise NotImplementedError

    def test_rows_do_not_depend_on_each_other(self) -> None:
        """A prefix has the same answer in a batch as alone."""
        for world, prefixes, step in self._steps():
            together = self._answers(step)
            for row, prefix in enumerate(prefixes):
                self._compare(world.step([prefix]), together[row : row + 1], "alone")

    def test_selected_rows_keep_their_answers(self) -> None:
        """After resampling, copies and survivors have the answer of their prefix."""
        for _, prefixes, step in self._steps():
            rows = [(3 * i + 1) % len(prefixes) for i in range(len(prefixes) + 2)]
            chosen = NextStep(step.state.select(rows), step.log_probs[rows])
            self._compare(chosen, self._answers(step)[rows], "selected")

    def test_a_guide_is_asked_only_if_that_is_said(self) -> None:
        """Where ``needs_guide`` is False, no guide changes the answer."""
        if any(getattr(part, "needs_guide", False) for part in self._parts()):
            return
        for world, prefixes, step in self._steps():
            without = self._answers(world.step(prefixes, guided=False))
            self._compare(step, without, "needs_guide is False, but with a guide")

    def test_evidence_is_unbiased(self) -> None:
        """With it, SMC estimates the sum of p_lm(x) f(x) without bias."""
        for world in self.create_worlds():
            if world.misleads:
                continue
            with as_violations():
                found = world.estimates(
                    *self._parts(), runs=self.num_runs, particles=self.num_particles
                )
            mean, error = float(found.mean()), float(found.std()) / math.sqrt(len(found))
            # Estimates that do not vary at all are exact up to the rounding of float32.
            off = abs(mean - world.evidence)
            assert off <= Z_SCORE * error + 1e-4 * world.evidence, (
                f"the evidence: {len(found)} runs estimate {mean:.6g} on average, but the sum over "
                f"all texts is {world.evidence:.6g} (standard error {error:.2g})"
            )

    def _steps(self) -> Iterator[tuple[TextWorld, list[tuple[int, ...]], NextStep]]:
        """Every step of every world, all prefixes of a length together."""
        for world in self.create_worlds():
            for length in range(self._shortest_prefix, world.budget):
                prefixes = world.prefixes(length)
                if prefixes:
                    yield world, prefixes, world.step(prefixes)

    def _compare(self, step: NextStep, expected: Tensor, how: str) -> None:
        found = self._answers(step)
        assert_close(found, expected, f"{how}, the answer is another", 1e-4, self._atol)

"""The laws of potentials, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pcgcd.decoding import GCD, Potential
from pcgcd.decoding.contracts import check_log_twist
from pcgcd.engine import PrefixState
from pcgcd.testing.texts import TextWorld, as_violations, assert_unbiased, text_worlds

__all__ = ["PotentialLaws"]


class PotentialLaws:
    """What every :class:`pcgcd.decoding.Potential` must satisfy, on worlds of a few texts.

    Inherit from it in a test class whose name starts with ``Test``, and say how the potential is
    created; pytest does the rest. Without pytest, use :func:`run_laws`.

    >>> from pcgcd.decoding import LookAhead
    >>> class TestLookAhead(PotentialLaws):
    ...     def create_potential(self):
    ...         return LookAhead(0.5)
    >>> TestLookAhead().test_what_can_be_completed_is_possible()

    Attributes:
        num_runs: How many runs of SMC estimate the evidence.
        num_particles: The particles of each.
    """

    num_runs: int = 200
    num_particles: int = 4

    # -- to be implemented --------------------------------------------------------------------

    def create_potential(self) -> Potential:
        """The potential."""
        raise NotImplementedError("return the potential to be tested")

    def create_worlds(self) -> Sequence[TextWorld]:
        """Where it is tested; worlds of your own where it is made for one vocabulary."""
        return text_worlds()

    # -- what it returns ----------------------------------------------------------------------

    def test_one_number_for_each_prefix(self) -> None:
        """A tensor (k,) of numbers or -inf, for no prefixes an empty one."""
        for world, _, state in self._states():
            self._log_twist(state)
            for token in range(state.vocab_size):
                self._log_twist(state.advance([token] * state.num_rows))
            assert len(self._log_twist(world.state([]))) == 0, "numbers without prefixes"

    def test_what_can_be_completed_is_possible(self) -> None:
        """-inf only where no text is left, since nothing brings a dead particle back."""
        for _, prefixes, state in self._states():
            dead = self._log_twist(state).isneginf().nonzero().flatten().tolist()
            assert not dead, (
                f"the tokens {prefixes[dead[0]]} can be completed within the budget, but log_twist "
                "is -inf"
            )

    # -- batches ------------------------------------------------------------------------------

    def test_rows_do_not_depend_on_each_other(self) -> None:
        """A prefix has the same potential in a batch as alone."""
        for world, prefixes, state in self._states():
            together = self._log_twist(state)
            for row, prefix in enumerate(prefixes):
                alone = self._log_twist(world.state([prefix]))
                _compare(alone, together[row : row + 1], "alone")

    def test_selected_rows_keep_their_potential(self) -> None:
        """After resampling, copies and survivors have the potential of their prefix."""
        for _, prefixes, state in self._states():
            rows = [(3 * i + 1) % len(prefixes) for i in range(len(prefixes) + 2)]
            found = self._log_twist(state.select(rows))
            _compare(found, self._log_twist(state)[rows], "selected")

    # -- in use -------------------------------------------------------------------------------

    def test_a_guide_is_asked_only_if_that_is_said(self) -> None:
        """Where ``needs_guide`` is False, no guide changes the potential."""
        if getattr(self.create_potential(), "needs_guide", False):
            return
        for world, prefixes, state in self._states():
            without = self._log_twist(world.state(prefixes, guided=False))
            _compare(self._log_twist(state), without, "needs_guide is False, but without a guide")

    def test_evidence_is_unbiased(self) -> None:
        """With it, SMC estimates the sum of p_lm(x) f(x) without bias."""
        for world in self.create_worlds():
            if world.misleads:
                continue
            with as_violations():
                found = world.estimates(
                    GCD(),
                    self.create_potential(),
                    runs=self.num_runs,
                    particles=self.num_particles,
                )
            assert_unbiased(found, world.evidence, "the evidence")

    # -- what the laws are checked on ---------------------------------------------------------

    def _states(self) -> Iterator[tuple[TextWorld, list[tuple[int, ...]], PrefixState]]:
        """Every step of every world, all prefixes of a length together."""
        for world in self.create_worlds():
            for length in range(1, world.budget):
                prefixes = world.prefixes(length)
                if prefixes:
                    yield world, prefixes, world.state(prefixes)

    def _log_twist(self, state: PrefixState) -> Tensor:
        potential = self.create_potential()
        with as_violations():
            return check_log_twist(potential.log_twist(state), state.num_rows, potential)


def _compare(actual: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(
        actual,
        expected,
        rtol=1e-4,
        atol=1e-4,
        msg=lambda text: f"{what}, the potential is another: {text}",
    )

"""The laws of potentials, to be inherited by the tests of each."""

from __future__ import annotations

from torch import Tensor

from pcgcd.decoding import GCD, NextStep, Potential, Proposal
from pcgcd.decoding.contracts import check_log_twist
from pcgcd.engine import PrefixState
from pcgcd.testing.running import as_violations
from pcgcd.testing.steps import StepLaws


class PotentialLaws(StepLaws):
    """What every :class:`pcgcd.decoding.Potential` must satisfy, on worlds of a few texts.

    >>> from pcgcd.decoding import LookAhead
    >>> class TestLookAhead(PotentialLaws):
    ...     def create_potential(self):
    ...         return LookAhead(0.5)
    >>> TestLookAhead().test_what_can_be_completed_is_possible()
    """

    _shortest_prefix = 1

    def create_potential(self) -> Potential:
        """Return the potential."""
        raise NotImplementedError("return the potential to be tested")

    def test_one_number_for_each_prefix(self) -> None:
        """A tensor (k,) of numbers or -inf, for no prefixes an empty one."""
        for world, _, step in self._steps():
            state = step.state
            self._log_twist(state)
            for token in range(state.vocab_size):
                self._log_twist(state.advance([token] * state.num_rows))
            assert len(self._log_twist(world.state([]))) == 0, "numbers without prefixes"

    def test_what_can_be_completed_is_possible(self) -> None:
        """-inf only where no text is left, since nothing brings a dead particle back."""
        for _, prefixes, step in self._steps():
            dead = self._answers(step).isneginf().nonzero().flatten().tolist()
            assert not dead, (
                f"the tokens {prefixes[dead[0]]} can be completed within the budget, but log_twist "
                "is -inf"
            )

    def _parts(self) -> tuple[Proposal, Potential]:
        return GCD(), self.create_potential()

    def _answers(self, step: NextStep) -> Tensor:
        return self._log_twist(step.state)

    def _log_twist(self, state: PrefixState) -> Tensor:
        potential = self.create_potential()
        with as_violations():
            return check_log_twist(potential.log_twist(state), state.num_rows, potential)

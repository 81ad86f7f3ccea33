"""The laws of proposals, to be inherited by the tests of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pcgcd.decoding import NextStep, PrefixValidity, Proposal
from pcgcd.decoding.contracts import check_candidates
from pcgcd.engine import Candidates
from pcgcd.testing.texts import TextWorld, as_violations, assert_unbiased, text_worlds

__all__ = ["ProposalLaws"]


class ProposalLaws:
    """What every :class:`pcgcd.decoding.Proposal` must satisfy, on worlds of a few texts.

    Inherit from it in a test class whose name starts with ``Test``, and say how the proposal is
    created; pytest does the rest. Without pytest, use :func:`run_laws`.

    >>> from pcgcd.decoding import GCD
    >>> class TestGCD(ProposalLaws):
    ...     def create_proposal(self):
    ...         return GCD()
    >>> TestGCD().test_support_covers_the_target()

    Attributes:
        num_runs: How many runs of SMC estimate the evidence.
        num_particles: The particles of each.
    """

    num_runs: int = 200
    num_particles: int = 4

    # -- to be implemented --------------------------------------------------------------------

    def create_proposal(self) -> Proposal:
        """The proposal."""
        raise NotImplementedError("return the proposal to be tested")

    def create_worlds(self) -> Sequence[TextWorld]:
        """Where it is tested; worlds of your own where it is made for one vocabulary."""
        return text_worlds()

    # -- what it returns ----------------------------------------------------------------------

    def test_candidates_fit_the_step(self) -> None:
        """A row for each prefix; tokens of the vocabulary, each once; weights that are weights."""
        for _, _, step in self._steps():
            found = self._weigh(step)
            weights = found.log_weights
            wrong = weights.isnan() | (weights == torch.inf)
            assert not bool(wrong.any()), "a log-weight is NaN or +inf"
            if found.tokens is not None:
                for tokens, has_weight in zip(found.tokens, weights > -torch.inf, strict=True):
                    named = tokens[has_weight].tolist()
                    assert len(set(named)) == len(named), f"a row names a token twice: {named}"

    def test_support_covers_the_target(self) -> None:
        """Every token with which the target goes on has weight, or SMC could not correct it."""
        for _, prefixes, step in self._steps():
            size = step.state.vocab_size
            allowed = step.state.allowed().dense(size) > -torch.inf
            needed = allowed & (step.log_probs > -torch.inf)
            lost = needed & ~(self._log_q(step) > -torch.inf)
            for row, token in lost.nonzero().tolist():
                raise AssertionError(
                    f"after the tokens {prefixes[row]}, token {token} has no weight, although the "
                    "constraint allows it and the language model gives it probability"
                )

    def test_weighing_changes_nothing(self) -> None:
        """The step stays as it was: the same question has the same answer."""
        for _, _, step in self._steps():
            before = step.log_probs.clone()
            first = self._log_q(step)
            assert torch.equal(step.log_probs, before), "weigh changed step.log_probs in place"
            _compare(self._log_q(step), first, "asked twice")

    # -- batches ------------------------------------------------------------------------------

    def test_rows_do_not_depend_on_each_other(self) -> None:
        """A prefix has the same proposal in a batch as alone."""
        for world, prefixes, step in self._steps():
            together = self._log_q(step)
            for row, prefix in enumerate(prefixes):
                _compare(self._log_q(world.step([prefix])), together[row : row + 1], "alone")

    def test_selected_rows_keep_their_weights(self) -> None:
        """After resampling, copies and survivors have the proposal of their prefix."""
        for _, prefixes, step in self._steps():
            rows = [(3 * i + 1) % len(prefixes) for i in range(len(prefixes) + 2)]
            chosen = NextStep(step.state.select(rows), step.log_probs[rows])
            _compare(self._log_q(chosen), self._log_q(step)[rows], "selected")

    # -- in use -------------------------------------------------------------------------------

    def test_a_guide_is_asked_only_if_that_is_said(self) -> None:
        """Where ``needs_guide`` is False, no guide changes the weights."""
        if getattr(self.create_proposal(), "needs_guide", False):
            return
        for world, prefixes, step in self._steps():
            without = self._log_q(world.step(prefixes, guided=False))
            _compare(self._log_q(step), without, "needs_guide is False, but without a guide")

    def test_evidence_is_unbiased(self) -> None:
        """With it, SMC estimates the sum of p_lm(x) f(x) without bias."""
        for world in self.create_worlds():
            if world.misleads:
                continue
            with as_violations():
                found = world.estimates(
                    self.create_proposal(),
                    PrefixValidity(),
                    runs=self.num_runs,
                    particles=self.num_particles,
                )
            assert_unbiased(found, world.evidence, "the evidence")

    # -- what the laws are checked on ---------------------------------------------------------

    def _steps(self) -> Iterator[tuple[TextWorld, list[tuple[int, ...]], NextStep]]:
        """Every step of every world, all prefixes of a length together."""
        for world in self.create_worlds():
            for length in range(world.budget):
                prefixes = world.prefixes(length)
                if prefixes:
                    yield world, prefixes, world.step(prefixes)

    def _weigh(self, step: NextStep) -> Candidates:
        proposal = self.create_proposal()
        with as_violations():
            return check_candidates(proposal.weigh(step), step, proposal)

    def _log_q(self, step: NextStep) -> Tensor:
        """The normalised log-weights over the vocabulary, (k, V)."""
        weights = self._weigh(step).dense(step.state.vocab_size).double()
        total = weights.logsumexp(-1, keepdim=True)
        return torch.where(total > -torch.inf, weights - total, -torch.inf)


def _compare(actual: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(
        actual.exp(),
        expected.exp(),
        rtol=1e-4,
        atol=1e-6,
        msg=lambda text: f"{what}, the proposal is another: {text}",
    )

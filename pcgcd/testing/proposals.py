"""The laws of proposals, to be inherited by the tests of each."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.decoding import NextStep, Potential, PrefixValidity, Proposal
from pcgcd.decoding.contracts import check_candidates
from pcgcd.engine import Candidates
from pcgcd.testing.running import as_violations
from pcgcd.testing.steps import StepLaws


class ProposalLaws(StepLaws):
    """What every :class:`pcgcd.decoding.Proposal` must satisfy, on worlds of a few texts.

    >>> from pcgcd.decoding import GCD
    >>> class TestGCD(ProposalLaws):
    ...     def create_proposal(self):
    ...         return GCD()
    >>> TestGCD().test_support_covers_the_target()
    """

    _atol = 1e-6

    def create_proposal(self) -> Proposal:
        """Return the proposal."""
        raise NotImplementedError("return the proposal to be tested")

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
            allowed = step.state.allowed().dense(step.state.vocab_size) > -torch.inf
            lost = allowed & (step.log_probs > -torch.inf) & ~(self._log_q(step) > -torch.inf)
            for row, token in lost.nonzero().tolist():
                raise AssertionError(
                    f"after the tokens {prefixes[row]}, token {token} has no weight, although the "
                    "constraint allows it and the language model gives it probability"
                )

    def test_weighing_changes_nothing(self) -> None:
        """The step stays as it was: the same question has the same answer."""
        for _, _, step in self._steps():
            before = step.log_probs.clone()
            first = self._answers(step)
            assert torch.equal(step.log_probs, before), "weigh changed step.log_probs in place"
            self._compare(step, first, "asked twice")

    def _parts(self) -> tuple[Proposal, Potential]:
        return self.create_proposal(), PrefixValidity()

    def _weigh(self, step: NextStep) -> Candidates:
        proposal = self.create_proposal()
        with as_violations():
            return check_candidates(proposal.weigh(step), step, proposal)

    def _log_q(self, step: NextStep) -> Tensor:
        """The normalised log-weights over the vocabulary, (k, V)."""
        weights = self._weigh(step).dense(step.state.vocab_size).double()
        total = weights.logsumexp(-1, keepdim=True)
        return torch.where(total > -torch.inf, weights - total, -torch.inf)

    def _answers(self, step: NextStep) -> Tensor:
        return self._log_q(step).exp()

"""A language model's scores of next tokens, turned into those of a proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.proposals import Proposal
from pcgcd.engine import PrefixState
from pcgcd.errors import DeadEndError, InvalidParameterError


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """What logits processors do to the scores of some prefixes.

    Attributes:
        proposal: What turns the model's scores into those of the next token.
        within_budget: Whether texts must end within the budget.
        normalised: Whether scores are given back as log-probabilities.
    """

    proposal: Proposal
    within_budget: bool = True
    normalised: bool = False

    def weigh(self, state: PrefixState, scores: Tensor, rows: Sequence[int]) -> Tensor:
        """The scores of the next tokens, -inf for those that are not allowed.

        Args:
            state: k prefixes that can still be completed.
            scores: The model's scores, (k, V).
            rows: What the prefixes are called in errors.

        Raises:
            DeadEndError: All allowed tokens of a row have the score -inf.
            InvalidParameterError: An allowed token's score is NaN or +inf.
        """
        # A score that is no number must not spoil the row, unless its token is allowed.
        top = scores.amax(1)
        is_broken = bool((top.isnan() | (top == torch.inf)).any())
        broken = scores.isnan() | (scores == torch.inf) if is_broken else None
        clean = scores if broken is None else scores.masked_fill(broken, -torch.inf)
        step = NextStep(state, clean)
        width = scores.shape[1]
        weighed = self.proposal.weigh(step).dense(width).to(scores)
        if broken is not None:
            allowed = step.allowed(within_budget=self.within_budget).dense(width).to(scores)
            if bool((broken & (allowed == 0)).any()):
                raise InvalidParameterError(
                    "the model's scores of allowed tokens are NaN or +inf; they must be numbers or "
                    "-inf (is the model's floating type too narrow?)"
                )
        stuck = (weighed.amax(1) == -torch.inf).nonzero().flatten().tolist()
        if stuck:
            raise DeadEndError(
                f"in row {rows[stuck[0]]} every token that the constraint allows has the score "
                "-inf; does another logits processor (a minimal length, suppressed tokens) come "
                "before this one?"
            )
        return weighed.log_softmax(1) if self.normalised else weighed

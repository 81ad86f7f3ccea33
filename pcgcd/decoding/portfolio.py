"""Portfolios: several proposals share the particles, so that none of them can hide a text.

A guide that is wrong about a text makes its proposal draw it hardly ever, and the effective sample
size does not show that. In a portfolio a stretch of tokens x, from one resampling to the next, is
drawn from the mixture of whole stretches

    q(x) = sum_j shares[j] q_j(x),      q_j(x) = prod_t q_j(x_t | x_<t)

and its weight is that of the mixture: the balance heuristic (Veach and Guibas, 1995). As q is at
least shares[j] q_j, no weight exceeds 1 / shares[j] times the one that part j alone would give.
Mixing the parts anew at each token would bound nothing: the bounds of the tokens multiply.

Token by token, q(x_t | x_<t) mixes the parts by how probable they are given the stretch so far,
shares[j] q_j(x_<t). So it is a proposal like any other, with a memory; what SMC keeps of it is
log shares[j] q_j of each particle's stretch.

The next stretch begins with shares that the last one has taught: a step of EM towards the mixture
that is nearest to the target, as in population Monte Carlo (Douc et al., 2007; Cappé et al., 2008),
held back so that no part loses more than :data:`LEARNT` of its share. They depend only on what was
drawn before, so the evidence stays unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.decoding.contracts import check_candidates, check_support, needs_guide
from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.proposals import Proposal
from pcgcd.decoding.randomness import Randomness
from pcgcd.engine.candidates import Candidates
from pcgcd.errors import InvalidParameterError

LEARNT = 0.8  # of a part's share; the rest it keeps, whatever happens


@dataclass(frozen=True)
class Portfolio:
    """A mixture of proposals over the stretches between two resamplings.

    Asked for a single step, by a logits processor say, it mixes the parts by their shares.

    Attributes:
        parts: The proposals.
        shares: How probable each of them is; positive, with sum 1.

    >>> from pcgcd.decoding import GCD, Twisted
    >>> Portfolio((GCD(), Twisted(0.5)), (0.25, 0.75)).needs_guide
    True
    """

    parts: tuple[Proposal, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the parts and their shares."""
        if not self.parts or len(self.parts) != len(self.shares):
            raise InvalidParameterError(
                f"a portfolio needs a share for each of its proposals, but has {len(self.parts)} "
                f"proposals and {len(self.shares)} shares"
            )
        if not (all(share > 0 for share in self.shares) and math.isclose(sum(self.shares), 1)):
            raise InvalidParameterError(
                f"the shares of a portfolio must be positive and sum to 1, but are {self.shares}"
            )
        for part in self.parts:
            needs_guide(part, "proposal", "weigh")

    @property
    def needs_guide(self) -> bool:
        """Whether one of the parts does."""
        return any(needs_guide(part, "proposal", "weigh") for part in self.parts)

    def weigh(self, step: NextStep) -> Candidates:
        """Return the mixture of one step, by the shares."""
        size = step.log_probs.shape[1]
        total: Tensor | None = None
        for part, share in zip(self.parts, self.shares, strict=True):
            found = check_candidates(part.weigh(step), step, part).dense(size)
            found = (found - found.logsumexp(-1, keepdim=True)).nan_to_num(nan=-torch.inf)
            found = found + math.log(share)
            total = found if total is None else torch.logaddexp(total, found.to(total))
        return Candidates(None, step.log_probs if total is None else total)


def shares_of(proposal: Proposal) -> Tensor:
    """The shares of the parts, (m,) float64."""
    return torch.tensor([share for _, share in components_of(proposal)], dtype=torch.float64)


def shares_after(log_stretch: Tensor, weights: Tensor, shares: Tensor) -> Tensor:
    """The shares for the stretch after a resampling, (m,): what the weights say of each part.

    Args:
        log_stretch: log shares[j] q_j of the stretch of each particle, (k, m).
        weights: Of the particles, with sum 1.
        shares: Those that the portfolio began with, (m,).

    >>> stretches = torch.tensor([[0.5, 0.0], [0.5, 0.0]]).double().log()  # the first drew them all
    >>> shares_after(stretches, torch.tensor([0.3, 0.7]), torch.tensor([0.5, 0.5]).double())
    tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    blame = log_stretch.softmax(1).nan_to_num(0.0)
    found = (weights.double().unsqueeze(1) * blame).sum(0)
    return (1 - LEARNT) * shares + LEARNT * found / found.sum()


def components_of(proposal: Proposal) -> tuple[tuple[Proposal, float], ...]:
    """Return the parts of a portfolio with their shares; any other proposal is its own."""
    if isinstance(proposal, Portfolio):
        return tuple(zip(proposal.parts, proposal.shares, strict=True))
    return ((proposal, 1.0),)


class Drawn(NamedTuple):
    """The next tokens of k prefixes."""

    token: Tensor  # (k,)
    log_q: Tensor  # of the mixture given the stretch before it, (k,) float64; -inf: none drawn
    log_parts: Tensor  # of each part, (k, m) float64


def draw(
    proposal: Proposal,
    step: NextStep,
    log_stretch: Tensor,
    groups: Sequence[int],
    rng: Randomness,
) -> Drawn:
    """Draw the next token of each prefix.

    Args:
        proposal: A portfolio, or any other proposal.
        step: The prefixes.
        log_stretch: log shares[j] q_j of each prefix since the last resampling, (k, m) float64.
        groups: Rows of one group choose their parts together, as nearly by share as can be.
        rng: The source of randomness.
    """
    parts = components_of(proposal)
    found = [check_candidates(part.weigh(step), step, part) for part, _ in parts]
    if len(parts) == 1:
        drawn = rng.categorical(found[0].log_weights)
        log_q = drawn.log_q.cpu().double()
        if bool((log_q == -math.inf).any()):
            check_support(step, found[0], parts[0][0])
        return Drawn(found[0].token(drawn.column), log_q, log_q.unsqueeze(1))
    # A part without any token leaves its share to the others.
    able = torch.stack([(one.log_weights > -torch.inf).any(1).cpu() for one in found], 1)
    prior = log_stretch.masked_fill(~able, -torch.inf)
    prior = (prior - prior.logsumexp(1, keepdim=True)).nan_to_num(nan=-torch.inf)
    chosen = _choose(prior, groups, rng)

    token = torch.zeros(len(groups), dtype=torch.long, device=step.log_probs.device)
    own = torch.full((len(groups),), -torch.inf, dtype=torch.float64)
    for j, one in enumerate(found):
        rows = (chosen == j).nonzero().flatten().tolist()
        if rows:
            mine = one if len(rows) == one.num_rows else one.rows(rows)
            drawn = rng.categorical(mine.log_weights)
            token[rows], own[rows] = mine.token(drawn.column), drawn.log_q.cpu()
    if bool((own == -math.inf).any()):
        for (part, _), one in zip(parts, found, strict=True):
            check_support(step, one, part)
    log_parts = torch.stack([one.log_prob_of(token).cpu() for one in found], 1)
    log_parts[torch.arange(len(groups)), chosen] = own
    log_q = torch.where(own == -math.inf, own, (prior + log_parts).logsumexp(1))
    return Drawn(token, log_q, log_parts)


def _choose(log_shares: Tensor, groups: Sequence[int], rng: Randomness) -> Tensor:
    """A part for each row, (k,), in proportion to its shares.

    Each row's point is uniform whatever came before, which is all that unbiased weights need; those
    of a group are spread evenly, so that half of them choose a part whose share is a half.
    """
    points, order = torch.empty(len(groups), dtype=torch.float64), rng.uniform(len(groups))
    group_of = torch.tensor(groups)
    for group in dict.fromkeys(groups):
        members = (group_of == group).nonzero().flatten()
        rank = order[members].argsort().argsort()
        points[members] = (rank + rng.uniform(1)) / len(members)
    sums = log_shares.exp().cumsum(1)
    found = torch.searchsorted(sums, points.unsqueeze(1) * sums[:, -1:], right=True).squeeze(1)
    last = (log_shares > -torch.inf).long().cumsum(1).argmax(1)  # the last part with a share
    return torch.minimum(found, last)

"""The parameters of an HMM while they are fitted, and the M step."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalise_, row_pieces
from pcgcd.hmm.model import HiddenMarkovModel
from pcgcd.hmm.steps import Steps, steps_of
from pcgcd.hmm.walks import index_of, log_likelihoods, observed_tokens, working_dtype
from pcgcd.learning.em.expected_counts import Counts, counts_of

_SMALLEST_SCALE = 1e-3


class Parameters:
    """Working copies of a model's parameters, changed in place.

    A mini-batch meets few of the V tokens, so the emission is kept as

        emission[h, v] = scale[h] * stored[v, h] + offset[h] where stored[v, h] > 0, else 0,

    of which a step changes the rows of the tokens met, and the two vectors. It is written out when
    a scale has become small. A zero is structural: it has no counts, and no pseudocount fills it.
    """

    def __init__(
        self,
        kind: type[HiddenMarkovModel],
        steps: Steps,
        initial: Tensor,
        stored: Tensor,
        scale: Tensor,
        offset: Tensor,
    ) -> None:
        self.kind, self.steps, self.initial, self.stored = kind, steps, initial, stored
        self.scale, self.offset = scale, offset
        parts = [(part > 0).sum(0) for part in row_pieces(stored)]
        self.possible_tokens = torch.stack(parts).sum(0)  # (H,), at the start

    @classmethod
    def copy_of(cls, hmm: HiddenMarkovModel) -> Parameters:
        """Return the parameters of a model, copied."""
        dtype = working_dtype(hmm.emission.dtype)
        steps = steps_of(hmm, dtype)
        plain = torch.contiguous_format
        steps = type(steps)(*(factor.clone(memory_format=plain) for factor in steps.factors))
        emission = hmm.emission.detach()
        stored = torch.empty(
            (hmm.vocab_size, hmm.num_hidden), dtype=dtype, device=emission.device
        ).copy_(emission.t())
        initial = hmm.initial.detach().to(dtype).clone(memory_format=plain)
        scale, offset = torch.ones_like(initial), torch.zeros_like(initial)
        return cls(type(hmm), steps, initial, stored, scale, offset)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that defines the parameters, by name; not copied."""
        factors = {f"factor.{i}": factor for i, factor in enumerate(self.steps.factors)}
        own = {"stored": self.stored, "scale": self.scale, "offset": self.offset}
        return {"initial": self.initial, **factors, **own}

    def assign(self, tensors: dict[str, Tensor]) -> None:
        """Take over values of :meth:`tensors`."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    def to_hmm(self) -> HiddenMarkovModel:
        """Return a model of its own, with rows that sum to one."""
        self.write_out()
        emission = self.stored.new_empty(self.stored.shape[::-1]).copy_(self.stored.t())
        factors = [normalise_(factor.clone()) for factor in self.steps.factors]
        initial = normalise_(self.initial.clone())
        return self.kind(initial, *factors, normalise_(emission), validate=False)

    def rows(self, tokens: Tensor) -> Tensor:
        """Emission probabilities of some tokens, and a row of ones, (tokens + 1, H)."""
        table = self.stored.new_empty(len(tokens) + 1, self.stored.shape[1])
        table[-1] = 1
        chosen = table[:-1]
        torch.index_select(self.stored, 0, tokens, out=chosen)
        if bool(self.offset.any()):
            positive = chosen > 0
            chosen.mul_(self.scale).add_(positive * self.offset)
        else:
            chosen.mul_(self.scale)
        return table

    def counts(self, batch: Tensor, tokens: Tensor, lengths: Tensor | None) -> Counts:
        """Expected counts of a batch; ``tokens`` names those that may occur, in rising order."""
        return counts_of(self.steps, self.initial, self.rows(tokens), tokens, batch, lengths)

    def log_likelihoods(self, batch: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the log-likelihood of each sequence, (batch,) in float64."""
        tokens = observed_tokens(batch)
        index = index_of(batch, tokens)
        return log_likelihoods(self.steps, self.initial, self.rows(tokens), index, lengths)

    def update(self, counts: Counts, step_size: float, pseudocount: float) -> None:
        """Set theta <- (1 - step) theta + step * (counts + pseudocount), normalised.

        The pseudocount is the mass that each distribution gets, spread evenly over what is
        possible. A distribution with no counts at all stays as it is. The counts are used up.
        """
        _blend(self.initial, counts.initial, step_size, pseudocount)
        for factor, used in zip(self.steps.factors, counts.transition):
            _blend(factor, used, step_size, pseudocount)
        self._update_emission(counts, step_size, pseudocount)

    def _update_emission(self, counts: Counts, step_size: float, pseudocount: float) -> None:
        total = counts.emission.sum(0).add_(pseudocount)
        known = total > 0
        rate = known.to(total.dtype).mul_(step_size)
        gain = torch.where(known, rate / total, rate)  # of one count
        self.scale.mul_(1 - rate)
        self.offset.mul_(1 - rate)
        if pseudocount:
            self.offset.add_(gain * pseudocount / self.possible_tokens.clamp(min=1).to(gain.dtype))
        if float(self.scale.min()) < _SMALLEST_SCALE:
            self.write_out()
        counts.emission.mul_(gain / self.scale)
        self.stored.index_add_(0, counts.tokens, counts.emission)

    def write_out(self) -> None:
        """Bring the emission into ``stored`` itself."""
        if bool(self.offset.any()):
            for part in row_pieces(self.stored):
                positive = part > 0
                part.mul_(self.scale).add_(positive * self.offset)
        elif bool((self.scale != 1).any()):
            self.stored.mul_(self.scale) if bool(self.scale.any()) else self.stored.zero_()
        self.scale.fill_(1)
        self.offset.fill_(0)


def _blend(theta: Tensor, counts: Tensor, step_size: float, pseudocount: float) -> None:
    """The M step of rows of distributions; the counts are used up."""
    total = counts.sum(-1, keepdim=True).add_(pseudocount)
    if pseudocount:
        possible = theta > 0
        share = pseudocount / possible.sum(-1, keepdim=True).clamp(min=1).to(theta.dtype)
        counts.add_(possible * share)
    known = total > 0
    counts.div_(torch.where(known, total, torch.ones_like(total)))
    theta.lerp_(counts, known.to(theta.dtype).mul_(step_size))

"""Temperature, top-k and top-p: explicit changes of the language model, and so of the target.

SMC then aims at the changed model given the constraint, not at the model as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError


@dataclass(frozen=True)
class Sharpening:
    """How next-token distributions are changed before anything else is done with them.

    Attributes:
        temperature: Log-probabilities are divided by it and normalised again; 1 changes nothing.
        top_k: Only the k most likely tokens are kept.
        top_p: Only the most likely tokens that together reach this probability are kept.

    >>> Sharpening(top_k=1)(torch.tensor([[0.7, 0.3]]).log())
    tensor([[0., -inf]])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < self.temperature < float("inf"):
            raise InvalidParameterError(
                f"temperature must be a positive number, but is {self.temperature}; for greedy "
                f"decoding use top_k=1"
            )
        if self.top_k is not None and self.top_k < 1:
            raise InvalidParameterError(f"top_k must be at least 1, but is {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidParameterError(f"top_p must lie in (0, 1], but is {self.top_p}")

    @property
    def changes_nothing(self) -> bool:
        """Whether the target is the model itself."""
        return self.temperature == 1 and self.top_k is None and self.top_p is None

    def __call__(self, log_probs: Tensor) -> Tensor:
        """The changed, normalised log-probabilities, (k, V)."""
        if self.changes_nothing:
            return log_probs
        result = log_probs / self.temperature
        if self.top_k is not None and self.top_k < result.shape[-1]:
            kept = result.topk(self.top_k, dim=-1)
            result = torch.full_like(result, -torch.inf).scatter(-1, kept.indices, kept.values)
        if self.top_p is not None and self.top_p < 1:
            result = _nucleus(result, self.top_p)
        return result.log_softmax(-1)


def _nucleus(log_weights: Tensor, top_p: float) -> Tensor:
    """The smallest set of most likely tokens whose probabilities sum to at least top_p."""
    order = log_weights.log_softmax(-1).sort(dim=-1, descending=True)
    before = order.values.exp().cumsum(-1) - order.values.exp()
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order.indices, before >= top_p)
    return log_weights.masked_fill(dropped, -torch.inf)

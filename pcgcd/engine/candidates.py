"""Weighted tokens that may come next, for a batch of prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError

__all__ = ["Candidates"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """For each of k prefixes, tokens and their log-weights.

    Few tokens are named one by one; many are written as a row over the whole vocabulary, so that a
    literal of a constraint costs nothing and free text costs one pass.

    Attributes:
        tokens: The token of each column, (k, m), each at most once in a row. None if the columns
            are the whole vocabulary in order. A column that only fills up a row has weight -inf.
        log_weights: (k, m), -inf for what is not allowed.

    >>> few = Candidates(torch.tensor([[5, 7]]), torch.tensor([[-0.5, -1.0]]))
    >>> few.at(torch.arange(10.0).unsqueeze(0))
    tensor([[5., 7.]])
    >>> few.token(torch.tensor([1]))
    tensor([7])
    """

    tokens: Tensor | None
    log_weights: Tensor

    def __post_init__(self) -> None:
        """Check that the two shapes agree."""
        if self.log_weights.dim() != 2 or (
            self.tokens is not None and self.tokens.shape != self.log_weights.shape
        ):
            raise InvalidParameterError(
                "candidates are (k, m) log-weights and as many tokens, but the shapes are "
                f"{tuple(self.log_weights.shape)} and "
                f"{None if self.tokens is None else tuple(self.tokens.shape)}"
            )

    @property
    def num_rows(self) -> int:
        """The number of prefixes k."""
        return int(self.log_weights.shape[0])

    def at(self, values: Tensor) -> Tensor:
        """What (k, V) values are at the columns, (k, m)."""
        return values if self.tokens is None else values.gather(1, self.tokens)

    def token(self, column: Tensor) -> Tensor:
        """The token of one column of each row, (k,)."""
        if self.tokens is None:
            return column
        return self.tokens.gather(1, column.unsqueeze(1)).squeeze(1)

    def with_weights(self, log_weights: Tensor) -> Candidates:
        """The same tokens with other weights."""
        return Candidates(self.tokens, log_weights)

    def dense(self, vocab_size: int) -> Tensor:
        """The log-weights over the whole vocabulary, (k, V).

        >>> Candidates(torch.tensor([[2, 0]]), torch.tensor([[-1.0, -torch.inf]])).dense(3)
        tensor([[-inf, -inf, -1.]])
        """
        if self.tokens is None:
            return self.log_weights
        result = self.log_weights.new_full((self.num_rows, vocab_size), -torch.inf)
        return result.scatter_reduce(1, self.tokens, self.log_weights, "amax")

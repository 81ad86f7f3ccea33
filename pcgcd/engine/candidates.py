"""Weighted tokens that may come next, for a batch of prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError

# Rows with at most this part of the vocabulary are written as lists of tokens.
FEW = 1 / 8


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
        """Return the token of one column of each row, (k,)."""
        if self.tokens is None:
            return column
        return self.tokens.gather(1, column.unsqueeze(1)).squeeze(1)

    def log_prob_of(self, token: Tensor) -> Tensor:
        """Return the log of the share that one token has of the weights of its row, (k,) float64.

        >>> few = Candidates(torch.tensor([[5, 7]]), torch.tensor([[0.0, 0.0]]))
        >>> few.log_prob_of(torch.tensor([7])).exp()
        tensor([0.5000], dtype=torch.float64)
        """
        column, weights = token.unsqueeze(1), self.log_weights
        if self.tokens is None:
            own = weights.gather(1, column).squeeze(1)
        else:
            own = weights.masked_fill(self.tokens != column, -torch.inf).amax(1)
        return torch.where(own == -torch.inf, own, own - weights.logsumexp(1)).double()

    def with_weights(self, log_weights: Tensor) -> Candidates:
        """Return the same tokens with other weights."""
        return Candidates(self.tokens, log_weights)

    def to(self, device: torch.device) -> Candidates:
        """Return the same candidates elsewhere."""
        tokens = None if self.tokens is None else self.tokens.to(device)
        return Candidates(tokens, self.log_weights.to(device))

    def rows(self, index: Sequence[int]) -> Candidates:
        """Other rows: repeated, dropped or in another order."""
        chosen = torch.as_tensor(index, dtype=torch.long, device=self.log_weights.device)
        tokens = None if self.tokens is None else self.tokens[chosen]
        return Candidates(tokens, self.log_weights[chosen])

    def dense(self, vocab_size: int) -> Tensor:
        """Return the log-weights over the whole vocabulary, (k, V).

        >>> Candidates(torch.tensor([[2, 0]]), torch.tensor([[-1.0, -torch.inf]])).dense(3)
        tensor([[-inf, -inf, -1.]])
        """
        if self.tokens is None:
            return self.log_weights
        result = self.log_weights.new_full((self.num_rows, vocab_size), -torch.inf)
        return result.scatter_reduce(1, self.tokens, self.log_weights, "amax")

    @classmethod
    def merged(
        cls, parts: Sequence[Candidates], places: Sequence[Sequence[int]], vocab_size: int
    ) -> Candidates:
        """One batch from several; ``places`` says which rows the rows of each part become.

        >>> few = Candidates(torch.tensor([[1]]), torch.tensor([[-1.0]]))
        >>> whole = Candidates(None, torch.tensor([[-2.0, -3.0, -torch.inf]]))
        >>> Candidates.merged([few, whole], [[1], [0]], 3).log_weights
        tensor([[-2., -3., -inf],
                [-inf, -1., -inf]])
        """
        if len(parts) == 1 and list(places[0]) == list(range(parts[0].num_rows)):
            return parts[0]
        count = sum(part.num_rows for part in parts)
        dtype = torch.float64 if any(p.log_weights.dtype == torch.float64 for p in parts) else None
        device = parts[0].log_weights.device if parts else None
        if any(part.tokens is None for part in parts):
            whole = torch.full((count, vocab_size), -torch.inf, dtype=dtype, device=device)
            for part, rows in zip(parts, places):
                whole[list(rows)] = part.dense(vocab_size).to(whole)
            return cls(None, whole)
        width = max((part.log_weights.shape[1] for part in parts), default=0)
        log_weights = torch.full((count, width), -torch.inf, dtype=dtype, device=device)
        tokens = torch.zeros(count, width, dtype=torch.long, device=device)
        for part, rows in zip(parts, places):
            filled = part.log_weights.shape[1]
            log_weights[list(rows), :filled] = part.log_weights.to(log_weights)
            if part.tokens is not None:
                tokens[list(rows), :filled] = part.tokens.to(tokens)
        return cls(tokens, log_weights)

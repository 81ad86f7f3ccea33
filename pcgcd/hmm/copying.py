"""Answers repeat words of their prompts: an HMM that copies, conditioned on a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError, VocabularyMismatchError


@dataclass(frozen=True, eq=False)
class Copying:
    """How an HMM copies tokens of the prompt.

    A hidden state z emits a token of the prompt with probability ``rates[z]``, chosen among the
    different tokens of the prompt in proportion to their ``weights``, and else as it always does:

        p(x | z, prompt) = (1 - rates[z]) p(x | z) + rates[z] c(x),    c(x) ~ weights[x] 1{x in prompt}

    Attributes:
        rates: Between 0 and 1, (H,).
        weights: Not negative, (V,); zero for tokens that are never copied, such as EOS.

    >>> copying = Copying(torch.tensor([0.5]), torch.tensor([1.0, 3.0, 0.0]))
    >>> copying.emission(torch.tensor([[0.2, 0.2, 0.6]]), [0, 1, 2, 1])
    tensor([[0.2250, 0.4750, 0.3000]])
    """  # noqa: E501

    rates: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        for name, values in (("rates", self.rates), ("weights", self.weights)):
            if values.dim() != 1 or not bool((values >= 0).all() & torch.isfinite(values).all()):
                raise InvalidParameterError(
                    f"the {name} of copying must be a vector of finite numbers of at least 0"
                )
        if bool((self.rates > 1).any()):
            raise InvalidParameterError(
                f"the rates of copying are probabilities, but one is {float(self.rates.max()):g}"
            )

    def emission(self, emission: Tensor, prompt: Iterable[int]) -> Tensor:
        """Emission probabilities (H, V) given the tokens of a prompt."""
        tokens = torch.tensor(sorted(set(prompt)), dtype=torch.long, device=emission.device)
        vocab_size = len(self.weights)
        if len(tokens) and not (int(tokens[0]) >= 0 and int(tokens[-1]) < vocab_size):
            raise VocabularyMismatchError(
                f"tokens of the prompt must lie in 0..{vocab_size - 1}, but it has "
                f"{int(tokens[0])} and {int(tokens[-1])}"
            )
        chosen = self.weights[tokens]
        total = chosen.sum()
        if not bool(total > 0):
            return emission
        rates = self.rates.to(emission.dtype).unsqueeze(1)
        result = emission * (1 - rates)
        result[:, tokens] += rates * (chosen / total).to(emission.dtype)
        return result

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Copying:
        """Return the same with its tensors elsewhere, or in another floating type."""
        return Copying(
            self.rates.to(device=device, dtype=dtype), self.weights.to(device=device, dtype=dtype)
        )

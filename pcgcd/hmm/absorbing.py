"""Hidden Markov models whose texts end once."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.copying import Copying
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.model import HiddenMarkovModel


def absorbing(hmm: HiddenMarkovModel, eos_ids: int | Iterable[int]) -> HMM:
    """Return the same model in which nothing but EOS follows an EOS.

    Up to and including the first EOS every string keeps its probability exactly; from there on
    that EOS repeats with probability one. For this, a hidden state either emits no EOS or is one of
    the new absorbing states, one for each EOS id:

        B'(z, v) = B(z, v) / (1 - e(z)),   A'(y, z) = A(y, z) (1 - e(z)),   e(z) = sum_i B(z, eos_i)
        A'(y, D_i) = sum_z A(y, z) B(z, eos_i),   A'(D_i, D_i) = B'(D_i, eos_i) = 1

    Hidden states that emit EOS only are left out, so that doing it twice changes nothing. What is
    copied from a prompt (see :class:`Copying`) is copied where the text goes on, with the same
    chances among the tokens that are no EOS; whether it goes on does not depend on the prompt.

    Args:
        hmm: The model; a Monarch one is written out densely.
        eos_ids: The token, or the tokens, that end a text.

    >>> hmm = HMM(torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([[0.75, 0.25]]))
    >>> absorbing(hmm, 1).log_value(torch.tensor([[0, 1, 1], [0, 1, 0]])).exp()
    tensor([0.1875, 0.0000])
    """
    ends = [eos_ids] if isinstance(eos_ids, int) else sorted({int(i) for i in eos_ids})
    if not ends or not all(0 <= i < hmm.vocab_size for i in ends):
        raise InvalidParameterError(
            f"end-of-sequence ids must be at least one, in 0..{hmm.vocab_size - 1}, but {ends} "
            "were given"
        )
    wide = (hmm.to_dense() if isinstance(hmm, MonarchHMM) else hmm).to(dtype=torch.float64)
    (transition,) = wide.transition_factors
    ending = wide.emission[:, ends]  # (H, m)
    text = wide.emission.clone()
    text[:, ends] = 0
    going_on = text.sum(-1)  # (H,): 1 - e(z)
    kept = going_on > 0
    absorbed = torch.zeros(len(ends), hmm.vocab_size, dtype=text.dtype, device=text.device)
    absorbed[range(len(ends)), ends] = 1

    def split(weights: Tensor) -> Tensor:
        """From (..., H) to the kept and the absorbing states."""
        return torch.cat([weights[..., kept] * going_on[kept], weights @ ending], -1)

    stay = torch.eye(len(ends), dtype=text.dtype, device=text.device)
    stay = torch.nn.functional.pad(stay, (int(kept.sum()), 0))
    result = HMM(
        split(wide.initial),
        torch.cat([split(transition[kept]), stay]),
        torch.cat([text[kept] / going_on[kept, None], absorbed]),
        copying=_copying_text(wide.copying, going_on, kept, ends),
        validate=False,
    )
    return result.to(dtype=hmm.emission.dtype)


def _copying_text(
    copying: Copying | None, going_on: Tensor, kept: Tensor, ends: list[int]
) -> Copying | None:
    """The rates of the kept states given that their token is no EOS; none for the others."""
    if copying is None:
        return None
    rates = copying.rates[kept]
    rates = rates / (rates + (1 - rates) * going_on[kept])
    weights = copying.weights.clone()
    weights[ends] = 0
    return Copying(torch.nn.functional.pad(rates, (0, len(ends))), weights)

"""Models in the formats of other projects, recognised by the names of their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalise_
from pcgcd.errors import CheckpointError
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.model import HiddenMarkovModel

_CTRL_G = frozenset({"alpha_exp", "beta", "gamma"})
_FACTORS = ("alpha_exp.weights_exp.0", "alpha_exp.weights_exp.1")
_MONARCH = frozenset({*_FACTORS, "beta", "gamma_exp"})
_TOLERANCE = 1e-2


def read_foreign(
    tensors: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype
) -> HiddenMarkovModel:
    """Return a model from the tensors of Ctrl-G, or of the Monarch HMMs."""
    names = frozenset(tensors)
    if names == _CTRL_G:
        hmm: HiddenMarkovModel = _ctrl_g(tensors, dtype)
    elif names == _MONARCH:
        hmm = _monarch(tensors, dtype)
    else:
        shown = ", ".join(sorted(names)[:8]) or "none"
        raise CheckpointError(
            "the tensors are not those of an HMM in a known format: expected initial and emission "
            f"(ours), {', '.join(sorted(_CTRL_G))} (Ctrl-G) or {', '.join(sorted(_MONARCH))} "
            f"(Monarch), but found {shown}"
        )
    for name, found in (("hidden_states", hmm.num_hidden), ("vocab_size", hmm.vocab_size)):
        if name in config and config[name] != found:
            raise CheckpointError(
                f"config.json says {name} = {config[name]}, but the tensors have {found}; the two "
                "files are not of one model"
            )
    return hmm


def _ctrl_g(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> HMM:
    """alpha_exp (H, H) probabilities; beta (H, V) and gamma (H,) logarithms."""
    alpha, beta, gamma = tensors["alpha_exp"], tensors["beta"], tensors["gamma"]
    hidden = gamma.numel()
    _check(alpha.shape == (hidden, hidden), "alpha_exp", alpha, f"({hidden}, {hidden})")
    _check(beta.dim() == 2 and beta.shape[0] == hidden, "beta", beta, f"({hidden}, V)")
    return HMM(
        _rows("gamma", gamma.reshape(-1).to(dtype).exp()),
        _rows("alpha_exp", alpha.to(dtype, copy=True)),
        _rows("beta", beta.to(dtype, copy=True).exp_()),
        validate=False,
    )


def _monarch(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> MonarchHMM:
    """Two factors, applied in this order to a row; beta (H, V) logarithms; gamma_exp (1, H).

    There, a state is (s, r), numbered s * b1 + r, and the transition is

        W[(s, r), (g, c)] = first[r, s, g] * second[g, r, c],

    which is ours once states are numbered (r, s) instead.
    """
    first, second = (tensors[name] for name in _FACTORS)
    for name, factor in zip(_FACTORS, (first, second)):
        _check(
            factor.dim() == 3 and factor.shape[1] == factor.shape[2], name, factor, "(H/b, b, b)"
        )
    b0, b1 = first.shape[1], second.shape[1]
    hidden = b0 * b1
    _check(first.shape[0] == b1, _FACTORS[0], first, f"({b1}, {b0}, {b0})")
    _check(second.shape[0] == b0, _FACTORS[1], second, f"({b0}, {b1}, {b1})")
    beta, gamma = tensors["beta"], tensors["gamma_exp"]
    _check(gamma.numel() == hidden, "gamma_exp", gamma, f"(1, {hidden})")
    _check(beta.dim() == 2 and beta.shape[0] == hidden, "beta", beta, f"({hidden}, V)")
    order = torch.arange(hidden).view(b0, b1).t().flatten()
    return MonarchHMM(
        _rows("gamma_exp", gamma.reshape(-1)[order].to(dtype)),
        _rows(_FACTORS[0], first.to(dtype, copy=True)),
        _rows(_FACTORS[1], second.to(dtype, copy=True)),
        _rows("beta", beta.index_select(0, order).to(dtype).exp_()),
        validate=False,
    )


def _check(fits: bool, name: str, tensor: Tensor, expected: str) -> None:
    if not fits:
        raise CheckpointError(
            f"{name} must have shape {expected}, but has {tuple(tensor.shape)}; the file is not a "
            "consistent model"
        )


def _rows(name: str, weights: Tensor) -> Tensor:
    """Distributions with sums of exactly one, in place; those stored have rounding errors."""
    error = float((weights.sum(-1) - 1).abs().max())
    if not error <= _TOLERANCE or bool((weights < 0).any()):
        raise CheckpointError(
            f"the rows of {name} must be distributions, but their sums are off by up to {error:g} "
            "or have negative entries; the file is damaged, or in another format"
        )
    return normalise_(weights)

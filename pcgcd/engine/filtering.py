"""Filtering: what is known of a hidden unit after the next token has been seen."""

from __future__ import annotations

from torch import Tensor


def observe(predicted: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply predictions with the emissions of the tokens that came, and normalise.

    Args:
        predicted: p(z_t | x_{1:t-1}), (k, H).
        emission: p(x_t | z_t) of the token of each row, (k, H).

    Returns:
        p(z_t | x_{1:t}), (k, H) float64, zeros where the token is impossible; and the logarithm
        of p(x_t | x_{1:t-1}), (k,).
    """
    joint = predicted.double() * emission.double()
    mass = joint.sum(-1, keepdim=True)
    return joint / mass.where(mass > 0, 1), mass.squeeze(-1).log()

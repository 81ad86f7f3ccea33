"""Whole numbers, and weights that become probabilities."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pcgcd.basics.packages import check_version
from pcgcd.errors import InvalidParameterError

check_version(torch)  # here, since everything that needs torch comes by

# A tensor, or numbers in lists, tuples or arrays.
TensorLike: TypeAlias = Tensor | ArrayLike
_PIECE = 1 << 18


def is_whole_number(value: object) -> TypeGuard[int]:
    """Say whether a value is an integer of Python or numpy; true and false are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole_number(name: str, value: object, least: int = 0, most: int | None = None) -> int:
    """Check that an argument is a whole number between two (None: without end); returns it.

    Raises:
        InvalidParameterError: It is none, or lies outside.

    >>> check_whole_number("budget", 0, least=1)
    Traceback (most recent call last):
    pcgcd.errors.InvalidParameterError: budget must be a whole number of at least 1, but is 0
    """
    if is_whole_number(value) and least <= value and (most is None or value <= most):
        return int(value)
    between = f"of at least {least}" if most is None else f"between {least} and {most}"
    raise InvalidParameterError(f"{name} must be a whole number {between}, but is {_shown(value)}")


def _shown(value: object) -> str:
    if is_whole_number(value) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    return f"{value!r:.60}"


def as_tensor(name: str, values: TensorLike) -> Tensor:
    """Return a tensor as it is, and numbers in lists, tuples or arrays as a new one.

    Raises:
        InvalidParameterError: They are no numbers, or lists of different lengths.

    >>> as_tensor("tokens", [(0, 1), (2, 3)])
    tensor([[0, 1],
            [2, 3]])
    """
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # lists of different lengths, among others
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise InvalidParameterError(
            f"{name} must be a tensor, or numbers in lists of one length, but {values!r:.60} was "
            "given"
        )
    return torch.tensor(array)


def check_weights(name: str, weights: Tensor) -> None:
    """Check that all weights are finite and not negative (on a GPU, this synchronises).

    Raises:
        InvalidParameterError: One is negative, infinite or not a number.
    """
    if not weights.numel():
        return
    lowest, highest = (float(end) for end in weights.detach().aminmax())
    if not (lowest >= 0 and highest < float("inf")):
        raise InvalidParameterError(
            f"{name} must be probabilities, but has negative or undefined entries (smallest: "
            f"{lowest:g}, largest: {highest:g}); pass probabilities, not logarithms"
        )


def normalised(weights: Tensor) -> Tensor:
    """Rows of weights as distributions along the last axis; a row of zeros stays one.

    >>> normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    return weights / _divisor(weights.sum(-1, keepdim=True))


def normalise_(weights: Tensor) -> Tensor:
    """Do the same in place, a few rows at a time, with sums in float64; returns the weights."""
    for part in row_pieces(weights.view(-1, weights.shape[-1])):
        total = part.sum(-1, keepdim=True, dtype=torch.float64)
        part.div_(_divisor(total).to(part.dtype))
    return weights


def row_pieces(matrix: Tensor) -> tuple[Tensor, ...]:
    """Return a few rows at a time, so that what is made of them stays small."""
    return tuple(matrix.split(max(1, _PIECE // matrix.shape[1])))


def _divisor(total: Tensor) -> Tensor:
    """What to divide rows by: their sums, and one where there is nothing to divide."""
    return torch.where(total == 0, 1, total)


def draw(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One column of each row, with a probability in proportion to its weight, (rows,)."""
    kind, device = torch.float64, weights.device
    uniform = torch.rand(len(weights), dtype=kind, device=device, generator=generator)
    return draw_at(weights, uniform)


def draw_at(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return the same, decided by numbers in [0, 1), (rows,); never a column of weight zero.

    >>> draw_at(torch.tensor([[1.0, 0.0, 3.0]] * 2), torch.tensor([0.2, 0.3]))
    tensor([0, 2])
    """
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    # Strictly below the total, so that the first larger entry exists and has positive weight.
    below = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(uniform.unsqueeze(1) * total, below)
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)

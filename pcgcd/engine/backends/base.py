"""What a backend computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, eq=False)
class Tiles:
    """The vocabulary cut into classes of tokens that are never distinguished.

    Attributes:
        order: All tokens, those of a class together, (V,).
        first: Where each class begins, (C + 1,).
        token_class: The class of each token, (V,).
    """

    order: Indices
    first: Indices
    token_class: Indices

    @cached_property
    def size(self) -> Indices:
        """The number of tokens of each class, (C,)."""
        return np.diff(self.first)


class ScoreTask(NamedTuple):
    """Which tokens of which row are scored with which message.

    Attributes:
        tiles: The classes of tokens.
        group: The message of each row and class, (k, C) int32; -1 where it is not allowed.
        column: Where the tokens of a class are written in each row, (k, C) int32; None to write
            each at the column of its own number.
        width: The number of columns of the result.
    """

    tiles: Tiles
    group: np.ndarray[Any, np.dtype[np.int32]]
    column: np.ndarray[Any, np.dtype[np.int32]] | None
    width: int


class EdgeSums(NamedTuple):
    """Sums over the edges of groups, of products of two H-vectors.

    Attributes:
        left: H-vectors, as rows.
        left_index: For each edge, i_e.
        right: H-vectors, as rows.
        right_index: For each edge, j_e.
        weight: The weight of each edge.
        first: Where the edges of each group begin, (groups + 1,).
    """

    left: Tensor
    left_index: Indices
    right: Tensor
    right_index: Indices
    weight: np.ndarray[Any, np.dtype[np.float64]]
    first: Indices


class Backend(ABC):
    """The kernels. H-vectors are rows; indices are arrays of numpy."""

    @abstractmethod
    def class_sums(self, rows: Tensor, tiles: Tiles, low: int, high: int) -> Tensor:
        """Emissions summed over the tokens of the classes low..high-1, (high - low, H) float64."""

    @abstractmethod
    def accumulate(self, edges: EdgeSums) -> Tensor:
        """``y[g] = sum over e in first[g]..first[g+1]-1 of weight[e] * left[i_e] * right[j_e]``.

        Returns:
            (groups, H), in the type of ``left``.
        """

    @abstractmethod
    def scores(self, rows: Tensor, messages: Tensor, task: ScoreTask) -> Tensor:
        """``<rows[token], messages[group]>`` for each row and allowed token, -1 elsewhere.

        Args:
            rows: Emissions by token, (V, H), float32 or bfloat16 (or as the messages).
            messages: (groups, H).
            task: What to score.

        Returns:
            (k, width), in the type of the messages; sums are at least of float32.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def as_tensor(array: Any, like: Tensor) -> Tensor:
    """Return an array of numpy on the device of a tensor."""
    return torch.as_tensor(array, device=like.device)

"""Inputs for the kernels: classes of several sizes, groups with one and with many edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends import ScoreTask, Tiles

VOCAB_SIZE, NUM_HIDDEN, NUM_CLASSES = 61, 37, 7


def emissions(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(VOCAB_SIZE, NUM_HIDDEN, generator=generator).to(dtype)


def tiles() -> Tiles:
    rng = np.random.default_rng(1)
    chances = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]
    token_class = rng.choice(NUM_CLASSES - 1, VOCAB_SIZE, p=chances)
    token_class[0] = NUM_CLASSES - 1
    order = np.argsort(token_class, kind="stable")
    return Tiles(
        order, np.searchsorted(token_class[order], np.arange(NUM_CLASSES + 1)), token_class
    )


def accumulation(dtype: torch.dtype) -> tuple[Tensor, Any, Tensor, Any, Any, Any]:
    """Left rows, their indices, right rows, their indices, weights, and where groups begin."""
    rng = np.random.default_rng(2)
    left = torch.tensor(rng.random((4, NUM_HIDDEN)), dtype=torch.float32)
    right = torch.tensor(rng.random((6, NUM_HIDDEN)), dtype=torch.float32).to(dtype)
    first = np.array([0, 1, 4, 5, 12])
    weight = rng.random(12)
    return left, rng.integers(0, 4, 12), right, rng.integers(0, 6, 12), weight, first


def task(num_rows: int, listed: bool) -> tuple[ScoreTask, Tensor]:
    """What to score, and with which messages."""
    rng = np.random.default_rng(num_rows)
    cut = tiles()
    messages = torch.tensor(rng.random((3 * num_rows, NUM_HIDDEN)), dtype=torch.float32)
    group = rng.integers(-1, 3, (num_rows, NUM_CLASSES)).astype(np.int32)
    group[:, 1] = -1
    group[0, 0] = 0  # half of the vocabulary: a wide group
    group = np.where(group >= 0, group + 3 * np.arange(num_rows)[:, None], -1).astype(np.int32)
    taken = np.where(group >= 0, cut.size, 0)
    width = int(taken.sum(1).max()) + 2
    column = (np.cumsum(taken, 1) - taken).astype(np.int32)
    return ScoreTask(cut, group, column if listed else None, width if listed else VOCAB_SIZE), (
        messages
    )

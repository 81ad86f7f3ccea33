"""Compiled loops for CPUs, in float32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends import numba_kernels as kernels
from pcgcd.engine.backends.base import Backend, EdgeSums, ScoreTask, Tiles

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_ROWS_AT_A_TIME = 4096


class NumbaBackend(Backend):
    """Every emission that is needed is read once, in tiles of a few tokens and four prefixes."""

    def class_sums(self, rows: Tensor, tiles: Tiles, low: int, high: int) -> Tensor:
        result = torch.zeros(high - low, rows.shape[1], dtype=torch.float64)
        first = tiles.first[low : high + 1]
        if rows.dtype == torch.bfloat16:
            order = tiles.order[first[0] : first[-1]]
            for start in range(0, len(order), _ROWS_AT_A_TIME):
                end = min(start + _ROWS_AT_A_TIME, len(order))
                wide = rows[torch.from_numpy(order[start:end])].float()
                bounds = np.clip(first - first[0] - start, 0, end - start)
                kernels.class_sums(wide.numpy(), np.arange(end - start), bounds, result.numpy())
        else:
            kernels.class_sums(rows.numpy(), tiles.order, first, result.numpy())
        return result

    def accumulate(self, edges: EdgeSums) -> Tensor:
        left, left_index, right, right_index, weight, first = edges
        result = torch.zeros(len(first) - 1, left.shape[1])
        right, weight = right.float(), weight.astype(np.float32)
        kernels.accumulate(
            left.numpy(), left_index, right.numpy(), right_index, weight, first, result.numpy()
        )
        return result

    def scores(self, rows: Tensor, messages: Tensor, task: ScoreTask) -> Tensor:
        result = torch.full((len(task.group), task.width), -1.0)
        half = rows.dtype == torch.bfloat16
        emissions = (rows.view(torch.int16) if half else rows).numpy()
        tiles, out = task.tiles, result.numpy()
        if task.column is None:
            every = kernels.all_scores_bfloat16 if half else kernels.all_scores
            # Prefixes with many tokens side by side: four neighbours are computed together.
            order = np.argsort(-((task.group >= 0) @ tiles.size), kind="stable")
            every(emissions, messages.numpy(), tiles.token_class, task.group[order], out)
            if not np.array_equal(order, np.arange(len(order))):
                result = result[torch.from_numpy(np.argsort(order))]
        else:
            listed = kernels.listed_scores_bfloat16 if half else kernels.listed_scores
            listed(
                emissions,
                messages.numpy(),
                tiles.order,
                tiles.first,
                task.group,
                task.column,
                out,
            )
        return result

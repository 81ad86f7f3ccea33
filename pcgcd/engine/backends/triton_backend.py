"""Triton kernels for CUDA."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.packages import package
from pcgcd.engine.backends.base import EdgeSums, Tiles, as_tensor
from pcgcd.engine.backends.torch_backend import TorchBackend

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_BLOCK = 128


class TritonBackend(TorchBackend):
    """Fused sums and products; groups with much of the vocabulary are matrix products of torch."""

    def __init__(self) -> None:
        package("triton", "the engine on CUDA", "use backend='torch'")
        from pcgcd.engine.backends import triton_kernels

        self._kernels: Any = triton_kernels

    def class_sums(self, rows: Tensor, tiles: Tiles, low: int, high: int) -> Tensor:
        width = rows.shape[1]
        result = torch.zeros(high - low, width, dtype=torch.float64, device=rows.device)
        grid = (high - low, -(-width // _BLOCK))
        order, first = as_tensor(tiles.order, rows), as_tensor(tiles.first[low : high + 1], rows)
        self._kernels.class_sums[grid](rows, order, first, result, width, block=_BLOCK)
        return result

    def accumulate(self, edges: EdgeSums) -> Tensor:
        left, left_index, right, right_index, weight, first = edges
        width, groups = left.shape[1], len(first) - 1
        result = left.new_empty(groups, width)
        if groups:
            given = (left_index, right_index, weight.astype(np.float32), first)
            index = [as_tensor(array, left) for array in given]
            self._kernels.accumulate[(groups, -(-width // _BLOCK))](
                left.contiguous(), right.contiguous(), *index, result, width, block=_BLOCK
            )
        return result

    def _dots(self, rows: Tensor, tokens: Indices, messages: Tensor, groups: Indices) -> Tensor:
        result = messages.new_empty(len(tokens))
        if len(tokens):
            self._kernels.dots[(len(tokens),)](
                rows,
                as_tensor(tokens, rows),
                messages.contiguous(),
                as_tensor(groups, rows),
                result,
                rows.shape[1],
                block=_BLOCK,
            )
        return result

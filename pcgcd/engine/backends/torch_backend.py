"""The reference: a few torch operations, on any device."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.engine.backends.base import Backend, EdgeSums, ScoreTask, Tiles, as_tensor

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# How many elements of an intermediate result are written out at a time.
_CHUNK = 1 << 22
# A group with more than this part of the vocabulary is multiplied with all of it.
_WIDE = 1 / 3


class TorchBackend(Backend):
    """Gathers, sums and matrix products."""

    def class_sums(self, rows: Tensor, tiles: Tiles, low: int, high: int) -> Tensor:
        result = torch.zeros(high - low, rows.shape[1], dtype=torch.float64, device=rows.device)
        start, end = int(tiles.first[low]), int(tiles.first[high])
        for tokens in _chunks(tiles.order[start:end], rows.shape[1]):
            where = as_tensor(tiles.token_class[tokens] - low, rows)
            result.index_add_(0, where, rows[as_tensor(tokens, rows)].double())
        return result

    def accumulate(self, edges: EdgeSums) -> Tensor:
        left, left_index, right, right_index, weight, first = edges
        result = left.new_zeros(len(first) - 1, left.shape[1])
        group = np.repeat(np.arange(len(first) - 1), np.diff(first))
        for part in _chunks(np.arange(int(first[0]), int(first[-1])), left.shape[1]):
            terms = left[as_tensor(left_index[part], left)] * right[
                as_tensor(right_index[part], left)
            ].to(left.dtype)
            terms *= as_tensor(weight[part], left).to(left.dtype).unsqueeze(1)
            result.index_add_(0, as_tensor(group[part - int(first[0])], left), terms)
        return result

    def scores(self, rows: Tensor, messages: Tensor, task: ScoreTask) -> Tensor:
        tiles, result = task.tiles, messages.new_full((len(task.group), task.width), -1)
        wide = self._wide_groups(task, len(messages))
        products = self._whole_vocabulary(rows, messages[as_tensor(wide, rows)])
        place = np.full(len(messages), -1)
        place[wide] = np.arange(len(wide))
        for row, group in enumerate(task.group):
            by_token = group[tiles.token_class[tiles.order]]
            kept = np.flatnonzero(by_token >= 0)
            tokens, by_token = tiles.order[kept], by_token[kept].astype(np.int64)
            columns = tokens
            if task.column is not None:
                classes = tiles.token_class[tokens]
                columns = task.column[row, classes] + kept - tiles.first[classes]
            narrow = place[by_token] < 0
            values = messages.new_empty(len(tokens))
            values[as_tensor(narrow, rows)] = self._dots(
                rows, tokens[narrow], messages, by_token[narrow]
            )
            values[as_tensor(~narrow, rows)] = products[
                as_tensor(place[by_token[~narrow]], rows), as_tensor(tokens[~narrow], rows)
            ]
            result[row, as_tensor(columns, rows)] = values
        return result

    def _wide_groups(self, task: ScoreTask, count: int) -> Indices:
        size = np.zeros(count + 1, dtype=np.int64)
        for group in task.group:
            size += np.bincount(group + 1, task.tiles.size, count + 1).astype(np.int64)
        return np.flatnonzero(size[1:] > _WIDE * len(task.tiles.order))

    def _whole_vocabulary(self, rows: Tensor, messages: Tensor) -> Tensor:
        """The products of messages with every token, (messages, V)."""
        if rows.dtype == messages.dtype:
            return messages @ rows.mT
        result = messages.new_empty(len(messages), len(rows))
        step = max(1, _CHUNK // rows.shape[1])
        for low in range(0, len(rows) if len(messages) else 0, step):
            tile = rows[low : low + step].to(messages.dtype)
            torch.mm(messages, tile.mT, out=result[:, low : low + step])
        return result

    def _dots(self, rows: Tensor, tokens: Indices, messages: Tensor, groups: Indices) -> Tensor:
        """``y[i] = <rows[tokens[i]], messages[groups[i]]>``."""
        result = messages.new_empty(len(tokens))
        for chosen in _chunks(np.arange(len(tokens)), rows.shape[1]):
            row = rows[as_tensor(tokens[chosen], rows)].to(messages.dtype)
            message = messages[as_tensor(groups[chosen], rows)]
            result[chosen[0] : chosen[-1] + 1] = torch.linalg.vecdot(row, message)
        return result


def _chunks(indices: Indices, width: int) -> list[Indices]:
    step = max(1, _CHUNK // width)
    return [indices[low : low + step] for low in range(0, len(indices), step)]

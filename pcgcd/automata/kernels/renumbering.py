"""Edges of an automaton of which some states are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import sort_head
from pcgcd.automata.kernels.jit import compiled_if_large


@compiled_if_large()
def kept_edges(
    source: Any, target: Any, label: Any, number: Any, ends: Any, rank: Any, num_kept: int
) -> tuple[Any, Any]:
    """Return the edges between states that are kept, and those to the end, sorted.

    They are packed for :func:`split_edges`, so that what they are made from can go before.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        number: The new number of each state, or -1.
        ends: States that get an edge to the last state, with the last label.
        rank: The new number of each label.
        num_kept: How many states are kept, with the last one, which may be among those.

    Returns:
        Target and label of each edge in one number, by source and target; and where those of each
        source begin.
    """
    offsets = np.zeros(num_kept + 1, dtype=np.int64)
    for i in range(len(source)):
        if number[source[i]] >= 0 and number[target[i]] >= 0:
            offsets[number[source[i]] + 1] += 1
    for i in range(len(ends)):
        if number[ends[i]] >= 0:
            offsets[number[ends[i]] + 1] += 1
    widest = 0
    place = np.empty(num_kept, dtype=np.int64)
    for s in range(num_kept):
        widest = max(widest, offsets[s + 1])
        place[s] = offsets[s]
        offsets[s + 1] += offsets[s]
    # Each row is sorted by itself.
    keys = np.empty(offsets[num_kept], dtype=np.int64)
    for i in range(len(source)):
        s = number[source[i]]
        if s >= 0 and number[target[i]] >= 0:
            keys[place[s]] = np.int64(number[target[i]]) << 32 | rank[label[i]]
            place[s] += 1
    for i in range(len(ends)):
        s = number[ends[i]]
        if s >= 0:
            keys[place[s]] = np.int64(num_kept - 1) << 32 | rank[len(rank) - 1]
            place[s] += 1
    row = np.empty(widest, dtype=np.int64)
    for s in range(num_kept):
        begin, size = offsets[s], offsets[s + 1] - offsets[s]
        for i in range(size):
            row[i] = keys[begin + i]
        sort_head(row, size)
        for i in range(size):
            keys[begin + i] = row[i]
    return keys, offsets


@compiled_if_large()
def split_edges(keys: Any, offsets: Any) -> tuple[Any, Any]:
    """Return the source and the label of each edge; the keys become the targets."""
    source = np.empty(len(keys), dtype=np.int64)
    label = np.empty(len(keys), dtype=np.int64)
    for s in range(len(offsets) - 1):
        for i in range(offsets[s], offsets[s + 1]):
            source[i] = s
            label[i] = keys[i] & 0xFFFFFFFF
            keys[i] >>= 32
    return source, label

"""The prefix tree of sorted strings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.jit import compiled_if_large


class Nodes(NamedTuple):
    """A trie (Fredkin 1960, "Trie memory") in preorder.

    See :class:`pcgcd.automata.vocabulary.trie.Trie` for ``byte``, ``depth`` and ``end``, (N,),
    ``first_rank``, (N + 1,), ``below``, (N, 4), and ``start``, (256,).
    """

    byte: Any
    depth: Any
    end: Any
    first_rank: Any
    below: Any
    start: Any


@compiled_if_large(most=1_000_000)
def build_trie(flat: Any, offset: Any) -> Any:
    """Return the trie of sorted byte strings, string i being ``flat[offset[i]:offset[i + 1]]``.

    Neighbours in sorted order share the longest prefixes, so each string adds the nodes beyond what
    it shares with the one before, and in preorder. O(bytes).
    """
    count = len(offset) - 1
    shared = np.zeros(count, dtype=np.int64)
    num_nodes, longest = 1, 0
    for i in range(count):
        length = offset[i + 1] - offset[i]
        longest = max(longest, length)
        if i > 0:
            limit = min(length, offset[i] - offset[i - 1])
            while shared[i] < limit and (
                flat[offset[i] + shared[i]] == flat[offset[i - 1] + shared[i]]
            ):
                shared[i] += 1
        num_nodes += length - shared[i]
    byte = np.zeros(num_nodes, dtype=np.uint8)
    depth = np.zeros(num_nodes, dtype=np.int32)
    end = np.zeros(num_nodes, dtype=np.int32)
    parent = np.zeros(num_nodes, dtype=np.int32)
    first_rank = np.zeros(num_nodes + 1, dtype=np.int32)
    below = np.zeros((num_nodes, 4), dtype=np.uint64)
    path = np.zeros(longest + 1, dtype=np.int32)
    node, previous = 1, 0
    # Invariant: path holds the nodes of the string before; their ends are known only once a string
    # branches off above them.
    for i in range(count):
        for d in range(shared[i] + 1, previous + 1):
            end[path[d]] = node
        previous = offset[i + 1] - offset[i]
        for d in range(shared[i], previous):
            byte[node] = flat[offset[i] + d]
            depth[node] = d + 1
            parent[node] = path[d]
            first_rank[node] = i
            path[d + 1] = node
            node += 1
    for d in range(previous + 1):
        end[path[d]] = node
    first_rank[num_nodes] = count
    for node in range(num_nodes - 1, 0, -1):
        up, value = parent[node], byte[node]
        below[up, value >> 6] |= np.uint64(1) << np.uint64(value & 63)
        for w in range(4):
            below[up, w] |= below[node, w]
    start = np.zeros(256, dtype=np.int32)
    for node in range(num_nodes - 1, 0, -1):
        if depth[node] == 1:
            start[byte[node]] = node
    return Nodes(byte, depth, end, first_rank, below, start)

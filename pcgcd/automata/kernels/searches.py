"""Searching a graph."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.jit import Indices, Mask, compiled_if_large
from pcgcd.automata.limits import NEVER


@compiled_if_large()
def search(offsets: Indices, target: Indices, start: Mask) -> tuple[Indices, Indices]:
    """Breadth-first search (Moore 1959, "The shortest path through a maze") in O(S + E).

    Args:
        offsets: Where the edges of each state begin, (S + 1,).
        target: The target of each edge, (E,).
        start: The states to start from, (S,).

    Returns:
        The states that can be reached, in the order of the search, edges taken as they come; and
        the least number of steps to each state, or NEVER, (S,).
    """
    distance = np.full(len(start), NEVER, dtype=np.int64)
    queue = np.empty(len(start), dtype=np.int64)
    tail = 0
    for s in range(len(start)):
        if start[s]:
            distance[s] = 0
            queue[tail] = s
            tail += 1
    # Invariant: distances rise along the queue, by one at most; the states before i are done.
    i = 0
    while i < tail:
        s = queue[i]
        i += 1
        for e in range(offsets[s], offsets[s + 1]):
            if distance[target[e]] == NEVER:
                distance[target[e]] = distance[s] + 1
                queue[tail] = target[e]
                tail += 1
    return queue[:tail], distance

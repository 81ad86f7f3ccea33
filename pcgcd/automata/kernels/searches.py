"""Searching a graph."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.jit import Indices, Mask, compiled_if_large
from pcgcd.automata.limits import NEVER


@compiled_if_large(most=100_000)
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


@compiled_if_large()
def cheapest(offsets: Indices, target: Indices, cost: Indices, start: Mask) -> Indices:
    """Find the least cost of a way from the start to each state, or NEVER, (S,).

    Moore's search with a queue (1959), also known as Bellman-Ford: a state is looked at again when
    a cheaper way to it is found. Linear where all edges cost the same, as most of them do here.

    Args:
        offsets: Where the edges of each state begin, (S + 1,).
        target: The target of each edge, (E,).
        cost: The cost of each edge, at least one, (E,).
        start: The states to start from, (S,).
    """
    size = len(start)
    result = np.full(size, NEVER, dtype=np.int64)
    queue = np.empty(size, dtype=np.int64)
    queued = np.zeros(size, dtype=np.bool_)
    count = 0
    for s in range(size):
        if start[s]:
            result[s] = 0
            queue[count] = s
            queued[s] = True
            count += 1
    # Invariant: each state whose edges may still give a cheaper way is in the ring, once.
    head = 0
    while count:
        s = queue[head]
        head = (head + 1) % size
        count -= 1
        queued[s] = False
        for e in range(offsets[s], offsets[s + 1]):
            t = target[e]
            if result[s] + cost[e] < result[t]:
                result[t] = result[s] + cost[e]
                if not queued[t]:
                    queued[t] = True
                    queue[(head + count) % size] = t
                    count += 1
    return result

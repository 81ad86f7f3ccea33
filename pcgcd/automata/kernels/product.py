"""Pairs of states that move together."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.growing import head, mixed, wider, with_room
from pcgcd.automata.kernels.jit import Bits, Indices, compiled_if_large, compiled_part


@compiled_if_large()
def product(
    offsets1: Indices,
    target1: Indices,
    label1: Indices,
    offsets2: Indices,
    target2: Indices,
    label2: Indices,
    sets1: Bits,
    sets2: Bits,
    start: Indices,
    state_limit: int,
    work_limit: int,
) -> tuple[int, Indices, Indices, Indices, Indices]:
    """Return the pairs that can be reached from the starting pairs (p, q), coded as p * S2 + q.

    The direct product of Rabin & Scott (1959, "Finite automata and their decision problems"),
    breadth first, so that only pairs which can be reached are made. The time is linear in the pairs
    of edges looked at.

    Args:
        offsets1: Where the first automaton's edges begin for each state, (S1 + 1,).
        target1: Their targets, (E1,).
        label1: Their labels, (E1,).
        offsets2: The same of the second, (S2 + 1,).
        target2: See above, (E2,).
        label2: See above, (E2,).
        sets1: The sets of the first's labels, as bits, (L1, words).
        sets2: The second's, over the same classes, (L2, words).
        start: The codes of the starting pairs.
        state_limit: How many pairs to visit at most.
        work_limit: How many pairs of edges to visit at most.

    Returns:
        The number of pairs, or -1 if a limit was passed, their codes, then source, target and
        labels (l1, l2) of each edge, these coded as l1 * L2 + l2.
    """
    num2, words = len(offsets2) - 1, sets1.shape[1]
    codes, table = np.empty(1024, dtype=np.int64), np.full(4096, -1, dtype=np.int64)
    edges = np.empty((3, 1024), dtype=np.int64)  # source, target, label
    count = num_edges = work = 0
    current = -1
    # Round -1 enters the starting pairs, the others follow the edges of one pair each. Invariant:
    # the pairs before `current` have all their edges; `table` finds the number of every code.
    while current < count:
        begin1, end1, begin2, end2 = 0, 1, 0, len(start)
        if current >= 0:
            p, q = codes[current] // num2, codes[current] % num2
            begin1, end1 = offsets1[p], offsets1[p + 1]
            begin2, end2 = offsets2[q], offsets2[q + 1]
        work += (end1 - begin1) * (end2 - begin2)
        if work > work_limit:
            return -1, codes, edges[0], edges[1], edges[2]
        for e1 in range(begin1, end1):
            for e2 in range(begin2, end2):
                if current < 0:
                    code, label = start[e2], 0
                else:
                    a, b, w = label1[e1], label2[e2], 0
                    while w < words and sets1[a, w] & sets2[b, w] == 0:
                        w += 1
                    if w == words:
                        continue
                    code, label = target1[e1] * num2 + target2[e2], a * len(sets2) + b
                slot = _slot(code, codes, table)
                if table[slot] < 0:
                    if count >= state_limit:
                        return -1, codes, edges[0], edges[1], edges[2]
                    table[slot] = count
                    codes = with_room(codes, count + 1)
                    codes[count] = code
                    count += 1
                if current >= 0:
                    if num_edges == edges.shape[1]:
                        edges = wider(edges)
                    edges[0, num_edges] = current
                    edges[1, num_edges] = table[slot]
                    edges[2, num_edges] = label
                    num_edges += 1
                if 2 * count > len(table):
                    table = np.full(2 * len(table), -1, dtype=np.int64)
                    for i in range(count):
                        table[_slot(codes[i], codes, table)] = i
        current += 1
    return (
        count,
        head(codes, count),
        head(edges[0], num_edges),
        head(edges[1], num_edges),
        head(edges[2], num_edges),
    )


@compiled_part
def _slot(code: Any, codes: Any, table: Any) -> Any:
    """Return the place of a code in the table, or the first free one from its hash on."""
    slot = mixed(code, 0) & (len(table) - 1)
    while table[slot] >= 0 and codes[table[slot]] != code:
        slot = (slot + 1) & (len(table) - 1)
    return slot

"""Pairs of states that move together."""

from __future__ import annotations

import numpy as np

from pcgcd.automata.kernels.growing import grown, head, mixed
from pcgcd.automata.kernels.jit import Bits, Indices, compiled

__all__ = ["product"]


@compiled
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
    """The pairs that can be reached from the starting pairs (p, q), coded as p * S2 + q.

    Args:
        offsets1: The first automaton's edges by source, then their targets and labels.
        target1: See above.
        label1: See above.
        offsets2: The second's.
        target2: See above.
        label2: See above.
        sets1: The sets of the first's labels.
        sets2: The second's, over the same classes.
        start: The codes of the starting pairs.
        state_limit: How many pairs to visit at most.
        work_limit: How many pairs of edges to visit at most.

    Returns:
        The number of pairs, or -1 if a limit was passed, their codes, then source, target and
        labels (l1, l2) of each edge, these coded as l1 * L2 + l2.
    """
    num2 = len(offsets2) - 1
    codes = np.empty(max(1024, len(start)), dtype=np.int64)
    table = np.full(4096, -1, dtype=np.int64)
    out_source = np.empty(1024, dtype=np.int64)
    out_target = np.empty(1024, dtype=np.int64)
    out_label = np.empty(1024, dtype=np.int64)
    count = 0
    edges = 0
    work = 0
    current = -1
    # Round -1 enters the starting pairs, the others follow the edges of one pair each.
    while current < count:
        if current < 0:
            begin1, end1 = 0, 1
            begin2, end2 = 0, len(start)
        else:
            p, q = codes[current] // num2, codes[current] % num2
            begin1, end1 = offsets1[p], offsets1[p + 1]
            begin2, end2 = offsets2[q], offsets2[q + 1]
        work += (end1 - begin1) * (end2 - begin2)
        if work > work_limit:
            return -1, codes, out_source, out_target, out_label
        for e1 in range(begin1, end1):
            for e2 in range(begin2, end2):
                if current < 0:
                    code = start[e2]
                    label = 0
                else:
                    a, b = label1[e1], label2[e2]
                    common = False
                    for w in range(sets1.shape[1]):
                        if sets1[a, w] & sets2[b, w] != 0:
                            common = True
                            break
                    if not common:
                        continue
                    label = a * len(sets2) + b
                    code = target1[e1] * num2 + target2[e2]
                slot = mixed(code, 0) & (len(table) - 1)
                while table[slot] >= 0 and codes[table[slot]] != code:
                    slot = (slot + 1) & (len(table) - 1)
                found = table[slot]
                if found < 0:
                    if count >= state_limit:
                        return -1, codes, out_source, out_target, out_label
                    found = count
                    if count == len(codes):
                        codes = grown(codes)
                    codes[count] = code
                    table[slot] = count
                    count += 1
                    if 2 * count > len(table):
                        table = np.full(2 * len(table), -1, dtype=np.int64)
                        for i in range(count):
                            slot = mixed(codes[i], 0) & (len(table) - 1)
                            while table[slot] >= 0:
                                slot = (slot + 1) & (len(table) - 1)
                            table[slot] = i
                if current >= 0:
                    if edges == len(out_source):
                        out_source = grown(out_source)
                        out_target = grown(out_target)
                        out_label = grown(out_label)
                    out_source[edges] = current
                    out_target[edges] = found
                    out_label[edges] = label
                    edges += 1
        current += 1
    return (
        count,
        head(codes, count),
        head(out_source, edges),
        head(out_target, edges),
        head(out_label, edges),
    )

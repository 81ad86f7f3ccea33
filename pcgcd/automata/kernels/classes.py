"""Classes of equivalent tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import compiled_if_large


@compiled_if_large(most=100_000)
def split_cells(first: Any, bounds: Any, num_cells: Any) -> Any:
    """Return the coarsest classes of cells that no list tells apart, and the classes in each list.

    Partition refinement (Paige & Tarjan 1987, "Three partition refinement algorithms"; Habib, Paul
    & Viennot 1999, "Partition refinement techniques"): each list splits the classes that it meets
    but does not hold. O(cells in all lists).

    Args:
        first: Where each list begins in ``bounds``, (lists + 1,).
        bounds: The bounds (low, high) of the intervals of cells in each list, in turn.
        num_cells: How many cells there are.

    Returns:
        The class of each cell, (cells,), and which classes are in each list, (lists, classes).
    """
    group = np.zeros(num_cells, dtype=np.int64)
    size = np.zeros(num_cells + 1, dtype=np.int64)
    inside = np.zeros(num_cells + 1, dtype=np.int64)
    fresh = np.zeros(num_cells + 1, dtype=np.int64)
    touched = np.empty(num_cells + 1, dtype=np.int64)
    size[0] = num_cells
    count = 1
    # Invariant: cells are in one class iff the lists before this one do not tell them apart; size
    # is right, and inside and fresh are zero.
    for item in range(len(first) - 1):
        num_touched = 0
        for pair in range(first[item], first[item + 1], 2):
            for cell in range(bounds[pair], bounds[pair + 1]):
                if inside[group[cell]] == 0:
                    touched[num_touched] = group[cell]
                    num_touched += 1
                inside[group[cell]] += 1
        for pair in range(first[item], first[item + 1], 2):
            for cell in range(bounds[pair], bounds[pair + 1]):
                old = group[cell]
                if inside[old] != size[old]:
                    if fresh[old] == 0:
                        fresh[old] = count
                        count += 1
                    group[cell] = fresh[old]
        for i in range(num_touched):
            old = touched[i]
            if fresh[old]:
                size[fresh[old]] = inside[old]
                size[old] -= inside[old]
                fresh[old] = 0
            inside[old] = 0
    members = np.zeros((len(first) - 1, count), dtype=np.bool_)
    for item in range(len(first) - 1):
        for pair in range(first[item], first[item + 1], 2):
            for cell in range(bounds[pair], bounds[pair + 1]):
                members[item, group[cell]] = True
    return group, members

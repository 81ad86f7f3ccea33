"""Classes of equivalent tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.growing import head
from pcgcd.automata.kernels.jit import Bits, Indices, compiled_if_large, in_place


class _Cells(NamedTuple):
    """Lists of cells, and the classes so far.

    For ``first`` and ``bounds`` see :func:`split_cells`. ``group`` is the class of each cell;
    ``size`` that of each class, ``inside`` how much of it is in the list that is looked at, and
    ``fresh`` the class that this part becomes; ``touched`` are the classes with such a part.
    """

    first: Any
    bounds: Any
    group: Any
    size: Any
    inside: Any
    fresh: Any
    touched: Any


def split_cells(first: Any, bounds: Any, num_cells: int) -> tuple[Any, Any]:
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
    cells = _Cells(first, bounds, *np.zeros((5, num_cells + 1), dtype=np.int64))
    cells.size[0] = num_cells
    count = _refine(cells)
    members = np.zeros((len(first) - 1, count), dtype=np.bool_)
    _write_members(cells, members)
    return cells.group[:num_cells], members


def _num_cells(cells: Any, *_: Any) -> int:
    return int(cells.bounds[1::2].sum() - cells.bounds[::2].sum())


@compiled_if_large(_num_cells, most=500_000, in_place=True)
def _refine(cells: Any) -> Any:
    """Split the classes by each list in turn; how many there are then."""
    first, bounds, group, size = cells.first, cells.bounds, cells.group, cells.size
    inside, fresh, touched = cells.inside, cells.fresh, cells.touched
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
    return count


@compiled_if_large(_num_cells, most=500_000, in_place=True)
def _write_members(cells: Any, members: Any) -> None:
    """Write which classes are in each list: all of their cells are."""
    first, bounds, group = cells.first, cells.bounds, cells.group
    for item in range(len(first) - 1):
        for pair in range(first[item], first[item + 1], 2):
            for cell in range(bounds[pair], bounds[pair + 1]):
                members[item, group[cell]] = True


@compiled_if_large()
def classes_of_labels(
    label: Indices, rows: Bits, num_tokens: int
) -> tuple[Indices, Bits, int, Indices]:
    """Write labels over the fewest classes of tokens that no label tells apart.

    Args:
        label: The label of each edge, (E,): below 256 a token by itself, from there on a row.
        rows: The tokens of the other labels as bits, (rows, words).
        num_tokens: How many tokens there are, at least 256.

    Returns:
        The label of each edge, numbered as they come; the classes of these as bits; the number of
        classes, which are in the order of their first tokens; the class of each token.
    """
    number = np.full(256 + len(rows), -1, dtype=np.int64)
    first = np.zeros(len(number) + 1, dtype=np.int64)
    bounds = np.empty(2 * 256 + (num_tokens + 1) * len(rows), dtype=np.int64)
    numbered = np.empty(len(label), dtype=np.int64)
    count = 0
    for e in range(len(label)):
        a = label[e]
        if number[a] < 0:
            number[a] = count
            first[count + 1] = _intervals(a, rows, bounds, first[count], num_tokens)
            count += 1
        numbered[e] = number[a]
    room = np.zeros((5, num_tokens + 1), dtype=np.int64)
    group = room[0]
    cells = _Cells(head(first, count + 1), bounds, group, room[1], room[2], room[3], room[4])
    cells.size[0] = num_tokens
    num_classes = _refine(cells)
    order = np.full(num_classes, -1, dtype=np.int64)
    found = 0
    for token in range(num_tokens):
        if order[group[token]] < 0:
            order[group[token]] = found
            found += 1
        group[token] = order[group[token]]
    sets = np.zeros((count, max(1, (num_classes + 63) // 64)), dtype=np.int64)
    for a in range(count):
        for pair in range(first[a], first[a + 1], 2):
            for token in range(bounds[pair], bounds[pair + 1]):
                sets[a, group[token] >> 6] |= np.int64(1) << (group[token] & 63)
    return numbered, sets, num_classes, head(group, num_tokens)


@in_place
def _intervals(label: Any, rows: Any, bounds: Any, place: Any, num_tokens: Any) -> Any:
    """Write the intervals of the tokens of a label from a place on; the place behind them."""
    if label < 256:
        bounds[place], bounds[place + 1] = label, label + 1
        return place + 2
    inside = False
    for w in range(rows.shape[1]):
        word = rows[label - 256, w]
        if word == (-1 if inside else 0):
            continue
        for token in range(64 * w, min(64 * w + 64, num_tokens)):
            if (word >> (token & 63) & 1 == 1) != inside:
                inside = not inside
                bounds[place] = token
                place += 1
    if inside:
        bounds[place] = num_tokens
        place += 1
    return place

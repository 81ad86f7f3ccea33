"""Compiled loops against a few lines of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from pcgcd.automata.graphs import Graph
from pcgcd.automata.kernels.classes import split_cells
from pcgcd.automata.kernels.growing import sort_head
from pcgcd.automata.kernels.lists import intern_list, new_lists, reserved
from pcgcd.automata.kernels.tables import steps_to_accept
from pcgcd.automata.limits import NEVER

NUM_STATES = 6
STATES = st.integers(0, NUM_STATES - 1)
EDGES = st.lists(st.tuples(STATES, STATES), max_size=12)


# Python itself cannot call what is compiled as a part of other loops.
@njit
def interned(lists: Any, items: Any) -> Any:
    return intern_list(lists, items, 0, len(items))


@njit
def sort_first(array: Any, count: int) -> None:
    sort_head(array, count)


@given(EDGES, st.sets(STATES))
def test_steps_to_accept_are_shortest_ways(edges: list[tuple[int, int]], goals: set[int]) -> None:
    """Bellman's recursion; also with read-only arrays and short integers."""
    expected = [0 if s in goals else NEVER for s in range(NUM_STATES)]
    for _ in range(NUM_STATES):
        for s, t in edges:
            expected[s] = min(expected[s], expected[t] + 1)
    expected = [min(steps, NEVER) for steps in expected]
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)
    accepting = np.array([s in goals for s in range(NUM_STATES)])
    pairs.flags.writeable = accepting.flags.writeable = False
    assert steps_to_accept(pairs[:, 0], pairs[:, 1], accepting).tolist() == expected


@given(st.lists(st.lists(st.integers(-3, 3), max_size=4)))
def test_equal_lists_get_equal_numbers(items: list[list[int]]) -> None:
    lists, numbers = new_lists(2, 4), []
    for item in items:
        lists = reserved(lists, len(item))
        numbers.append(interned(lists, np.array(item, dtype=np.int32)))
    distinct = list(dict.fromkeys(map(tuple, items)))
    assert numbers == [distinct.index(tuple(item)) for item in items]
    for number, item in enumerate(distinct):
        assert tuple(lists.pool[lists.first[number] : lists.first[number + 1]]) == item


@given(st.lists(st.integers(-100, 100), max_size=80), st.integers(0, 80))
def test_sort_head_sorts_only_the_head(values: list[int], count: int) -> None:
    count = min(count, len(values))
    array = np.array(values, dtype=np.int32)
    sort_first(array, count)
    assert array.tolist() == sorted(values[:count]) + values[count:]


@given(st.lists(st.sets(st.integers(0, 7)), max_size=6))
def test_cells_share_a_class_iff_no_list_tells_them_apart(lists: list[set[int]]) -> None:
    bounds: list[int] = []
    first = [0]
    for cells in lists:
        for cell in sorted(cells):
            bounds += [cell, cell + 1]
        first.append(len(bounds))
    found, members = split_cells(np.array(first), np.array(bounds, dtype=np.int64), 8)
    kinds = [tuple(cell in cells for cells in lists) for cell in range(8)]
    assert all((found[a] == found[b]) == (kinds[a] == kinds[b]) for a in range(8) for b in range(8))
    assert [tuple(row) for row in members[:, found].T] == kinds


def _one_third_from_the_end() -> Graph:
    """Strings of zeros and ones with a one at the third place from the end: 8 sets of states."""
    states = np.arange(4)
    return Graph(
        num_states=4,
        source=np.array([0, 0, 1, 2]),
        target=np.array([0, 1, 2, 3]),
        label=np.array([0, 1, 0, 0]),
        sets=np.array([[0b11], [0b10]]),
        num_classes=2,
        token_class=np.array([0, 1]),
        initial=states == 0,
        accepting=states == 3,
    )


@pytest.mark.parametrize("limit", [7, 8])
def test_the_limit_of_states_is_the_last_number_allowed(limit: int) -> None:
    found = _one_third_from_the_end().determinized(limit)
    assert (found is None) == (limit < 8)
    assert found is None or found.num_states == 8

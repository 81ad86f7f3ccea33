"""Named tuples of arrays mean the same to compiled loops as to Python."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from pcgcd.automata.kernels.jit import always_compiled, compiled_if_large


class Inner(NamedTuple):
    numbers: Any
    flags: Any


class Outer(NamedTuple):
    table: Any
    inner: Any
    out: Any


@compiled_if_large(in_place=True)
def mixed_up(given: Any, factor: Any) -> Any:
    table, numbers, flags = given.table, given.inner.numbers, given.inner.flags
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            if flags[numbers[i]]:
                given.out[i, j] = factor * table[i, j]
                flags[j] = not flags[j]
    return len(numbers) + table[0, 1]


def example(seed: int, dtype: type = np.float32) -> Outer:
    random = np.random.default_rng(seed)
    rows, columns = 2 + seed, 3 + seed
    numbers = random.integers(0, columns, rows).astype(np.int32)
    flags = random.random(columns) < 0.5
    flags[numbers[0]] = True
    table = (1 + 9 * random.random((rows, columns))).astype(dtype)
    return Outer(table, Inner(numbers, flags), np.zeros((rows, columns), dtype=np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_loop_finds_its_arrays_where_python_does(dtype: type) -> None:
    with always_compiled():
        for seed in (0, 1, 2):
            given, expected = example(seed, dtype), example(seed, dtype)
            want = mixed_up.dispatcher.py_func(expected, 1000)  # type: ignore[attr-defined]
            assert mixed_up(given, 1000) == want
            np.testing.assert_array_equal(given.out, expected.out)
            np.testing.assert_array_equal(given.inner.flags, expected.inner.flags)
            assert given.out.any()


def test_other_arrays_in_an_equal_tuple_are_noticed() -> None:
    with always_compiled():
        given = example(1)
        mixed_up(given, 1)
        before = given.inner.flags.copy()
        again = given._replace(inner=given.inner._replace(flags=np.ones(4, dtype=np.bool_)))
        mixed_up(again, 1)
    assert not again.inner.flags.all()
    np.testing.assert_array_equal(given.inner.flags, before)


def test_what_a_loop_was_given_is_not_kept() -> None:
    with always_compiled():
        given = example(1)
        known = weakref.ref(given.table)
        mixed_up(given, 1)
    del given
    gc.collect()
    assert known() is None


def test_arrays_with_gaps_are_refused() -> None:
    given = example(1)
    with pytest.raises(ValueError, match="table must be contiguous"), always_compiled():
        mixed_up(given._replace(table=given.table.T), 1)

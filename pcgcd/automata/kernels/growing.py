"""Arrays that grow, hashes and a sort: small helpers that are compiled once for all other loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import Bits, Indices, compiled_part, in_place


@compiled_part
def with_room(array: Any, needed: Any) -> Any:
    """Return the array, or a copy with twice the room that is needed."""
    if needed <= len(array):
        return array
    larger = np.empty(2 * needed, dtype=array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@compiled_part
def wider(array: Any) -> Any:
    """Return a copy with twice as many columns: the rows are lists that grow together."""
    rows, columns = array.shape
    result = np.empty((rows, 2 * columns), dtype=array.dtype)
    for r in range(rows):
        for i in range(columns):
            result[r, i] = array[r, i]
    return result


@compiled_part
def grown_rows(array: Bits) -> Bits:
    """Return a copy with twice as many rows, the new ones zero."""
    result = np.zeros((2 * array.shape[0], array.shape[1]), dtype=np.int64)
    for i in range(array.shape[0]):
        for w in range(array.shape[1]):
            result[i, w] = array[i, w]
    return result


@compiled_part
def head(array: Indices, count: int) -> Indices:
    """Return a copy of the first elements."""
    result = np.empty(count, dtype=np.int64)
    for i in range(count):
        result[i] = array[i]
    return result


@compiled_part
def head_rows(array: Bits, count: int) -> Bits:
    """Return a copy of the first rows."""
    result = np.empty((count, array.shape[1]), dtype=np.int64)
    for i in range(count):
        for w in range(array.shape[1]):
            result[i, w] = array[i, w]
    return result


@in_place
def mixed(value: Any, more: Any) -> Any:
    """Hash a hash and one more number: multiply by an odd number, fold the high bits down."""
    value = (value ^ more) * np.int64(0x1CE4E5B9BF58476D)
    return value ^ ((value >> 29) & np.int64(0x7FFFFFFFF))


@in_place
def span_hash(array: Indices, begin: int, end: int) -> Any:
    """Return a hash of some neighbouring elements, not negative."""
    value = np.int64(1469598103934665603)
    for i in range(begin, end):
        value = mixed(value, array[i])
    value = mixed(value, end - begin)
    return value & np.int64(0x7FFFFFFFFFFFFFFF)


@in_place
def sort_head(array: Any, count: int) -> None:
    """Sort the first elements in place, in O(n log n): by insertion if they are few, else heapsort.

    Heapsort: Williams 1964, "Algorithm 232", with Floyd's way to make the heap ("Algorithm 245:
    Treesort 3", 1964).
    """
    if count <= 24:
        for i in range(1, count):
            value = array[i]
            k = i - 1
            while k >= 0 and array[k] > value:
                array[k + 1] = array[k]
                k -= 1
            array[k + 1] = value
        return
    start = count // 2
    end = count
    # Invariant: from `start` on, no element before `end` is smaller than its children, 2i + 1 and
    # 2i + 2; from `end` on, all are in their final places.
    while end > 1:
        if start > 0:
            start -= 1
            value = array[start]
        else:
            end -= 1
            value = array[end]
            array[end] = array[0]
        root = start
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and array[child + 1] > array[child]:
                child += 1
            if array[child] <= value:
                break
            array[root] = array[child]
            root = child
        array[root] = value

"""A pool of lists of integers in which equal lists get equal numbers.

Hash consing (Ershov 1958, "On programming of arithmetic operations") in a table with linear
probing: sets of states, pairs of states and sets of tokens are compared once, and then by number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.kernels.jit import compiled_if_large, in_place, one


class Lists(NamedTuple):
    """Lists in one pool: list i is ``pool[first[i]:first[i + 1]]``, and ``key[i]`` is its hash.

    ``total`` (1,) holds the number of lists. ``table`` holds the number of a list at the first free
    place from its hash on, and -1 elsewhere; at most half of it is in use. Before a list is added,
    :func:`reserved` makes room.
    """

    first: Any
    pool: Any
    key: Any
    table: Any
    total: Any


@compiled_if_large(one)  # it only makes arrays
def new_lists(most: Any, length: Any) -> Any:
    """No lists, with room for ``most`` (a power of two) of that length in all."""
    table = np.empty(2 * most, dtype=np.int64)
    for slot in range(len(table)):
        table[slot] = -1
    return Lists(
        np.zeros(most, dtype=np.int64),
        np.empty(length, dtype=np.int32),
        np.empty(most, dtype=np.uint64),
        table,
        np.zeros(1, dtype=np.int64),
    )


def _num_lists(lists: Any, length: Any) -> int:
    return int(lists.total[0])


@compiled_if_large(_num_lists)
def reserved(lists: Any, length: Any) -> Any:
    """Return the same lists with room for one more of the given length."""
    first, pool, key, table = lists.first, lists.pool, lists.key, lists.table
    count = lists.total[0]
    used = first[count]
    if used + length > len(pool):
        pool = np.empty(2 * (used + length), dtype=np.int32)
        for i in range(used):
            pool[i] = lists.pool[i]
    if count + 2 > len(first):
        first = np.empty(2 * len(first), dtype=np.int64)
        key = np.empty(len(first), dtype=np.uint64)
        for i in range(count):
            first[i] = lists.first[i]
            key[i] = lists.key[i]
        first[count] = used
    if 2 * (count + 1) > len(table):
        table = np.empty(4 * len(table), dtype=np.int64)
        for slot in range(len(table)):
            table[slot] = -1
        size = np.uint64(len(table) - 1)
        for i in range(count):
            place = key[i] & size
            while table[place] >= 0:
                place = (place + np.uint64(1)) & size
            table[place] = i
    return Lists(first, pool, key, table, lists.total)


@in_place
def has_room(lists: Any, length: Any) -> Any:
    """Return whether there is room for one more list, for loops that cannot reserve it."""
    count = lists.total[0]
    return (
        lists.first[count] + length <= len(lists.pool)
        and count + 2 <= len(lists.first)
        and 2 * (count + 1) <= len(lists.table)
    )


@in_place
def close_list(lists: Any, length: Any) -> None:
    """Add what was written behind the last list, whether or not there is an equal one."""
    count = lists.total[0]
    lists.first[count + 1] = lists.first[count] + length
    lists.total[0] = count + 1


@in_place
def intern_list(lists: Any, items: Any, start: Any, stop: Any) -> Any:
    """Return the number of the list ``items[start:stop]``, a new one if there is none equal to it.

    O(length) expected. The hash multiplies by 2^64 / golden ratio (Knuth, "The Art of Computer
    Programming" 6.4).
    """
    key = np.uint64(stop - start)
    for i in range(start, stop):
        key = (key ^ np.uint64(items[i])) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    size = np.uint64(len(lists.table) - 1)
    place = key & size
    while lists.table[place] >= 0:
        other = lists.table[place]
        begin = lists.first[other]
        if lists.key[other] == key and lists.first[other + 1] - begin == stop - start:
            equal = True
            for i in range(stop - start):
                if lists.pool[begin + i] != items[start + i]:
                    equal = False
                    break
            if equal:
                return other
        place = (place + np.uint64(1)) & size
    count = lists.total[0]
    begin = lists.first[count]
    for i in range(stop - start):
        lists.pool[begin + i] = items[start + i]
    lists.first[count + 1] = begin + stop - start
    lists.key[count] = key
    lists.table[place] = count
    lists.total[0] = count + 1
    return count

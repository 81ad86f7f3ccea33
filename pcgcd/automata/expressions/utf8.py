"""Sets of Unicode characters, as ranges of code points and as expressions over UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    ByteSet,
    Expression,
    concatenation,
    union,
)

Ranges: TypeAlias = tuple[tuple[int, int], ...]
Branch: TypeAlias = tuple[int, int, Ranges]

MAX_CODE_POINT = 0x10FFFF
EVERYTHING: Ranges = ((0, MAX_CODE_POINT),)
_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
# First code point, last code point, first byte before its bits, and following bytes of each length.
_LENGTHS = (
    (0x0, 0x7F, 0x00, 0),
    (0x80, 0x7FF, 0xC0, 1),
    (0x800, 0xFFFF, 0xE0, 2),
    (0x10000, MAX_CODE_POINT, 0xF0, 3),
)


# -- ranges -------------------------------------------------------------------------------------


def normalise_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint, not touching.

    >>> normalise_ranges([(5, 9), (1, 3), (4, 4)])
    ((1, 9),)
    """
    result: list[tuple[int, int]] = []
    for first, last in sorted((a, b) for a, b in ranges if a <= b):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return tuple(result)


def complement_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All other code points.

    >>> complement_ranges([(0, 64), (91, 0x10FFFF)])
    ((65, 90),)
    """
    result, start = [], 0
    for first, last in normalise_ranges(ranges):
        if start < first:
            result.append((start, first - 1))
        start = last + 1
    if start <= MAX_CODE_POINT:
        result.append((start, MAX_CODE_POINT))
    return tuple(result)


def intersect_ranges(first: Ranges, second: Ranges) -> Ranges:
    """The characters in both; each is normalised.

    >>> intersect_ranges(((1, 5), (9, 12)), ((4, 10),))
    ((4, 5), (9, 10))
    """
    result = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            result.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def subtract_ranges(ranges: Ranges, removed: Ranges) -> Ranges:
    """The characters of the first that are not in the second.

    >>> subtract_ranges(((1, 9),), ((4, 5),))
    ((1, 3), (6, 9))
    """
    return intersect_ranges(ranges, complement_ranges(removed))


# -- bytes --------------------------------------------------------------------------------------


def lead_bytes(ranges: Ranges) -> list[Branch]:
    """Branches (first bytes as 256 bits, number of bytes to come, their values).

    The values of the k bytes to come are ranges within 0 .. 64 ** k - 1, six bits a byte.
    Surrogates have no UTF-8 and are left out.
    """
    branches: list[Branch] = []
    allowed = subtract_ranges(ranges, _SURROGATES)
    for first, last, mark, more in _LENGTHS:
        here = intersect_ranges(allowed, ((first, last),))
        branches += _split(here, mark, more)
    return branches


def later_bytes(values: Ranges, more: int) -> list[Branch]:
    """The branches of the next of ``more`` following bytes."""
    return _split(values, 0x80, more - 1)


def _split(values: Ranges, mark: int, more: int) -> list[Branch]:
    """Group the leading parts of values by what may follow them."""
    block = 1 << 6 * more
    rests: dict[int, list[tuple[int, int]]] = {}
    masks: dict[Ranges, int] = {}
    for first, last in values:
        low, high = first // block, last // block
        if low == high:
            rests.setdefault(low, []).append((first % block, last % block))
            continue
        rests.setdefault(low, []).append((first % block, block - 1))
        for lead in range(low + 1, high):
            rests[lead] = [(0, block - 1)]
        rests.setdefault(high, []).append((0, last % block))
    for lead, rest in rests.items():
        key = tuple(rest)
        masks[key] = masks.get(key, 0) | 1 << mark + lead
    return [(mask, more, rest) for rest, mask in masks.items()]


def character_set(ranges: Iterable[tuple[int, int]]) -> Expression:
    """One character of the given code point ranges, in as few byte sets as equal endings allow.

    >>> character_set([(0x61, 0x7A)]).size
    2
    >>> character_set([(0xD800, 0xDFFF)]) == NOTHING
    True
    """
    return _character_set(normalise_ranges(ranges))


@lru_cache(maxsize=1024)
def _character_set(ranges: Ranges) -> Expression:
    return _union_of(lead_bytes(ranges), {})


def _union_of(branches: list[Branch], known: dict[tuple[int, Ranges], Expression]) -> Expression:
    options = []
    for mask, more, rest in branches:
        if (more, rest) not in known:
            known[more, rest] = _union_of(later_bytes(rest, more), known) if more else EMPTY_STRING
        options.append(concatenation(ByteSet(mask), known[more, rest]))
    return union(*options) if options else NOTHING


ANY_CHARACTER: Expression = character_set(EVERYTHING)

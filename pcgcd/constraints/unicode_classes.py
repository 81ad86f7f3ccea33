r"""Sets of Unicode characters: ``\w``, ``\d``, ``\s``, case, and their shape in UTF-8.

What a class holds is asked of Python's own :mod:`re`, so that the two cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    ByteSet,
    Expression,
    concatenation,
    union,
)
from pcgcd.automata.utf8 import complement_ranges, normalise_ranges

__all__ = [
    "EVERYTHING",
    "Ranges",
    "category",
    "character_expression",
    "intersect",
    "lead_bytes",
    "normalised",
    "other_bytes",
    "with_case",
    "without",
]

Ranges: TypeAlias = tuple[tuple[int, int], ...]
Branch: TypeAlias = tuple[int, int, Ranges]

EVERYTHING: Ranges = ((0, 0x10FFFF),)
_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
_CODE_POINTS = 0x110000
# First code point, last code point, first byte before its bits, and following bytes of each length.
_LENGTHS = (
    (0x0, 0x7F, 0x00, 0),
    (0x80, 0x7FF, 0xC0, 1),
    (0x800, 0xFFFF, 0xE0, 2),
    (0x10000, 0x10FFFF, 0xF0, 3),
)


def normalised(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint, not touching."""
    return tuple(normalise_ranges(ranges))


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """The characters of the first that are not in the second."""
    return intersect(ranges, tuple(complement_ranges(removed)))


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """The characters in both.

    >>> intersect(((1, 5), (9, 12)), ((4, 10),))
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


# -- what Python says ---------------------------------------------------------------------------


def _all_characters() -> str:
    return np.arange(_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def category(letter: str, ascii_only: bool = False) -> Ranges:
    r"""The characters of ``\w``, ``\d``, ``\s`` or (in capitals) of their negations.

    >>> category("d", ascii_only=True)
    ((48, 57),)
    """
    if letter.isupper():
        return without(EVERYTHING, category(letter.lower(), ascii_only))
    text = "".join(map(chr, range(128))) if ascii_only else _all_characters()
    found = re.finditer(rf"\{letter}+", text, re.ASCII if ascii_only else 0)
    return tuple((match.start(), match.end() - 1) for match in found)


@cache
def _cased() -> tuple[str, Ranges]:
    """Every character that has, or is, another case; others are the same in any case."""
    members: set[str] = set()
    for start in range(0, _CODE_POINTS, 256):
        block = "".join(map(chr, range(start, start + 256)))
        for change in (str.lower, str.upper, str.casefold, str.title):
            if change(block) != block:
                for character in block:
                    other = change(character)
                    if other != character:
                        members.update((character, *other))
    text = "".join(sorted(members))
    return text, normalised((ord(character), ord(character)) for character in text)


def with_case(pattern: str, plain: Ranges, ascii_only: bool) -> Ranges:
    """The characters that a one-character pattern matches when case is ignored.

    Args:
        pattern: The pattern, such as ``[a-z]``.
        plain: The characters it matches when case matters.
        ascii_only: Whether the flag ``a`` is set.
    """
    text, cased = _cased()
    found = re.findall(pattern, text, re.IGNORECASE | (re.ASCII if ascii_only else 0))
    return normalised([*without(plain, cased), *((ord(each), ord(each)) for each in found)])


# -- UTF-8 --------------------------------------------------------------------------------------


def lead_bytes(ranges: Ranges) -> list[Branch]:
    """Branches (first bytes as 256 bits, number of bytes to come, their values).

    The values of the k bytes to come are ranges within 0 .. 64 ** k - 1, six bits a byte.
    """
    branches: list[Branch] = []
    allowed = without(ranges, _SURROGATES)
    for first, last, mark, more in _LENGTHS:
        here = intersect(allowed, ((first, last),))
        branches += _split(here, mark, more)
    return branches


def other_bytes(values: Ranges, more: int) -> list[Branch]:
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


@lru_cache(maxsize=1024)
def character_expression(ranges: Ranges) -> Expression:
    """One character of the ranges, as few bytes sets as equal endings allow.

    >>> character_expression(((0x61, 0x7A),)).size
    2
    """
    return _union_of(lead_bytes(ranges), {})


def _union_of(branches: list[Branch], known: dict[tuple[int, Ranges], Expression]) -> Expression:
    options = []
    for mask, more, rest in branches:
        if (more, rest) not in known:
            known[more, rest] = _union_of(other_bytes(rest, more), known) if more else EMPTY_STRING
        options.append(concatenation(ByteSet(mask), known[more, rest]))
    return union(*options) if options else NOTHING

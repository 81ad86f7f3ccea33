"""Sets of Unicode characters as expressions over their UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Iterable

from pcgcd.automata.expressions import (
    NOTHING,
    Expression,
    byte_range,
    concatenation,
    union,
)

__all__ = ["ANY_CHARACTER", "character_set", "complement_ranges", "normalise_ranges"]

MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
# The last code point that is encoded in 1, 2, 3 and 4 bytes.
_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, MAX_CODE_POINT)


def normalise_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, disjoint, not touching.

    >>> normalise_ranges([(5, 9), (1, 3), (4, 4)])
    [(1, 9)]
    """
    result: list[tuple[int, int]] = []
    for first, last in sorted((a, b) for a, b in ranges if a <= b):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def complement_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """All other code points.

    >>> complement_ranges([(0, 64), (91, 0x10FFFF)])
    [(65, 90)]
    """
    result, start = [], 0
    for first, last in normalise_ranges(ranges):
        if start < first:
            result.append((start, first - 1))
        start = last + 1
    if start <= MAX_CODE_POINT:
        result.append((start, MAX_CODE_POINT))
    return result


def character_set(ranges: Iterable[tuple[int, int]]) -> Expression:
    """One character of the given code point ranges; surrogates have no UTF-8 and are left out.

    >>> character_set([(0x61, 0x7A)]) == byte_range(0x61, 0x7A)
    True
    """
    options = []
    allowed = complement_ranges([*complement_ranges(ranges), _SURROGATES])
    for first, last in allowed:
        start = first
        for limit in _LAST_OF_LENGTH:
            if start > last:
                break
            if start <= limit:
                end = min(last, limit)
                options += _byte_sequences(_encode(start), _encode(end))
                start = end + 1
    return union(*options) if options else NOTHING


def _encode(code_point: int) -> bytes:
    return chr(code_point).encode("utf-8", "surrogatepass")


def _byte_sequences(first: bytes, last: bytes) -> list[Expression]:
    """All encodings of one length between two, as sequences of byte ranges."""
    if len(first) == 1:
        return [byte_range(first[0], last[0])]
    if first[0] == last[0]:
        head = byte_range(first[0], first[0])
        return [concatenation(head, tail) for tail in _byte_sequences(first[1:], last[1:])]
    low, high = b"\x80" * (len(first) - 1), b"\xbf" * (len(first) - 1)
    result = []
    start, end = first[0], last[0]
    if first[1:] != low:
        result += [
            concatenation(byte_range(start, start), tail)
            for tail in _byte_sequences(first[1:], high)
        ]
        start += 1
    tails: list[Expression] = []
    if last[1:] != high:
        tails = [
            concatenation(byte_range(end, end), tail) for tail in _byte_sequences(low, last[1:])
        ]
        end -= 1
    if start <= end:
        result.append(concatenation(byte_range(start, end), *[byte_range(0x80, 0xBF)] * len(low)))
    return result + tails


ANY_CHARACTER: Expression = character_set([(0, MAX_CODE_POINT)])

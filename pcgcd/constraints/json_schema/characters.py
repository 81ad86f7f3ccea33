r"""How characters are spelled inside a quoted string, as byte expressions.

Printable ASCII is written as itself (quote and backslash with a backslash), control characters as
``\n`` or ``\u0007``, anything else raw in UTF-8 or as ``\u`` escapes, in surrogate pairs beyond
the basic plane. So ASCII has one spelling, and a set of characters is spelled by the union of the
spellings of its members. Strings of Python differ in their quotes and in the longer escapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pcgcd.automata.expressions import (
    NOTHING,
    Expression,
    byte_set,
    concatenation,
    literal,
    union,
)
from pcgcd.automata.expressions.utf8 import (
    MAX_CODE_POINT,
    Ranges,
    character_set,
    complement_ranges,
    intersect_ranges,
)

__all__ = [
    "ALL_CHARACTERS",
    "JSON",
    "PYTHON",
    "Notation",
    "hexadecimal",
    "spell_set",
    "spell_text",
]

ALL_CHARACTERS: Ranges = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))


@dataclass(frozen=True)
class Notation:
    """A way to write strings.

    Attributes:
        quote: What stands around them.
        is_json: Whether they are JSON's, where characters beyond 16 bits are surrogate pairs.
    """

    quote: str
    is_json: bool

    @property
    def short(self) -> dict[int, str]:
        """The escapes of one letter."""
        letters = {0x09: "t", 0x0A: "n", 0x0D: "r", 0x5C: "\\", ord(self.quote): self.quote}
        return {**letters, 0x08: "b", 0x0C: "f"} if self.is_json else letters

    @property
    def raw(self) -> Ranges:
        """What may stand for itself."""
        escaped = [(0, 0x1F), (ord(self.quote), ord(self.quote)), (0x5C, 0x5C)]
        return complement_ranges(escaped)


JSON = Notation('"', True)
PYTHON = (Notation('"', False), Notation("'", False))


@lru_cache(maxsize=8192)
def spell_set(ranges: Ranges, notation: Notation = JSON) -> Expression:
    """One character of the ranges, as it may stand in a string."""
    options = [character_set(intersect_ranges(ranges, notation.raw))]
    for code, letter in notation.short.items():
        if any(a <= code <= b for a, b in ranges):
            options.append(literal("\\" + letter))
    narrow = ((0, 0x1F), (0x80, 0xD7FF), (0xE000, 0xFFFF))
    options += [_escaped(a, b) for a, b in intersect_ranges(ranges, narrow)]
    astral = intersect_ranges(ranges, ((0x10000, MAX_CODE_POINT),))
    if notation.is_json:
        options += _surrogate_pairs(astral)
    else:
        options += [literal("\\U") + hexadecimal(a, b, 8) for a, b in astral]
    return union(*(option for option in options if option != NOTHING))


def spell_text(text: str, notation: Notation = JSON) -> Expression:
    """The characters of a text, without the quotes around it."""
    return concatenation(*(spell_set(((ord(c), ord(c)),), notation) for c in text))


def hexadecimal(first: int, last: int, width: int) -> Expression:
    """The numbers between two in ``width`` hexadecimal digits of either case."""
    if width == 0:
        return literal("")
    unit = 16 ** (width - 1)
    high, low = divmod(first, unit)
    top, bottom = divmod(last, unit)
    if high == top:
        return concatenation(_digits(high, high), hexadecimal(low, bottom, width - 1))
    options = []
    if low:
        options.append(concatenation(_digits(high, high), hexadecimal(low, unit - 1, width - 1)))
        high += 1
    if bottom != unit - 1:
        options.append(concatenation(_digits(top, top), hexadecimal(0, bottom, width - 1)))
        top -= 1
    if high <= top:
        options.append(concatenation(_digits(high, top), hexadecimal(0, unit - 1, width - 1)))
    return union(*options)


def _digits(first: int, last: int) -> Expression:
    digits = "".join(f"{d:x}{d:X}" for d in range(first, last + 1))
    return byte_set(digits.encode())


def _escaped(first: int, last: int) -> Expression:
    return concatenation(literal("\\u"), hexadecimal(first, last, 4))


def _surrogate_pairs(ranges: Ranges) -> list[Expression]:
    options = []
    for first, last in ranges:
        high, low = divmod(first - 0x10000, 0x400)
        top, bottom = divmod(last - 0x10000, 0x400)
        if high == top:
            options.append(_pair(high, high, low, bottom))
            continue
        if low:
            options.append(_pair(high, high, low, 0x3FF))
            high += 1
        if bottom != 0x3FF:
            options.append(_pair(top, top, 0, bottom))
            top -= 1
        if high <= top:
            options.append(_pair(high, top, 0, 0x3FF))
    return options


def _pair(high: int, top: int, low: int, bottom: int) -> Expression:
    return concatenation(
        _escaped(0xD800 + high, 0xD800 + top), _escaped(0xDC00 + low, 0xDC00 + bottom)
    )

r"""How characters are spelled inside a quoted string, as byte expressions.

Printable ASCII is written as itself (quote and backslash with a backslash), control characters as
``\n`` or ``\u0007``, anything else raw in UTF-8 or as ``\u`` escapes, in surrogate pairs beyond
the basic plane. So ASCII has one spelling, and a set of characters is spelled by the union of the
spellings of its members. Strings of Python differ in their quotes and in the longer escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from pcgcd.automata.expressions import Expression, byte_set, concatenation, literal, union
from pcgcd.automata.expressions.utf8 import (
    MAX_CODE_POINT,
    Ranges,
    character_set,
    complement_ranges,
    intersect_ranges,
)

ALL_CHARACTERS: Ranges = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))


@dataclass(frozen=True)
class Notation:
    """A way to write strings."""

    quote: str
    is_json: bool  # where characters beyond 16 bits are surrogate pairs

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
    narrow = ((0, 0x1F), (0x7F, 0xD7FF), (0xE000, 0xFFFF))
    options += [_escaped(a, b) for a, b in intersect_ranges(ranges, narrow)]
    astral = intersect_ranges(ranges, ((0x10000, MAX_CODE_POINT),))
    if notation.is_json:
        pair = (_high_surrogate, _low_surrogate)
        options += [numerals(a - 0x10000, b - 0x10000, 0x400, pair) for a, b in astral]
    else:
        options += [literal("\\U") + hexadecimal(a, b, 8) for a, b in astral]
    return union(*options)


def spell_text(text: str, notation: Notation = JSON) -> Expression:
    """The characters of a text, without the quotes around it."""
    only = only_spelling(text, notation)
    if only is not None:
        return literal(only)
    return concatenation(*(spell_set(((ord(c), ord(c)),), notation) for c in text))


def only_spelling(text: str, notation: Notation = JSON) -> str | None:
    """A text as it is written inside quotes, if there is one way only: printable ASCII."""
    if not (text.isascii() and text.isprintable()):
        return None
    if notation.quote not in text and "\\" not in text:
        return text
    return text.replace("\\", "\\\\").replace(notation.quote, "\\" + notation.quote)


def spelled(text: str, notation: Notation = JSON, *, ascii_only: bool = False) -> str:
    """A text in quotes, with as few escapes as can be, or without anything beyond ASCII."""
    if notation.is_json:
        return json.dumps(text, ensure_ascii=ascii_only)
    short = notation.short

    def one(code: int) -> str:
        if code in short:
            return "\\" + short[code]
        if 0x20 <= code < 0x80 or (code >= 0x80 and not ascii_only):
            return chr(code)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

    return notation.quote + "".join(one(ord(character)) for character in text) + notation.quote


@lru_cache(maxsize=8192)
def numerals(
    first: int, last: int, base: int, digits: tuple[Callable[[int, int], Expression], ...]
) -> Expression:
    """The numbers between two, given how each of their digits between two is written."""
    if (first, last) == (0, base ** len(digits) - 1):
        return concatenation(*(spell(0, base - 1) for spell in digits))
    spell, rest = digits[0], digits[1:]
    unit = base ** len(rest)
    (high, low), (top, bottom) = divmod(first, unit), divmod(last, unit)
    if high == top:
        return spell(high, high) + numerals(low, bottom, base, rest)
    options = []
    if low:
        options.append(spell(high, high) + numerals(low, unit - 1, base, rest))
        high += 1
    if bottom != unit - 1:
        options.append(spell(top, top) + numerals(0, bottom, base, rest))
        top -= 1
    if high <= top:
        options.append(spell(high, top) + numerals(0, unit - 1, base, rest))
    return union(*options)


def hexadecimal(first: int, last: int, width: int) -> Expression:
    """The numbers between two in ``width`` hexadecimal digits of either case."""
    return numerals(first, last, 16, (_hexadecimal_digit,) * width)


@cache
def _hexadecimal_digit(first: int, last: int) -> Expression:
    return byte_set("".join(f"{d:x}{d:X}" for d in range(first, last + 1)).encode())


def _escaped(first: int, last: int) -> Expression:
    return literal("\\u") + hexadecimal(first, last, 4)


def _high_surrogate(first: int, last: int) -> Expression:
    return _escaped(0xD800 + first, 0xD800 + last)


def _low_surrogate(first: int, last: int) -> Expression:
    return _escaped(0xDC00 + first, 0xDC00 + last)

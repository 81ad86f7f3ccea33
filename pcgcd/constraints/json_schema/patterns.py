r"""The regular expressions of JSON Schema (ECMA-262, with Unicode), read into trees.

Where ECMA-262 and Python's ``re`` disagree about a class (``\d`` beyond ASCII, the line ends that
``.`` leaves out, ...) each set of characters is kept twice: what both put in it, and what either
does. The first makes positive patterns safe under both readings, the second negative ones.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from pcgcd.automata.expressions.utf8 import complement_ranges, normalise_ranges
from pcgcd.constraints.json_schema.characters import ALL_CHARACTERS, Ranges, overlap
from pcgcd.constraints.regex.unicode_classes import category
from pcgcd.errors import UnsupportedConstraintError

__all__ = [
    "Chars",
    "Choice",
    "Edge",
    "Look",
    "Pattern",
    "Repeated",
    "Sequence",
    "parse_pattern",
]

_MAX_LENGTH = 20_000
_MAX_DEPTH = 60
_MAX_COUNT = 10_000
_ECMA_SPACE: Ranges = tuple(
    normalise_ranges(
        (ord(c), ord(c))
        for c in "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
        + "".join(map(chr, range(0x2000, 0x200B)))
    )
)
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


@dataclass(frozen=True)
class Chars:
    """One character: of ``narrow`` under every reading, of ``wide`` under some."""

    narrow: Ranges
    wide: Ranges


@dataclass(frozen=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class Choice:
    """One of the options."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True)
class Repeated:
    """The body between ``least`` and ``most`` times (None: without end)."""

    body: Pattern
    least: int
    most: int | None


@dataclass(frozen=True)
class Edge:
    """The start (``^``) or the end (``$``) of the text."""

    start: bool


@dataclass(frozen=True)
class Look:
    """What follows must, or must not, start with the body."""

    body: Pattern
    positive: bool


Pattern: TypeAlias = "Chars | Sequence | Choice | Repeated | Edge | Look"


@lru_cache(maxsize=1024)
def parse_pattern(source: str) -> Pattern:
    """Read a pattern.

    Raises:
        UnsupportedConstraintError: On bad syntax, and on what is not regular (back-references) or
            not read here (look-behind, word boundaries), with the position.
    """
    if len(source) > _MAX_LENGTH:
        raise UnsupportedConstraintError(
            f"a pattern of {len(source):,} characters is longer than the limit of {_MAX_LENGTH:,}"
        )
    reader = _Reader(source)
    result = reader.choice(0)
    if reader.position < len(source):
        raise reader.error("an unmatched ')'")
    return result


def _same(ranges: Ranges) -> Chars:
    return Chars(ranges, ranges)


def _class(letter: str) -> Chars:
    lower = letter.lower()
    ecma: Ranges = _ECMA_SPACE if lower == "s" else category(lower, ascii_only=True)
    python = category(lower)
    both, either = overlap(ecma, python), tuple(normalise_ranges((*ecma, *python)))
    if letter.isupper():
        return Chars(_others(either), _others(both))
    return Chars(both, either)


def _others(ranges: Ranges) -> Ranges:
    return overlap(complement_ranges(ranges), ALL_CHARACTERS)


_ANY = Chars(_others(((10, 10), (13, 13), (0x2028, 0x2029))), _others(((10, 10),)))


@lru_cache(maxsize=64)
def _property(name: str) -> Ranges | None:
    """The characters of a general category: ``L``, ``Lu``, ``Letter``, ``gc=Nd``, ..."""
    short = name.rsplit("=", 1)[-1]
    short = {
        "Letter": "L",
        "Lowercase_Letter": "Ll",
        "Uppercase_Letter": "Lu",
        "Number": "N",
        "Decimal_Number": "Nd",
        "digit": "Nd",
        "Punctuation": "P",
        "Symbol": "S",
        "Separator": "Z",
        "Mark": "M",
        "Other": "C",
    }.get(short, short)
    if short in ("ASCII", "Any"):
        return ((0, 0x7F),) if short == "ASCII" else ALL_CHARACTERS
    points = [c for c in range(0x110000) if unicodedata.category(chr(c)).startswith(short)]
    return overlap(normalise_ranges((c, c) for c in points), ALL_CHARACTERS) if points else None


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0

    def error(self, what: str) -> UnsupportedConstraintError:
        return UnsupportedConstraintError(
            f"the pattern {self.source[:200]!r} has {what} at position {self.position}; write it "
            f"without, or leave the keyword out with strict=False"
        )

    def peek(self, text: str) -> bool:
        return self.source.startswith(text, self.position)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.position += len(text)
            return True
        return False

    def next(self) -> str:
        if self.position >= len(self.source):
            raise self.error("an unexpected end")
        self.position += 1
        return self.source[self.position - 1]

    # -- structure ----------------------------------------------------------------------------

    def choice(self, depth: int) -> Pattern:
        if depth > _MAX_DEPTH:
            raise self.error(f"groups nested more than {_MAX_DEPTH} deep")
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, depth: int) -> Pattern:
        parts: list[Pattern] = []
        while self.position < len(self.source) and not (self.peek("|") or self.peek(")")):
            parts.append(self.quantified(self.atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quantified(self, body: Pattern) -> Pattern:
        while self.position < len(self.source):
            bounds = self.bounds()
            if bounds is None:
                break
            least, most = bounds
            if isinstance(body, Edge):
                raise self.error("a repeated anchor")
            self.take("?")
            body = Repeated(body, least, most)
        return body

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if not self.peek("{"):
            return None
        end = self.source.find("}", self.position)
        inside = self.source[self.position + 1 : end] if end > 0 else ""
        first, comma, last = inside.partition(",")
        if not (first.isascii() and first.isdigit() and (not last or last.isdigit())):
            return None
        self.position = end + 1
        least = int(first[:9])
        most = least if not comma else int(last[:9]) if last else None
        if least > _MAX_COUNT or (most or 0) > _MAX_COUNT:
            raise self.error(f"a repeat of more than {_MAX_COUNT:,}")
        if most is not None and most < least:
            raise self.error("a repeat whose bounds are in the wrong order")
        return least, most

    def atom(self, depth: int) -> Pattern:
        c = self.next()
        if c == "(":
            return self.group(depth)
        if c == "[":
            return self.bracket()
        if c == "\\":
            return self.escape()
        if c in "^$":
            return Edge(c == "^")
        if c in "*+?":
            self.position -= 1
            raise self.error("nothing to repeat")
        return _ANY if c == "." else _same(((ord(c), ord(c)),))

    def group(self, depth: int) -> Pattern:
        look: bool | None = None
        if self.take("?"):
            if self.take("=") or self.take("!"):
                look = self.source[self.position - 1] == "="
            elif self.take("P<") or (self.peek("<") and not (self.peek("<=") or self.peek("<!"))):
                end = self.source.find(">", self.position)
                if end < 0:
                    raise self.error("a group name without an end")
                self.position = end + 1
            elif not self.take(":"):
                raise self.error("a look-behind or a group of an unknown kind")
        body = self.choice(depth + 1)
        if not self.take(")"):
            raise self.error("a group without an end")
        return body if look is None else Look(body, look)

    # -- characters ---------------------------------------------------------------------------

    def escape(self) -> Pattern:
        c = self.next()
        if c in "bB":
            raise self.error("a word boundary")
        if c == "k" or c in "123456789":
            raise self.error("a back-reference")
        if c in "AzZ":
            return Edge(c == "A")
        return self.escaped(c)

    def escaped(self, c: str) -> Chars:
        if c in "dDwWsS":
            return _class(c)
        if c in "pP" and self.take("{"):
            end = self.source.find("}", self.position)
            ranges = _property(self.source[self.position : end]) if end > 0 else None
            if ranges is None:
                raise self.error("an unknown Unicode property")
            self.position = end + 1
            return _same(ranges if c == "p" else _others(ranges))
        code = self.code_point(c)
        return _same(((code, code),))

    def code_point(self, c: str) -> int:
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "0":
            return 0
        if c == "c":
            return ord(self.next()) % 32
        if c == "x":
            return self.hexadecimal(2)
        if c == "u":
            if self.take("{"):
                end = self.source.find("}", self.position)
                width = end - self.position
                code = self.hexadecimal(width if 0 < width < 7 else 0)
                self.position += 1
                return code
            return self.utf16()
        return ord(c)

    def utf16(self) -> int:
        high = self.hexadecimal(4)
        if 0xD800 <= high < 0xDC00 and self.take("\\u"):
            low = self.hexadecimal(4)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((high - 0xD800) << 10) + low - 0xDC00
            raise self.error("half a surrogate pair")
        return high

    def hexadecimal(self, width: int) -> int:
        digits = self.source[self.position : self.position + width]
        try:
            code = int(digits, 16) if len(digits) == width else -1
        except ValueError:
            code = -1
        if not 0 <= code < 0x110000:
            raise self.error("a malformed escape")
        self.position += width
        return code

    def bracket(self) -> Chars:
        negative = self.take("^")
        narrow: list[tuple[int, int]] = []
        wide: list[tuple[int, int]] = []
        while not self.take("]"):
            first = self.member()
            if self.peek("-") and not self.peek("-]"):
                start = self.position
                self.position += 1
                last = self.member()
                if _is_single(first) and _is_single(last):
                    if last.narrow[0][0] < first.narrow[0][0]:
                        raise self.error("a range in the wrong order")
                    first = _same(((first.narrow[0][0], last.narrow[0][0]),))
                else:
                    self.position = start + 1
                    narrow.append((45, 45))
                    wide.append((45, 45))
            narrow += first.narrow
            wide += first.wide
        both = overlap(normalise_ranges(narrow), ALL_CHARACTERS)
        either = overlap(normalise_ranges(wide), ALL_CHARACTERS)
        return Chars(_others(either), _others(both)) if negative else Chars(both, either)

    def member(self) -> Chars:
        c = self.next()
        if c != "\\":
            return _same(((ord(c), ord(c)),))
        c = self.next()
        return _same(((8, 8),)) if c == "b" else self.escaped(c)


def _is_single(chars: Chars) -> bool:
    return len(chars.narrow) == 1 and chars.narrow[0][0] == chars.narrow[0][1]

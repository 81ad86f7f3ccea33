r"""The syntax of ECMA-262, with Unicode: the patterns of JSON Schema.

Where ECMA-262 and Python's ``re`` disagree about a class (``\d`` beyond ASCII, the line ends that
``.`` leaves out, ...) there are two readings of a pattern: the narrow one, with what both put into
a class, is safe for what must be found, the wide one for what must not be. What is negated is read
the other way round.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from pcgcd.automata.expressions.utf8 import (
    EVERYTHING,
    Ranges,
    complement_ranges,
    intersect_ranges,
    normalise_ranges,
)
from pcgcd.constraints.regex.reader import CONTROLS, Reader, single
from pcgcd.constraints.regex.tree import Assertion, Look, Node, found, looks_of
from pcgcd.constraints.regex.unicode_classes import category, general_category
from pcgcd.errors import UnsupportedConstraintError

_MAX_LENGTH = 20_000
_MAX_COUNT = 10_000
_SPACE = normalise_ranges(
    (ord(c), ord(c))
    for c in "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
    + "".join(map(chr, range(0x2000, 0x200B)))
)
_LONG_NAMES = {
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
}
_NAME = re.compile(r"P?<(?![=!])[^>]*>")
_PROPERTY = re.compile(r"([pP])\{([^}]*)\}")
_CODE = re.compile(
    r"x([0-9a-f]{2})|u\{([0-9a-f]{1,6})\}|u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|"
    r"u(d[89ab][0-9a-f]{2}(?!\\u)|(?!d[89ab])[0-9a-f]{4})|c(.)",
    re.IGNORECASE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def parse_ecma(pattern: str, wide: bool = False) -> Node:
    """The tree of a pattern in its narrow or wide reading.

    Raises:
        UnsupportedConstraintError: On bad syntax, and on what is not regular (back-references) or
            not read here (look-behind, word boundaries), with the position.
    """
    if len(pattern) > _MAX_LENGTH:
        raise UnsupportedConstraintError(
            f"a pattern of {len(pattern):,} characters is longer than the limit of {_MAX_LENGTH:,}"
        )
    return _EcmaReader(pattern, wide).read()


@cache
def _class(letter: str, wide: bool) -> Ranges:
    if letter.isupper():
        return complement_ranges(_class(letter.lower(), not wide))
    ecma = _SPACE if letter == "s" else category(letter, ascii_only=True)
    python = category(letter)
    return normalise_ranges((*ecma, *python)) if wide else intersect_ranges(ecma, python)


class _EcmaReader(Reader):
    quantifier = re.compile(r"([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\}")
    max_depth = 60
    bracket_first = False

    def __init__(self, source: str, wide: bool) -> None:
        super().__init__(source)
        self.wide = wide

    def error(self, what: str) -> UnsupportedConstraintError:
        return UnsupportedConstraintError(
            f"the pattern {self.source[:200]!r} has {what} at position {self.position}; write it "
            f"without, or leave the keyword out with strict=False"
        )

    def group(self, depth: int) -> Node:
        if self.take("?=") or self.take("?!"):
            negative = self.source[self.position - 1] == "!"
            self.wide ^= negative
            body = found(self.closed(depth), at_start=True)
            self.wide ^= negative
            return Look(body, not negative)
        if self.take("?") and not (self.take(":") or self.match(_NAME)):
            raise self.error("a look-behind or a group of an unknown kind")
        return self.closed(depth)

    def repeated(self, body: Node, least: int, most: int | None, start: int) -> Node:
        if max(least, most or 0) > _MAX_COUNT:
            raise self.error(f"a repeat of more than {_MAX_COUNT:,}")
        if most is not None and most < least:
            raise self.error("a repeat whose bounds are in the wrong order")
        if (most is None or most > 1) and (isinstance(body, Assertion) or looks_of(body)):
            raise self.error("a repeat of an anchor, or of something with a look-ahead,")
        return super().repeated(body, least, most, start)

    def anchor(self, sign: str) -> Assertion:
        return Assertion("start" if sign == "^" else "end")

    def dot(self) -> Ranges:
        line_ends = "\n" if self.wide else "\n\r\u2028\u2029"
        return complement_ranges((ord(c), ord(c)) for c in line_ends)

    def bracket(self, start: int) -> Node:
        negated = self.peek("^")
        self.wide ^= negated
        result = super().bracket(start)
        self.wide ^= negated
        return result

    def escape(self) -> Node:
        start = self.position - 1
        letter = self.next()
        if letter in "bB":
            raise self.error("a word boundary")
        if letter in "k123456789":
            raise self.error("a back-reference")
        if letter in "AzZ":
            return Assertion("start" if letter == "A" else "end")
        self.position -= 1
        return self.characters(self.escaped(inside=False), start)

    def escaped(self, inside: bool) -> Ranges:
        if named := self.match(_PROPERTY):
            return self.property(named[1] == "P", named[2])
        if code := self.match(_CODE):
            return single(self.code_point(code))
        letter = self.next()
        if letter in "xuc" or (letter in "pP" and self.peek("{")):
            raise self.error("a malformed escape")
        if letter in "dDwWsS":
            return _class(letter, self.wide)
        return single({**CONTROLS, "b": 8, "0": 0}.get(letter, letter))

    def property(self, negated: bool, name: str) -> Ranges:
        """The characters of a general category: ``L``, ``Lu``, ``Letter``, ``gc=Nd``, ..."""
        short = name.rsplit("=", 1)[-1]
        known = {"ASCII": ((0, 0x7F),), "Any": EVERYTHING}
        ranges = known.get(short) or general_category(_LONG_NAMES.get(short, short))
        if not ranges:
            raise self.error("an unknown Unicode property")
        return complement_ranges(ranges) if negated else ranges

    def code_point(self, code: re.Match[str]) -> int:
        short, braced, high, low, plain, control = code.groups()
        if control:
            return ord(control) % 32
        if high:
            return 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
        value = int(short or braced or plain, 16)
        if value > 0x10FFFF:
            raise self.error("a malformed escape")
        return value

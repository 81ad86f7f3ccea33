"""The syntax of Python's :mod:`re`, which itself decides what is a pattern and how case counts."""

from __future__ import annotations

import re
import unicodedata
import warnings

from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges, subtract_ranges
from pcgcd.constraints.regex.reader import CONTROLS, Reader, single
from pcgcd.constraints.regex.tree import Assertion, Characters, Node
from pcgcd.constraints.regex.unicode_classes import category, with_case
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

MAX_LENGTH = 50_000
MAX_DEPTH = 100

# Plain numbers: the flags of re are slow to combine.
_IGNORECASE, _MULTILINE, _DOTALL = int(re.IGNORECASE), int(re.MULTILINE), int(re.DOTALL)
_VERBOSE, _ASCII, _UNICODE = int(re.VERBOSE), int(re.ASCII), int(re.UNICODE)
_FLAGS = {letter: int(re.RegexFlag[letter.upper()]) for letter in "imsxau"}
_NO_NEWLINE = subtract_ranges(EVERYTHING, single("\n"))
_LOOK_AROUND_ADVICE = "use & and not_containing of pcgcd.constraints instead"
_ADVICE = {
    "a back-reference": "write out what the group may be",
    "a conditional": "write out both cases as an alternation",
    "an atomic group": "use an ordinary group (?:...)",
    "a possessive repeat": "use an ordinary repeat",
}
_NOT_REGULAR = {
    "(?=": "a look-ahead",
    "(?!": "a negative look-ahead",
    "(?<=": "a look-behind",
    "(?<!": "a negative look-behind",
    "(?>": "an atomic group",
    "(?P=": "a back-reference",
    "(?(": "a conditional",
}
# In comments, too, a backslash is read together with what it escapes.
_COMMENT = r"\(\?#(?:\\.|[^\\)])*\)|\(\?[a-zA-Z]+\)"
_SKIPPED = re.compile(f"(?:{_COMMENT})*", re.DOTALL)
_SKIPPED_VERBOSE = re.compile(rf"(?:{_COMMENT}|[ \t\n\r\v\f]|#(?:\\.|[^\\\n])*)*", re.DOTALL)
_GROUP = re.compile(r"\?P<\w+>|\?([a-zA-Z]*)(?:-([a-zA-Z]*))?:")
_REFERENCE = re.compile(r"(?![1-3][0-7]{2})[1-9][0-9]?")
_CODE = r"|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^}]+)\}"
_CODE_INSIDE = re.compile(r"([0-7]{1,3})" + _CODE)
_CODE_OUTSIDE = re.compile(r"(0[0-7]{0,2}|[1-3][0-7]{2})" + _CODE)


def parse_python(pattern: str, flags: int = 0) -> Node:
    """The tree of a pattern in the syntax of :mod:`re`."""
    if not isinstance(pattern, str):
        raise InvalidParameterError(
            f"a pattern is a str, but {type(pattern).__name__} was given; decode it first"
        )
    if not isinstance(flags, int):
        raise InvalidParameterError(
            f"flags are those of re, such as re.IGNORECASE, but {type(flags).__name__} was given"
        )
    if len(pattern) > MAX_LENGTH:
        raise InvalidParameterError(
            f"a pattern has at most {MAX_LENGTH:,} characters, but this one has {len(pattern):,}; "
            "make it of several with | and +, or use choice for a list of texts"
        )
    return _PythonReader(pattern, _checked_flags(pattern, flags)).read()


def _checked_flags(pattern: str, flags: int) -> int:
    """The flags of a pattern that :mod:`re` accepts, with those that it sets for itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, int(flags) & ~int(re.DEBUG)).flags
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise InvalidParameterError(
            f"the pattern {_shortened(pattern)} is broken{place}: {error.msg}"
        ) from error
    except (OverflowError, ValueError) as error:
        raise InvalidParameterError(
            f"the pattern {_shortened(pattern)} cannot be read: {error}"
        ) from error


def _shortened(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")


class _PythonReader(Reader):
    quantifier = re.compile(r"([*+?])|\{(?!\})([0-9]*)(?:(,)([0-9]*))?\}")
    max_depth = MAX_DEPTH
    bracket_first = True

    def __init__(self, source: str, flags: int) -> None:
        super().__init__(source)
        self.flags = flags

    def error(self, what: str) -> InvalidParameterError:
        return InvalidParameterError(
            f"the pattern {_shortened(self.source)} has {what} at position {self.position}; "
            "rewrite it without"
        )

    def not_regular(self, kind: str, start: int) -> UnsupportedConstraintError:
        return UnsupportedConstraintError(
            f"{kind} ({self.source[start : self.position]!r} at position {start} of the pattern "
            f"{_shortened(self.source)}) cannot be honoured; "
            f"{_ADVICE.get(kind, _LOOK_AROUND_ADVICE)}"
        )

    def skip(self) -> None:
        if self.flags & _VERBOSE:
            self.match(_SKIPPED_VERBOSE)
        elif self.peek("(?"):
            self.match(_SKIPPED)

    def group(self, depth: int) -> Node:
        start = self.position - 1
        for opening, kind in _NOT_REGULAR.items():
            if self.take(opening[1:]):
                raise self.not_regular(kind, start)
        outer = self.flags
        opened = self.match(_GROUP)
        for letter in (opened and opened[1]) or "":
            kept = self.flags & ~(_ASCII | _UNICODE) if letter in "au" else self.flags
            self.flags = kept | _FLAGS[letter]
        for letter in (opened and opened[2]) or "":
            self.flags &= ~_FLAGS[letter]
        body = self.closed(depth)
        self.flags = outer
        return body

    def repeated(self, body: Node, least: int, most: int | None, start: int) -> Node:
        if self.take("+"):
            raise self.not_regular("a possessive repeat", start)
        return super().repeated(body, least, most, start)

    def anchor(self, sign: str) -> Assertion:
        if self.flags & _MULTILINE:
            return Assertion("line start" if sign == "^" else "line end")
        return Assertion("start" if sign == "^" else "end or final newline")

    def dot(self) -> Ranges:
        return EVERYTHING if self.flags & _DOTALL else _NO_NEWLINE

    def characters(self, ranges: Ranges, start: int) -> Node:
        if self.flags & _IGNORECASE:
            text = self.source[start : self.position]
            ranges = with_case(text, ranges, bool(self.flags & _ASCII))
        return Characters(ranges)

    def escape(self) -> Node:
        start = self.position - 1
        if self.match(_REFERENCE):
            raise self.not_regular("a back-reference", start)
        if self.take("A"):
            return Assertion("start")
        if self.take("Z") or self.take("z"):
            return Assertion("end")
        if self.peek("b") or self.peek("B"):
            kind = "boundary" if self.next() == "b" else "no boundary"
            return Assertion("ASCII " + kind if self.flags & _ASCII else kind)
        return self.characters(self.escaped(inside=False), start)

    def escaped(self, inside: bool) -> Ranges:
        code = self.match(_CODE_INSIDE if inside else _CODE_OUTSIDE)
        if code:
            octal, name = code[1], code[5]
            if name:
                return single(unicodedata.lookup(name))
            return single(int(octal, 8) if octal else int(code[2] or code[3] or code[4], 16))
        letter = self.next()
        if letter in "dDwWsS":
            return category(letter, bool(self.flags & _ASCII))
        return single({**CONTROLS, "a": 7, "b": 8}.get(letter, letter))

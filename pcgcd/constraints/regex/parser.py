"""From a pattern to a tree of characters, sequences, choices, repetitions and assertions.

The syntax is read by the parser of the standard library, so that what is a pattern, and what it
means, is the same here as for :mod:`re`.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges, normalise_ranges, subtract_ranges
from pcgcd.constraints.regex.scanner import group_depth, scan
from pcgcd.constraints.regex.unicode_classes import category, with_case
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

__all__ = [
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Assertion",
    "Characters",
    "Choice",
    "Node",
    "Repetition",
    "Sequence",
    "parse",
]

MAX_LENGTH = 50_000
MAX_DEPTH = 100

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_TYPE_FLAGS = re.ASCII | re.LOCALE | re.UNICODE
_CLASS_FLAGS = int(re.ASCII | re.IGNORECASE)
_NEWLINE: Ranges = ((10, 10),)


@dataclass(frozen=True)
class Characters:
    """One character of the ranges."""

    ranges: Ranges


@dataclass(frozen=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of the options."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repetition:
    """The body at least ``least`` and at most ``most`` times (None: without end)."""

    body: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Assertion:
    """A condition on a place in the text, see :mod:`pcgcd.constraints.regex.assertions`."""

    kind: str


Node: TypeAlias = "Characters | Sequence | Choice | Repetition | Assertion"

_ANY = Characters(EVERYTHING)
_ANY_BUT_NEWLINE = Characters(subtract_ranges(EVERYTHING, _NEWLINE))
_UNSUPPORTED = {
    "GROUPREF": ("a back-reference",),
    "GROUPREF_EXISTS": ("a conditional",),
    "ASSERT": ("a look-ahead", "a look-behind"),
    "ASSERT_NOT": ("a negative look-ahead", "a negative look-behind"),
    "FAILURE": ("a negative look-ahead",),
    "ATOMIC_GROUP": ("an atomic group",),
    "POSSESSIVE_REPEAT": ("a possessive repeat",),
}
_ADVICE = {
    "a back-reference": "write out what the group may be",
    "a conditional": "write out both cases as an alternation",
    "an atomic group": "use an ordinary group (?:...)",
    "a possessive repeat": "use an ordinary repeat",
}
_LOOK_AROUND_ADVICE = "use & and not_containing of pcgcd.constraints instead"
_ASSERTIONS = {
    "AT_BEGINNING_STRING": "start",
    "AT_END_STRING": "end",
    "AT_BEGINNING": "start",
    "AT_END": "end or final newline",
    "AT_BOUNDARY": "boundary",
    "AT_NON_BOUNDARY": "no boundary",
}


def parse(pattern: str, flags: int = 0) -> Node:
    """The tree of a pattern.

    Args:
        pattern: In the syntax of :mod:`re`.
        flags: As for :func:`re.compile`.

    Raises:
        InvalidParameterError: The pattern is broken, too long or too deeply nested.
        UnsupportedConstraintError: It uses a construct that is not regular.
    """
    if not isinstance(pattern, str):
        raise InvalidParameterError(
            f"a pattern is a str, but {type(pattern).__name__} was given; decode it first"
        )
    if not isinstance(flags, int):
        raise InvalidParameterError(
            f"flags are those of re, such as re.IGNORECASE, but {type(flags).__name__} was given"
        )
    flags = int(flags) & ~int(re.DEBUG)
    if len(pattern) > MAX_LENGTH:
        raise InvalidParameterError(
            f"a pattern has at most {MAX_LENGTH:,} characters, but this one has {len(pattern):,}; "
            "make it of several with | and +, or use choice for a list of texts"
        )
    depth = group_depth(pattern, bool(flags & re.VERBOSE))
    if depth > MAX_DEPTH:
        raise InvalidParameterError(
            f"groups can be nested {MAX_DEPTH} deep, but those of this pattern are nested {depth} "
            "deep; flatten them"
        )
    tree = _parse(pattern, flags)
    return _Translation(pattern, flags).sequence(tree, tree.state.flags)


def _parse(pattern: str, flags: int) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _parser.parse(pattern, flags)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise InvalidParameterError(
            f"the pattern {_shortened(pattern)} is broken{place}: {error.msg}"
        ) from error
    except (OverflowError, ValueError) as error:
        raise InvalidParameterError(
            f"the pattern {_shortened(pattern)} cannot be read: {error}"
        ) from error
    except RecursionError as error:
        raise InvalidParameterError(
            f"the pattern {_shortened(pattern)} is nested too deeply for the stack that is left; "
            "flatten its groups"
        ) from error


def _shortened(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")


class _Translation:
    """From the standard library's tree to ours."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def sequence(self, items: Any, flags: int) -> Node:
        parts = tuple(self._node(op.name, value, flags) for op, value in items)
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def _node(self, name: str, value: Any, flags: int) -> Node:
        if name == "LITERAL":
            return _characters(((name, value),), flags & _CLASS_FLAGS)
        if name == "NOT_LITERAL":
            return _characters((("NEGATE", None), ("LITERAL", value)), flags & _CLASS_FLAGS)
        if name == "IN":
            members = tuple(
                (op.name, each.name if op.name == "CATEGORY" else each) for op, each in value
            )
            return _characters(members, flags & _CLASS_FLAGS)
        if name == "ANY":
            return _ANY if flags & re.DOTALL else _ANY_BUT_NEWLINE
        if name == "BRANCH":
            return _choice([self.sequence(items, flags) for items in value[1]])
        if name == "SUBPATTERN":
            _, added, removed, items = value
            if added & _TYPE_FLAGS:
                flags &= ~int(_TYPE_FLAGS)
            return self.sequence(items, (flags | added) & ~removed)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, items = value
            end = None if most == _parser.MAXREPEAT else int(most)
            return _repetition(self.sequence(items, flags), int(least), end)
        if name == "AT":
            return Assertion(_assertion(value.name, flags))
        raise self._unsupported(name)

    def _unsupported(self, name: str) -> UnsupportedConstraintError:
        kinds = _UNSUPPORTED.get(name, ())
        for construct in scan(self._pattern, bool(self._flags & re.VERBOSE)):
            if construct.kind in kinds:
                advice = _ADVICE.get(construct.kind, _LOOK_AROUND_ADVICE)
                return UnsupportedConstraintError(
                    f"{construct.kind} ({construct.text!r} at position {construct.position} of the "
                    f"pattern {_shortened(self._pattern)}) cannot be honoured; {advice}"
                )
        what = kinds[0] if kinds else name
        return UnsupportedConstraintError(
            f"{what} in the pattern {_shortened(self._pattern)} cannot be honoured; rewrite it "
            "without"
        )


def _choice(options: list[Node]) -> Node:
    """A choice; one between something and nothing is an optional something."""
    some = tuple(option for option in options if option != Sequence(()))
    if not some:
        return Sequence(())
    node = some[0] if len(some) == 1 else Choice(some)
    return node if len(some) == len(options) else _repetition(node, 0, 1)


def _repetition(body: Node, least: int, most: int | None) -> Node:
    """A repetition; one of a repetition is a single one if it skips no count.

    With the inner one k times there are k * low to k * high copies, so none is skipped if
    (k + 1) * low <= k * high + 1, which holds for every k if it does for the smallest.
    """
    if isinstance(body, Repetition) and most != 0:
        low, high = body.least, body.most
        endless = high is None and least > 0
        if least == most or endless or (least + 1) * low <= least * (high or 0) + 1:
            end = None if high is None or most is None else most * high
            return Repetition(body.body, least * low, 0 if high == 0 else end)
    return Repetition(body, least, most)


@lru_cache(maxsize=4096)
def _characters(members: tuple[tuple[str, Any], ...], flags: int) -> Characters:
    ascii_only = bool(flags & re.ASCII)
    ranges = _class_ranges(members, ascii_only)
    if flags & re.IGNORECASE:
        ranges = with_case(_class_pattern(members), ranges, ascii_only)
    return Characters(ranges)


def _assertion(name: str, flags: int) -> str:
    kind = _ASSERTIONS[name]
    if flags & re.MULTILINE:
        kind = {"AT_BEGINNING": "line start", "AT_END": "line end"}.get(name, kind)
    if flags & re.ASCII and kind.endswith("boundary"):
        kind = "ASCII " + kind
    return kind


def _class_ranges(members: tuple[tuple[str, Any], ...], ascii_only: bool) -> Ranges:
    ranges: list[tuple[int, int]] = []
    negated = False
    for name, value in members:
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            ranges.append((value, value))
        elif name == "RANGE":
            ranges.append(value)
        else:
            ranges += category(_category_letter(value), ascii_only)
    found = normalise_ranges(ranges)
    return subtract_ranges(EVERYTHING, found) if negated else found


def _category_letter(name: str) -> str:
    """The letter of, say, CATEGORY_NOT_DIGIT: D."""
    words = name.split("_")
    letter = words[-1][0].lower()
    return letter.upper() if "NOT" in words else letter


def _class_pattern(members: tuple[tuple[str, Any], ...]) -> str:
    """The class, written as a pattern again."""
    text = ""
    for name, value in members:
        if name == "NEGATE":
            text += "^"
        elif name == "LITERAL":
            text += f"\\U{value:08x}"
        elif name == "RANGE":
            text += f"\\U{value[0]:08x}-\\U{value[1]:08x}"
        else:
            text += "\\" + _category_letter(value)
    return f"[{text}]"

"""What the syntaxes of regular expressions have in common, read from left to right."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from pcgcd.automata.expressions.utf8 import Ranges, complement_ranges, normalise_ranges
from pcgcd.constraints.regex.tree import Assertion, Characters, Node, choice, repetition, sequence
from pcgcd.errors import PcgcdError

CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def single(character: str | int) -> Ranges:
    """The set of one character."""
    code = ord(character) if isinstance(character, str) else character
    return ((code, code),)


class Reader(ABC):
    """A pattern and how far it was read. A syntax says what differs from the others."""

    quantifier: ClassVar[re.Pattern[str]]  # a sign, or a least number, a comma and a most number
    max_depth: ClassVar[int]  # how deep groups may be nested
    bracket_first: ClassVar[bool]  # whether "]" is a member of a class that it would end at once

    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0

    @abstractmethod
    def error(self, what: str) -> PcgcdError:
        """The error of a pattern that has something, with its article, where it was read to."""

    @abstractmethod
    def group(self, depth: int) -> Node:
        """The rest of a group, after its opening bracket."""

    @abstractmethod
    def escape(self) -> Node:
        """The rest of an escape outside of classes, after its backslash."""

    @abstractmethod
    def escaped(self, inside: bool) -> Ranges:
        """The characters of an escape, inside or outside of a class, after its backslash."""

    @abstractmethod
    def anchor(self, sign: str) -> Assertion:
        """What ``^`` or ``$`` means."""

    @abstractmethod
    def dot(self) -> Ranges:
        """What ``.`` means."""

    def skip(self) -> None:
        """Pass over what means nothing."""
        return

    def characters(self, ranges: Ranges, start: int) -> Node:
        """The set that was read from a position on."""
        return Characters(ranges)

    def repeated(self, body: Node, least: int, most: int | None, start: int) -> Node:
        """A body and its quantifier, which was read from a position on."""
        self.take("?")  # whether more or fewer copies are tried first makes no difference
        return repetition(body, least, most)

    # -- steps ----------------------------------------------------------------------------------

    def peek(self, text: str) -> bool:
        """Return whether a text comes next."""
        return self.source.startswith(text, self.position)

    def take(self, text: str) -> bool:
        """Pass over a text if it comes next."""
        found = self.peek(text)
        self.position += len(text) if found else 0
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Pass over what Python's ``pattern`` matches next."""
        found = pattern.match(self.source, self.position)
        self.position = found.end() if found else self.position
        return found

    def next(self) -> str:
        """The next character."""
        if self.position >= len(self.source):
            raise self.error("an unexpected end")
        self.position += 1
        return self.source[self.position - 1]

    # -- structure ------------------------------------------------------------------------------

    def read(self) -> Node:
        """The tree of the whole pattern."""
        result = self.choice(0)
        if self.position < len(self.source):
            raise self.error("an unmatched ')'")
        return result

    def choice(self, depth: int) -> Node:
        """Options up to the end of the group."""
        if depth > self.max_depth:
            raise self.error(f"groups nested more than {self.max_depth} deep")
        options: list[Node] = []
        parts: list[Node] = []
        self.skip()
        while self.position < len(self.source) and not self.peek(")"):
            if self.take("|"):
                options.append(sequence(parts))
                parts = []
                self.skip()
            else:
                parts.append(self.quantified(self.atom(depth)))
        return choice([*options, sequence(parts)])

    def closed(self, depth: int) -> Node:
        """The options of a group, and its closing bracket."""
        body = self.choice(depth + 1)
        if not self.take(")"):
            raise self.error("a group without an end")
        return body

    def quantified(self, node: Node) -> Node:
        """What stands before any number of quantifiers, and what may be skipped after them."""
        self.skip()
        start = self.position
        while found := self.match(self.quantifier):
            sign, low, comma, high = found.groups()
            if sign:
                least, most = _BOUNDS[sign]
            else:
                least = _number(low)
                most = _number(high) if high else None if comma else least
            node = self.repeated(node, least, most, start)
            self.skip()
            start = self.position
        return node

    def atom(self, depth: int) -> Node:
        """A group, a class, an escape, an anchor or a character."""
        start = self.position
        sign = self.next()
        if sign == "(":
            return self.group(depth)
        if sign == "[":
            return self.bracket(start)
        if sign == "\\":
            return self.escape()
        if sign in "^$":
            return self.anchor(sign)
        if sign == ".":
            return Characters(self.dot())
        if sign in "*+?":
            self.position = start
            raise self.error("nothing to repeat")
        return self.characters(single(sign), start)

    # -- classes --------------------------------------------------------------------------------

    def bracket(self, start: int) -> Node:
        """The rest of a class whose opening bracket stands at a position."""
        negated = self.take("^")
        first = self.position if self.bracket_first else -1
        ranges: list[tuple[int, int]] = []
        while self.position == first or not self.take("]"):
            ranges += self.members()
        result = complement_ranges(ranges) if negated else normalise_ranges(ranges)
        return self.characters(result, start)

    def members(self) -> Ranges:
        """A character, a range of them, or the characters of an escape."""
        first = self.member()
        if not self.peek("-") or self.peek("-]"):
            return first
        self.position += 1
        start = self.position
        last = self.member()
        if not (_is_single(first) and _is_single(last)):
            self.position = start
            return (*first, *single("-"))
        if last < first:
            raise self.error("a range in the wrong order")
        return ((first[0][0], last[0][0]),)

    def member(self) -> Ranges:
        """One member of a class."""
        sign = self.next()
        return self.escaped(inside=True) if sign == "\\" else single(sign)


def _number(digits: str) -> int:
    """A number; no limit lies beyond twelve digits."""
    return int(digits.lstrip("0")[:12] or "0")


def _is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]

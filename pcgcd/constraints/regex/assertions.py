r"""Conditions on a place in the text: ``^ $ \A \Z \b \B``.

Each depends on the character before the place and the one after it. Most are decided by where they
stand (``^`` at the start, ``\b`` between a letter and a space): :func:`settle` replaces those. For
the rest, :mod:`pcgcd.constraints.regex.automaton` builds an automaton that remembers the one
character and promises the other.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges, intersect_ranges, subtract_ranges
from pcgcd.constraints.regex.parser import (
    Assertion,
    Characters,
    Choice,
    Node,
    Repetition,
    Sequence,
)
from pcgcd.constraints.regex.unicode_classes import category

__all__ = [
    "EDGE",
    "FINAL_NEWLINE",
    "NEWLINE",
    "assertions_of",
    "character_classes",
    "holds",
    "settle",
]

# What stands on one side of a place, as bits: sets of them are sums.
NEWLINE = 1
ASCII_WORD = 2
OTHER_WORD = 4
OTHER = 8
EDGE = 16  # nothing: the start or the end of the text
FINAL_NEWLINE = 32  # a newline, and then the end of the text

_ALWAYS: Node = Sequence(())
_NEVER: Node = Choice(())


def character_classes(kinds: set[str]) -> list[tuple[int, Ranges]]:
    """The classes of characters that assertions of these kinds tell apart, with one bit each."""
    newline: Ranges = ((10, 10),)
    if not any(kind.endswith("boundary") for kind in kinds):
        return [(NEWLINE, newline), (OTHER, subtract_ranges(EVERYTHING, newline))]
    ascii_word = category("w", ascii_only=True)
    word = category("w")
    neither = subtract_ranges(subtract_ranges(EVERYTHING, word), newline)
    return [
        (NEWLINE, newline),
        (ASCII_WORD, ascii_word),
        (OTHER_WORD, subtract_ranges(word, ascii_word)),
        (OTHER, neither),
    ]


def holds(kind: str, before: int, after: int) -> bool:
    """Whether an assertion holds between what the two bits stand for."""
    if kind == "start":
        return before == EDGE
    if kind == "line start":
        return bool(before & (EDGE | NEWLINE))
    if kind == "end":
        return after == EDGE
    if kind == "end or final newline":
        return bool(after & (EDGE | FINAL_NEWLINE))
    if kind == "line end":
        return bool(after & (EDGE | NEWLINE | FINAL_NEWLINE))
    word = ASCII_WORD if kind.startswith("ASCII") else ASCII_WORD | OTHER_WORD
    differ = bool(before & word) != bool(after & word)
    if kind.endswith("no boundary"):
        if before == after == EDGE:  # the empty text: not the same in all versions of Python
            return re.match(r"\B", "") is not None
        return not differ
    return differ


def assertions_of(node: Node) -> set[str]:
    """The kinds of assertions in a tree."""
    if isinstance(node, Assertion):
        return {node.kind}
    if isinstance(node, Characters):
        return set()
    if isinstance(node, Repetition):
        return assertions_of(node.body)
    children = node.parts if isinstance(node, Sequence) else node.options
    return {
        kind
        for child in children
        if not isinstance(child, Characters)
        for kind in assertions_of(child)
    }


class _Shape(NamedTuple):
    """What a node's texts may begin and end with; more may be said than is so, never less."""

    nullable: bool
    first: int
    last: int


class _Settling:
    def __init__(self, kinds: set[str]) -> None:
        self._classes = character_classes(kinds)
        self._bits: dict[Ranges, int] = {}
        self._shapes: dict[int, _Shape] = {}

    def shape(self, node: Node) -> _Shape:
        known = self._shapes.get(id(node))
        if known is None:
            known = self._shapes[id(node)] = self._new_shape(node)
        return known

    def _new_shape(self, node: Node) -> _Shape:
        if isinstance(node, Assertion):
            return _Shape(True, 0, 0)
        if isinstance(node, Characters):
            bits = self._bits.get(node.ranges)
            if bits is None:
                bits = sum(bit for bit, own in self._classes if intersect_ranges(own, node.ranges))
                self._bits[node.ranges] = bits
            return _Shape(False, bits, bits)
        if isinstance(node, Repetition):
            nullable, first, last = self.shape(node.body)
            return _Shape(nullable or node.least == 0, first, last)
        if isinstance(node, Choice):
            shapes = [self.shape(option) for option in node.options]
            first = last = 0
            for shape in shapes:
                first |= shape.first
                last |= shape.last
            return _Shape(any(shape.nullable for shape in shapes), first, last)
        shapes = [self.shape(part) for part in node.parts]
        nullable = all(shape.nullable for shape in shapes)
        return _Shape(nullable, _leading(shapes), _trailing(shapes))

    def settle(self, node: Node, before: int, after: int) -> Node:
        if isinstance(node, Assertion):
            results = {
                holds(node.kind, left, right)
                for left in _members(before)
                for right in _members(after)
            }
            if len(results) == 2:
                return node
            return _ALWAYS if results == {True} else _NEVER
        if isinstance(node, Characters):
            return node
        if isinstance(node, Choice):
            return Choice(tuple(self.settle(option, before, after) for option in node.options))
        if isinstance(node, Repetition):
            _, first, last = self.shape(node.body)
            if not first:  # nothing is read, so once is as good as often, and never the best
                return self.settle(node.body, before, after) if node.least else _ALWAYS
            if node.most is None or node.most > 1:
                before, after = before | last, after | _seen_from_before(first)
            return Repetition(self.settle(node.body, before, after), node.least, node.most)
        return self._settle_sequence(node, before, after)

    def _settle_sequence(self, node: Sequence, before: int, after: int) -> Node:
        shapes = [self.shape(part) for part in node.parts]
        afters = []
        for shape in reversed(shapes):
            afters.append(after)
            after = _seen_from_before(shape.first) | (after if shape.nullable else 0)
        parts = []
        for part, shape, right in zip(node.parts, shapes, reversed(afters)):
            parts.append(self.settle(part, before, right))
            before = shape.last | (before if shape.nullable else 0)
        return Sequence(tuple(parts))


def _members(bits: int) -> list[int]:
    return [1 << i for i in range(bits.bit_length()) if bits >> i & 1]


def _seen_from_before(first: int) -> int:
    """A newline that comes next may be the last character."""
    return first | FINAL_NEWLINE if first & NEWLINE else first


def _leading(shapes: list[_Shape]) -> int:
    bits = 0
    for shape in shapes:
        bits |= shape.first
        if not shape.nullable:
            break
    return bits


def _trailing(shapes: list[_Shape]) -> int:
    return _leading([_Shape(shape.nullable, shape.last, 0) for shape in reversed(shapes)])


def settle(node: Node) -> Node:
    """The tree without the assertions whose truth their place decides."""
    kinds = assertions_of(node)
    return _Settling(kinds).settle(node, EDGE, EDGE) if kinds else node

r"""Conditions on a place in the text: ``^ $ \A \Z \b \B``.

Each depends on the character before the place and the one after it. Most are decided by where they
stand (``^`` at the start, ``\b`` between a letter and a space): :func:`settle` replaces those. For
the others, texts are marked with bytes that no text has: each assertion, and the class of each
character. :func:`obeyed` keeps the marked texts in which the assertions hold, and erases the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, reduce
from operator import or_
from typing import NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.byte_edges import byte_automaton
from pcgcd.automata.empty_moves import without_empty_moves
from pcgcd.automata.expressions import NOTHING, Embedded, Expression, byte_set, intersection, union
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges, intersect_ranges, subtract_ranges
from pcgcd.automata.graphs import Graph, pack, unpack
from pcgcd.automata.kernels.jit import Mask
from pcgcd.constraints.regex.tree import (
    EMPTY,
    NEVER,
    Assertion,
    Characters,
    Choice,
    Look,
    Node,
    Repetition,
    Sequence,
    assertions_of,
)
from pcgcd.constraints.regex.unicode_classes import category

# How one character of a set is written in bytes.
Spelling: TypeAlias = Callable[[Ranges], Expression]

# What stands on one side of a place, as bits: sets of them are sums.
NEWLINE = 1
ASCII_WORD = 2
OTHER_WORD = 4
OTHER = 8
EDGE = 16  # nothing: the start or the end of the text
FINAL_NEWLINE = 32  # a newline, and then the end of the text
_ALL = 63

# Kinds of assertions and classes of characters, each with a byte that is in no UTF-8.
_MARKS: dict[str | int, int] = {
    "start": 0xC0,
    "line start": 0xC1,
    "end": 0xF5,
    "end or final newline": 0xF6,
    "line end": 0xF7,
    "boundary": 0xF8,
    "no boundary": 0xF9,
    "ASCII boundary": 0xFA,
    "ASCII no boundary": 0xFB,
    NEWLINE: 0xFC,
    ASCII_WORD: 0xFD,
    OTHER_WORD: 0xFE,
    OTHER: 0xFF,
}


def _classes(kinds: set[str]) -> list[tuple[int, Ranges]]:
    """The classes of characters that assertions of these kinds tell apart, with one bit each."""
    classes: list[tuple[int, Ranges]] = []
    if any("line" in kind for kind in kinds):
        classes.append((NEWLINE, ((10, 10),)))
    if any("boundary" in kind for kind in kinds):
        ascii_word = category("w", ascii_only=True)
        classes.append((ASCII_WORD, ascii_word))
        classes.append((OTHER_WORD, subtract_ranges(category("w"), ascii_word)))
    others = EVERYTHING
    for _, members in classes:
        others = subtract_ranges(others, members)
    return [*classes, (OTHER, others)]


def _holds(kind: str, before: int, after: int) -> bool:
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


def _members(bits: int) -> list[int]:
    return [1 << i for i in range(bits.bit_length()) if bits >> i & 1]


# -- assertions that their place decides --------------------------------------------------------


def settle(node: Node) -> Node:
    """The tree without the assertions whose truth their place decides."""
    kinds = assertions_of(node)
    return _Settling(kinds).settle(node, EDGE, EDGE) if kinds else node


class _Shape(NamedTuple):
    """What a node's texts may begin and end with; more may be said than is so, never less."""

    nullable: bool
    first: int
    last: int


class _Settling:
    def __init__(self, kinds: set[str]) -> None:
        self._classes = _classes(kinds)
        self._bits: dict[Ranges, int] = {}
        self._shapes: dict[int, _Shape] = {}

    def shape(self, node: Node) -> _Shape:
        if id(node) not in self._shapes:
            self._shapes[id(node)] = self._new_shape(node)
        return self._shapes[id(node)]

    def _new_shape(self, node: Node) -> _Shape:
        if isinstance(node, Assertion | Look):
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
            first = reduce(or_, (shape.first for shape in shapes), 0)
            last = reduce(or_, (shape.last for shape in shapes), 0)
            return _Shape(any(shape.nullable for shape in shapes), first, last)
        shapes = [self.shape(part) for part in node.parts]
        nullable = all(shape.nullable for shape in shapes)
        first = _leading((shape.nullable, shape.first) for shape in shapes)
        last = _leading((shape.nullable, shape.last) for shape in reversed(shapes))
        return _Shape(nullable, first, last)

    def settle(self, node: Node, before: int, after: int) -> Node:
        if isinstance(node, Characters):
            return node
        if isinstance(node, Assertion):
            results = {
                _holds(node.kind, left, right)
                for left in _members(before)
                for right in _members(after)
            }
            if len(results) == 2:
                return node
            return EMPTY if results == {True} else NEVER
        if isinstance(node, Look):
            return Look(self.settle(node.body, before, EDGE), node.positive)
        if isinstance(node, Choice):
            options = [self.settle(option, before, after) for option in node.options]
            return Choice(tuple(option for option in options if option != NEVER))
        if isinstance(node, Repetition):
            _, first, last = self.shape(node.body)
            if not first:  # nothing is read, so once is as good as often, and never the best
                return self.settle(node.body, before, after) if node.least else EMPTY
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
        return NEVER if NEVER in parts else Sequence(tuple(parts))


def _seen_from_before(first: int) -> int:
    """A newline that comes next may be the last character."""
    return first | FINAL_NEWLINE if first & NEWLINE else first


def _leading(parts: Iterable[tuple[bool, int]]) -> int:
    result = 0
    for nullable, bits in parts:
        result |= bits
        if not nullable:
            break
    return result


# -- assertions that the text decides -----------------------------------------------------------


def mark(kind: str) -> Expression:
    """What stands for an assertion in a marked text."""
    return byte_set([_MARKS[kind]])


def marked(spelling: Spelling, kinds: set[str]) -> Spelling:
    """A spelling with a mark before each character, which says its class."""
    classes = _classes(kinds)

    def spell(ranges: Ranges) -> Expression:
        options = ((bit, intersect_ranges(ranges, members)) for bit, members in classes)
        return union(*(byte_set([_MARKS[bit]]) + spelling(part) for bit, part in options if part))

    return spell


def obeyed(marked_texts: Expression, kinds: set[str]) -> Expression:
    """The texts in which every assertion holds where it is marked, without the marks."""
    checked = intersection(marked_texts, _lawful(frozenset(kinds)))
    graph = Graph.of(compile_expression(checked, deterministic=False))
    members = unpack(graph.sets, graph.num_classes)[:, graph.token_class]  # (labels, 256)
    marks = list(_MARKS.values())
    is_mark: Mask = np.any(members[:, marks], axis=1)
    members[:, marks] = False
    empty = is_mark[graph.label]
    erased = without_empty_moves(
        (graph.source[empty], graph.target[empty]),
        (graph.source, graph.target, graph.label),
        (pack(members), 256, np.arange(256)),
        graph.initial,
        graph.accepting,
    ).automaton()
    return NOTHING if erased.is_empty() else Embedded(erased)


@cache
def _lawful(kinds: frozenset[str]) -> Expression:
    """All marked texts in which the assertions hold.

    A state is the class of the character before, and what may come after by the marks so far.
    """
    text = (1 << 256) - 1 - sum(1 << byte for byte in _MARKS.values())
    waiting = [(EDGE, _ALL)]
    edges: list[tuple[int, int, int]] = []

    def add(source: int, state: tuple[int, int], key: str | int) -> None:
        if state not in waiting:
            waiting.append(state)
        edges.append((source, waiting.index(state), 1 << _MARKS[key]))

    for number, (before, allowed) in enumerate(waiting):
        edges.append((number, number, text))
        for kind in kinds:
            left = sum(after for after in _members(allowed) if _holds(kind, before, after))
            add(number, (before, left), kind)
        for bit in _members(allowed & (NEWLINE | ASCII_WORD | OTHER_WORD | OTHER)):
            add(number, (bit, _ALL), bit)
        if allowed & FINAL_NEWLINE and not allowed & NEWLINE:
            add(number, (NEWLINE, EDGE), NEWLINE)
    accepting = [number for number, (_, allowed) in enumerate(waiting) if allowed & EDGE]
    return Embedded(byte_automaton(len(waiting), edges, accepting))

"""Regular expressions as trees: what every syntax is read into, and what is lowered to bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges


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


@dataclass(frozen=True)
class Look:
    """A look-ahead: all that follows, to the end of the text, is (or is not) of the body."""

    body: Node
    positive: bool


Node: TypeAlias = "Characters | Sequence | Choice | Repetition | Assertion | Look"

EMPTY: Node = Sequence(())
NEVER: Node = Choice(())
_ANYTHING: Node = Repetition(Characters(EVERYTHING), 0, None)
_SOMETHING: Node = Repetition(Characters(EVERYTHING), 1, None)


# -- making trees -------------------------------------------------------------------------------


def sequence(parts: Iterable[Node]) -> Node:
    """A sequence; two repetitions of the same body, one after the other, are one."""
    joined: list[Node] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(last, Repetition) and isinstance(part, Repetition) and last.body == part.body:
            most = None if last.most is None or part.most is None else last.most + part.most
            joined[-1] = Repetition(last.body, last.least + part.least, most)
        else:
            joined.append(part)
    return joined[0] if len(joined) == 1 else Sequence(tuple(joined))


def choice(options: list[Node]) -> Node:
    """A choice; one between something and nothing is an optional something."""
    some = tuple(option for option in options if option != EMPTY)
    if not some:
        return EMPTY
    node = some[0] if len(some) == 1 else Choice(some)
    return node if len(some) == len(options) else repetition(node, 0, 1)


def repetition(body: Node, least: int, most: int | None) -> Node:
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


def found(node: Node, *, at_start: bool = False) -> Node:
    """The texts in which the node is found somewhere, or at their start.

    Where it asks for an edge of the text, the cases of something and of nothing beside it are told
    apart, so that :func:`pcgcd.constraints.regex.assertions.settle` can decide each.
    """
    kinds = assertions_of(node)
    if kinds and isinstance(node, Choice):
        return Choice(tuple(found(option, at_start=at_start) for option in node.options))
    before = (EMPTY, _SOMETHING) if "start" in kinds else (_ANYTHING,)
    after = (EMPTY, _SOMETHING) if "end" in kinds else (_ANYTHING,)
    return Choice(
        tuple(
            Sequence((left, node, right))
            for left in ((EMPTY,) if at_start else before)
            for right in after
        )
    )


# -- looking into trees -------------------------------------------------------------------------


def _nodes(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Sequence):
            waiting += node.parts
        elif isinstance(node, Choice):
            waiting += node.options
        elif isinstance(node, Repetition | Look):
            waiting.append(node.body)


def assertions_of(node: Node) -> set[str]:
    """The kinds of assertions in a tree."""
    return {each.kind for each in _nodes(node) if isinstance(each, Assertion)}


def looks_of(node: Node) -> list[Look]:
    """The look-aheads in a tree."""
    return [each for each in _nodes(node) if isinstance(each, Look)]

"""Regular expressions in Python's syntax."""

from __future__ import annotations

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    Expression,
    Repeat,
    concatenation,
    repeat,
    union,
)
from pcgcd.automata.expressions import (
    literal as literal_expression,
)
from pcgcd.automata.expressions.utf8 import character_set
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.regex.assertions import assertions_of, settle
from pcgcd.constraints.regex.automaton import expression_with_assertions
from pcgcd.constraints.regex.parser import (
    Assertion,
    Characters,
    Choice,
    Node,
    Repetition,
    parse,
)
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

__all__ = ["regex", "regex_expression"]


def regex(pattern: str, flags: int = 0) -> Constraint:
    r"""Texts that ``re.fullmatch(pattern, text, flags)`` matches.

    Everything of :mod:`re` that is regular: classes, Unicode, alternation, groups, greedy and lazy
    repeats, anchors, word boundaries, the flags a, i, m, s, u and x. Texts are Unicode in UTF-8,
    so a lone surrogate never occurs in one.

    Args:
        pattern: The pattern, of at most 50,000 characters and groups nested 100 deep.
        flags: As for :func:`re.compile`.

    Raises:
        InvalidParameterError: The pattern is broken, too long or too deeply nested.
        UnsupportedConstraintError: A look-around, back-reference, conditional, atomic group or
            possessive repeat; the message names it and its position.
        AutomatonTooLargeError: Anchors or word boundaries inside, and more than 20,000 places,
            100,000 edges or 1,000,000 ways between places once the repeats are written out.

    >>> regex(r"[A-Z]{2,3}-\d+")
    Constraint(regex('[A-Z]{2,3}-\\d+'))
    """
    return Constraint(regex_expression(pattern, flags), f"regex({pattern!r})")


def regex_expression(pattern: str, flags: int = 0, *, whole_text: bool = True) -> Expression:
    """The expression of a pattern.

    Args:
        pattern: As for :func:`regex`.
        flags: As for :func:`regex`.
        whole_text: Whether it is the whole text that is matched. A part of a text has unknown
            neighbours, so anchors and word boundaries are refused.
    """
    tree = parse(pattern, flags)
    try:
        if not whole_text and assertions_of(tree):
            raise UnsupportedConstraintError(
                f"the pattern {pattern!r} has an anchor or a word boundary, which cannot be "
                "honoured where it matches a part of the text only; leave it out"
            )
        tree = settle(tree)
        if assertions_of(tree):
            return expression_with_assertions(tree)
        return _expression(tree)
    except RecursionError as error:
        raise InvalidParameterError(
            "the pattern is nested too deeply for the stack that is left; flatten its groups"
        ) from error


def _expression(node: Node) -> Expression:
    if isinstance(node, Characters):
        return character_set(node.ranges)
    if isinstance(node, Choice):
        return union(*(_expression(option) for option in node.options))
    if isinstance(node, Repetition):
        return repeat(_expression(node.body), node.least, node.most)
    if isinstance(node, Assertion):
        raise TypeError("assertions are settled before")
    parts: list[Expression] = []
    text: list[str] = []
    for part in node.parts:
        if isinstance(part, Characters) and _is_literal(part):
            text.append(chr(part.ranges[0][0]))
            continue
        if text:
            parts.append(literal_expression("".join(text)))
            text = []
        _append(parts, _expression(part))
    if text:
        parts.append(literal_expression("".join(text)))
    return concatenation(*parts) if parts else EMPTY_STRING


def _append(parts: list[Expression], part: Expression) -> None:
    """Add a part; a repeat after another of the same body is one longer repeat."""
    last = parts[-1] if parts else None
    if isinstance(last, Repeat) and isinstance(part, Repeat) and last.body == part.body:
        most = None if last.most is None or part.most is None else last.most + part.most
        parts[-1] = repeat(last.body, last.least + part.least, most)
    else:
        parts.append(part)


def _is_literal(node: Characters) -> bool:
    if len(node.ranges) != 1:
        return False
    first, last = node.ranges[0]
    return first == last and not 0xD800 <= first <= 0xDFFF

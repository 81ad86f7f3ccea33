"""Regular expressions in Python's syntax."""

from __future__ import annotations

from pcgcd.automata.expressions import Expression
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.regex.lowering import lower
from pcgcd.constraints.regex.python_syntax import MAX_DEPTH, parse_python
from pcgcd.constraints.regex.tree import assertions_of
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError


def regex(pattern: str, flags: int = 0) -> Constraint:
    r"""Accept the texts that ``re.fullmatch(pattern, text, flags)`` matches.

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
        AutomatonTooLargeError: Anchors or word boundaries inside, and more than 200,000 states
            once the repeats are written out.

    >>> regex(r"[A-Z]{2,3}-\d+")
    Constraint(regex('[A-Z]{2,3}-\\d+'))
    """
    return Constraint(regex_expression(pattern, flags), f"regex({pattern!r})")


def regex_expression(pattern: str, flags: int = 0, *, whole_text: bool = True) -> Expression:
    """The expression of a pattern.

    A part of a text has unknown neighbours, so that anchors and word boundaries are refused unless
    it is the whole text that is matched.
    """
    try:
        tree = parse_python(pattern, flags)
        if not whole_text and assertions_of(tree):
            raise UnsupportedConstraintError(
                f"the pattern {pattern!r} has an anchor or a word boundary, which cannot be "
                "honoured where it matches a part of the text only; leave it out"
            )
        return lower(tree)
    except RecursionError as error:
        raise InvalidParameterError(
            f"groups can be nested {MAX_DEPTH} deep, less where little is left of the stack, but "
            "those of the pattern are nested deeper; flatten them"
        ) from error

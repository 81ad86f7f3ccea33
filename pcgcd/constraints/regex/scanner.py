"""A light scan of a pattern: where constructs stand, and how deep groups are nested.

The syntax tree of the standard library knows neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Construct", "group_depth", "scan"]

_GROUPS = {
    "(?=": "a look-ahead",
    "(?!": "a negative look-ahead",
    "(?<=": "a look-behind",
    "(?<!": "a negative look-behind",
    "(?>": "an atomic group",
    "(?P=": "a back-reference",
    "(?(": "a conditional",
}
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_QUANTIFIER = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}|\{,\d*\}")
_BACK_REFERENCE = re.compile(r"\\[1-9][0-9]?(?![0-9])")
_OCTAL = re.compile(r"\\[0-3][0-7][0-7]")


class Construct(NamedTuple):
    """Something of note in a pattern.

    Attributes:
        kind: What it is, with its article; ``"("`` and ``")"`` for groups.
        position: Where it starts.
        text: How it is written.
    """

    kind: str
    position: int
    text: str


def scan(pattern: str, verbose: bool) -> Iterator[Construct]:
    """The groups, possessive repeats and back-references of a pattern, from left to right.

    A broken pattern gives some answer, too.

    >>> [c.kind for c in scan("(?=a)[(]b*+", verbose=False)]
    ['(', 'a look-ahead', ')', 'a possessive repeat']
    """
    modes: list[bool] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        step = 1
        if sign == "\\":
            reference = _BACK_REFERENCE.match(pattern, at)
            if reference and not _OCTAL.match(pattern, at):
                yield Construct("a back-reference", at, reference.group())
            step = 2
        elif sign == "[":
            step = _class_end(pattern, at) - at
        elif sign == "#" and verbose:
            step = (pattern.find("\n", at) + 1 or len(pattern)) - at
        elif pattern.startswith("(?#", at):
            step = (pattern.find(")", at) + 1 or len(pattern)) - at
        elif sign == "(":
            flags = _FLAGS.match(pattern, at)
            step = flags.end() - at if flags else _opening_length(pattern, at)
            if flags and flags.group(3) == ")":
                verbose = verbose or "x" in flags.group(1)
                at += step
                continue
            yield Construct("(", at, pattern[at : at + step])
            modes.append(verbose)
            if flags:
                verbose = (verbose or "x" in flags.group(1)) and "x" not in (flags.group(2) or "")
            for opening, kind in _GROUPS.items():
                if pattern.startswith(opening, at):
                    yield Construct(kind, at, opening)
        elif sign == ")":
            yield Construct(")", at, sign)
            verbose = modes.pop() if modes else verbose
        else:
            quantifier = _QUANTIFIER.match(pattern, at)
            if quantifier:
                end = quantifier.end()
                if pattern.startswith("+", end):
                    yield Construct("a possessive repeat", at, quantifier.group() + "+")
                step = end - at + pattern.startswith(("+", "?"), end)
        at += step


def _opening_length(pattern: str, at: int) -> int:
    for opening in _GROUPS:
        if pattern.startswith(opening, at):
            return len(opening)
    return 1


def _class_end(pattern: str, at: int) -> int:
    at += 2 if pattern.startswith("[^", at) else 1
    at += pattern.startswith("]", at)
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def group_depth(pattern: str, verbose: bool) -> int:
    """How many groups are open at once, at most.

    >>> group_depth("((a)(b))", verbose=False)
    2
    """
    depth = deepest = 0
    for construct in scan(pattern, verbose):
        depth += {"(": 1, ")": -1}.get(construct.kind, 0)
        deepest = max(deepest, depth)
    return deepest

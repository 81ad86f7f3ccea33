"""Checks of whole texts that composed constraints inherit from their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Checker: TypeAlias = "Callable[[bytes], bool]"


def both(first: Checker, second: Checker) -> Checker:
    """A text that passes both."""
    return lambda text: first(text) and second(text)


def either(first: Checker, second: Checker) -> Checker:
    """A text that passes one of two."""
    return lambda text: first(text) or second(text)


def in_turn(first: Checker, second: Checker) -> Checker:
    """A text that can be cut in two, of which the one passes the one and the other the other.

    >>> vowels_first = in_turn(lambda t: t in (b"a", b"ab"), lambda t: t == b"b")
    >>> [vowels_first(text) for text in (b"ab", b"abb", b"a")]
    [True, True, False]
    """
    return lambda text: any(
        first(text[:cut]) and second(text[cut:]) for cut in range(len(text) + 1)
    )


def repeated(one: Checker, least: int, most: int | None) -> Checker:
    """A text that can be cut into so many that pass.

    >>> pairs = repeated(lambda text: len(text) == 2, 1, 2)
    >>> [pairs(b"x" * size) for size in range(6)]
    [False, False, True, False, True, False]
    """

    def check(text: bytes) -> bool:
        # Where so many pieces may end; after len(text) + least pieces nothing new comes.
        ends, count = {0}, 0
        while True:
            if count >= least and len(text) in ends:
                return True
            if not ends or count == most or count > len(text) + least:
                return False
            ends = {
                end for start in ends for end in range(start, len(text) + 1) if one(text[start:end])
            }
            count += 1

    return check

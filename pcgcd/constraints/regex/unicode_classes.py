r"""Sets of Unicode characters: ``\w``, ``\d``, ``\s``, general categories, and case.

What a class holds is asked of Python's own :mod:`re`, so that the two cannot disagree.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import groupby

import numpy as np

from pcgcd.automata.expressions.utf8 import EVERYTHING, Ranges, normalise_ranges, subtract_ranges

_CODE_POINTS = 0x110000


def _all_characters() -> str:
    return np.arange(_CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def category(letter: str, ascii_only: bool = False) -> Ranges:
    r"""The characters of ``\w``, ``\d``, ``\s`` or (in capitals) of their negations.

    >>> category("d", ascii_only=True)
    ((48, 57),)
    """
    if letter.isupper():
        return subtract_ranges(EVERYTHING, category(letter.lower(), ascii_only))
    text = "".join(map(chr, range(128))) if ascii_only else _all_characters()
    found = re.finditer(rf"\{letter}+", text, re.ASCII if ascii_only else 0)
    return tuple((match.start(), match.end() - 1) for match in found)


@cache
def general_category(name: str) -> Ranges:
    """The characters of a general category, or of all whose names begin with a letter.

    >>> general_category("Zl"), general_category("no such category")
    (((8232, 8232),), ())
    """
    members = (run for own, run in _general_categories() if name and own.startswith(name))
    return normalise_ranges(members)


@cache
def _general_categories() -> list[tuple[str, tuple[int, int]]]:
    """Runs of characters of the same category."""
    runs = []
    last = -1
    for name, members in groupby(map(unicodedata.category, _all_characters())):
        first, last = last + 1, last + sum(1 for _ in members)
        runs.append((name, (first, last)))
    return runs


@cache
def _cased() -> tuple[str, Ranges]:
    """Every character that has, or is, another case; others are the same in any case."""
    members: set[str] = set()
    for start in range(0, _CODE_POINTS, 256):
        block = "".join(map(chr, range(start, start + 256)))
        for change in (str.lower, str.upper, str.casefold, str.title):
            if change(block) != block:
                for character in block:
                    other = change(character)
                    if other != character:
                        members.update((character, *other))
    text = "".join(sorted(members))
    return text, normalise_ranges((ord(character), ord(character)) for character in text)


@lru_cache(maxsize=4096)
def with_case(pattern: str, plain: Ranges, ascii_only: bool) -> Ranges:
    """What a one-character pattern matches when case is ignored (``plain`` when it matters)."""
    text, cased = _cased()
    found = re.findall(pattern, text, re.IGNORECASE | (re.ASCII if ascii_only else 0))
    return normalise_ranges(
        [*subtract_ranges(plain, cased), *((ord(each), ord(each)) for each in found)]
    )

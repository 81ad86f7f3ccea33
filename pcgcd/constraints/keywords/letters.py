"""Letters, which words are made of."""

from __future__ import annotations

from pcgcd.automata.expressions.utf8 import Ranges

LETTERS: Ranges = (
    (0x41, 0x5A),
    (0x61, 0x7A),
    (0xAA, 0xAA),
    (0xB5, 0xB5),
    (0xBA, 0xBA),
    (0xC0, 0xD6),
    (0xD8, 0xF6),
    (0xF8, 0x7FF),
    (0x1E00, 0x1FFF),
)


def is_letter(character: str) -> bool:
    """Return whether words go on at this character.

    Letters are those of ASCII, ª µ º, everything from U+00C0 to U+07FF but × and ÷ (Latin, Greek,
    Cyrillic, Armenian, Hebrew, Arabic and their marks), and U+1E00 to U+1FFF (more Latin and
    Greek). Digits, hyphens, apostrophes, and the scripts beyond are not.

    >>> [is_letter(c) for c in "aé-3’"]
    [True, True, False, False, False]
    """
    return any(first <= ord(character) <= last for first, last in LETTERS)

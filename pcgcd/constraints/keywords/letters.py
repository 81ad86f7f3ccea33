"""Letters, which words are made of, and how UTF-8 spells them."""

from __future__ import annotations

__all__ = ["ONLY_OTHERS", "UTF8_STATES", "WITHOUT_LETTERS", "is_letter"]


def is_letter(character: str) -> bool:
    """Whether words go on at this character.

    Letters are those of ASCII, ª µ º, everything from U+00C0 to U+07FF but × and ÷ (Latin, Greek,
    Cyrillic, Armenian, Hebrew, Arabic and their marks), and U+1E00 to U+1FFF (more Latin and
    Greek). Digits, hyphens, apostrophes, and the scripts beyond are not.

    >>> [is_letter(c) for c in "aé-3’"]
    [True, True, False, False, False]
    """
    code = ord(character)
    if code < 0x80:
        return character.isalpha()
    if code < 0x800:
        return code in (0xAA, 0xB5, 0xBA) or (code >= 0xC0 and code not in (0xD7, 0xF7))
    return 0x1E00 <= code <= 0x1FFF


# How UTF-8 goes on from a kind of state: first and last byte, and the next kind. "L" and "N" are
# complete characters, letters and others; l1 and n1 to n3 are so many bytes before them.
UTF8_STATES: dict[str, tuple[tuple[int, int, str], ...]] = {
    "lead": (
        (0xC2, 0xC2, "c2"),
        (0xC3, 0xC3, "c3"),
        (0xC4, 0xDF, "l1"),
        (0xE0, 0xE0, "e0"),
        (0xE1, 0xE1, "e1"),
        (0xE2, 0xEC, "n2"),
        (0xED, 0xED, "ed"),
        (0xEE, 0xEF, "n2"),
        (0xF0, 0xF0, "f0"),
        (0xF1, 0xF3, "n3"),
        (0xF4, 0xF4, "f4"),
    ),
    "c2": (
        (0x80, 0xA9, "N"),
        (0xAA, 0xAA, "L"),
        (0xAB, 0xB4, "N"),
        (0xB5, 0xB5, "L"),
        (0xB6, 0xB9, "N"),
        (0xBA, 0xBA, "L"),
        (0xBB, 0xBF, "N"),
    ),
    "c3": (
        (0x80, 0x96, "L"),
        (0x97, 0x97, "N"),
        (0x98, 0xB6, "L"),
        (0xB7, 0xB7, "N"),
        (0xB8, 0xBF, "L"),
    ),
    "e0": ((0xA0, 0xBF, "n1"),),
    "e1": ((0x80, 0xB7, "n1"), (0xB8, 0xBF, "l1")),
    "ed": ((0x80, 0x9F, "n1"),),
    "f0": ((0x90, 0xBF, "n2"),),
    "f4": ((0x80, 0x8F, "n2"),),
    "l1": ((0x80, 0xBF, "L"),),
    "n1": ((0x80, 0xBF, "N"),),
    "n2": ((0x80, 0xBF, "n1"),),
    "n3": ((0x80, 0xBF, "n2"),),
}
ONLY_OTHERS = frozenset({"e0", "ed", "f0", "f4", "n1", "n2", "n3"})
# What the kinds come to where letters and other characters lead to the same state.
WITHOUT_LETTERS = {"c2": "n1", "c3": "n1", "l1": "n1", "e1": "n2"}

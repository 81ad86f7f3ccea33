"""Sets of tokens as short text."""

from __future__ import annotations

from collections.abc import Iterable


def ranges(tokens: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted tokens as first and last of each run.

    >>> ranges([0, 1, 2, 5, 8, 9])
    [(0, 2), (5, 5), (8, 9)]
    """
    result: list[tuple[int, int]] = []
    for token in tokens:
        if result and result[-1][1] == token - 1:
            result[-1] = (result[-1][0], token)
        else:
            result.append((token, token))
    return result


def to_ranges(tokens: Iterable[int]) -> str:
    """Sorted tokens as text that :func:`from_ranges` reads.

    >>> to_ranges([0, 1, 2, 5])
    '0-2,5'
    """
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges(tokens))


def from_ranges(text: str) -> list[int]:
    """The tokens of a text that :func:`to_ranges` wrote.

    >>> from_ranges("0-2,5")
    [0, 1, 2, 5]
    """
    result: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        result += range(int(first), int(last or first) + 1)
    return result


def describe(tokens: list[int], vocab_size: int, width: int = 16) -> str:
    """A set for people: characters where tokens are bytes, ranges, the rest cut off.

    >>> describe([*range(97, 123), 95], 256)
    '_a-z'
    >>> describe([0, 1, 2, 7], 10)
    '0-2,7'
    >>> describe([v for v in range(256) if v != 34], 256)
    'not "'
    """
    if len(tokens) == vocab_size:
        return "any"
    if vocab_size == 256 and len(tokens) > 200:
        inside = set(tokens)
        others = [v for v in range(vocab_size) if v not in inside]
        return "not " + describe(others, vocab_size, width)
    is_bytes = vocab_size == 256
    parts = []
    for first, last in ranges(sorted(tokens)):
        dash = "-" if last > first + 1 or not is_bytes else ""
        end = "" if first == last else dash + _name(last, is_bytes)
        parts.append(_name(first, is_bytes) + end)
    text = ("" if is_bytes else ",").join(parts)
    return text if len(text) <= width else text[: width - 1] + "…"


def _name(token: int, is_byte: bool) -> str:
    if not is_byte:
        return str(token)
    named = {9: "⇥", 10: "⏎", 13: "␍", 32: "␣"}
    return named.get(token) or (chr(token) if 32 < token < 127 else f"\\x{token:02x}")

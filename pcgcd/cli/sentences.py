"""Sentences of the library in the words of the command line, and texts on one line."""

from __future__ import annotations

import re
from collections.abc import Collection

# What somebody wrote, as Python shows it: it stays as it is. One that was cut off has no end.
_QUOTED = r"""(?<!\w)(?:'(?:[^'\\]|\\.|'(?=\w))*(?:'|\Z)|"(?:[^"\\]|\\.|"(?=\w))*(?:"|\Z))"""
_ARGUMENT = r"""\b([a-z_]+)=(\{[^}]*\}|"[^"]*"|'[^']*'|[\w.]+)?"""
_NAME = r"\b([a-z]+(?:_[a-z]+)+)\b(?![=(])"
_WORDS = re.compile(f"{_ARGUMENT}|{_QUOTED}|{_NAME}")


def as_options(sentence: str, options: Collection[str]) -> str:
    """Put options of a command in the place of arguments in Python.

    What stands in quotation marks is somebody's text, and left alone.

    Args:
        sentence: What the library says.
        options: The names of the command's options, as names in Python.

    >>> names = ["hmm", "method", "max_depth", "chat"]
    >>> as_options('give hmm=, or use method="gcd", not w=1; strict=False', names)
    'give --hmm, or use --method gcd, not w=1; strict=False'
    >>> as_options("'hmm=(' is no pattern; raise max_depth, or use chat=False", names)
    "'hmm=(' is no pattern; raise --max-depth, or use --no-chat"
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1] or match[3], match[2] or ""
        if name not in options:
            return match[0]
        words = name.replace("_", "-")
        if value in ("True", "False"):
            return f"--{words}" if value == "True" else f"--no-{words}"
        if not value:
            return f"--{words}"
        parts = value.strip("{}").split(", ")
        return " ".join("--{} {}".format(words, part.strip("\"'")) for part in parts)

    return _WORDS.sub(option, sentence)


def on_one_line(text: str) -> str:
    r"""Show line feeds, and whatever else has no shape of its own, as escapes.

    >>> print(on_one_line("a\nb\x1b[1m café"))
    a\nb\x1b[1m café
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )

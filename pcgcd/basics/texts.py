"""Texts as UTF-8."""

from __future__ import annotations

from typing import Any

from pcgcd.errors import InvalidParameterError


def utf8(text: Any, name: str) -> bytes:
    """Encode a text, which must be valid Unicode.

    >>> list(utf8("é", "a name"))
    [195, 169]

    Args:
        text: The text.
        name: What it is called in errors.
    """
    if not isinstance(text, str):
        raise InvalidParameterError(
            f"{name} must be a text (str), but {type(text).__name__} was given"
        )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"{name} must be valid Unicode, but has a lone surrogate at position {error.start}; "
            "remove it"
        ) from error

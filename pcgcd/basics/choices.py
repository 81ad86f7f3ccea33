"""Arguments that name one of a few things."""

from __future__ import annotations

from pcgcd.errors import InvalidParameterError


def check_one_of(name: str, value: object, *known: str) -> None:
    """Check that an argument is one of those known.

    Raises:
        InvalidParameterError: It is none of them.
    """
    if value not in known:
        shown = " or ".join(f'"{other}"' for other in known)
        raise InvalidParameterError(f"{name} must be {shown}, but is {value!r}")

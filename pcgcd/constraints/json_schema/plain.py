"""Whether a Python value is JSON at all."""

from __future__ import annotations

import math
from typing import Any

from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

__all__ = ["MAX_NESTING", "MAX_VALUES", "check_plain"]

MAX_NESTING = 200
MAX_VALUES = 300_000
_MAX_BITS = 4096


def check_plain(root: Any) -> None:
    """Refuse what JSON cannot write, and what is too deep or too large; without recursion.

    Raises:
        InvalidParameterError: Some value is of another type; names its place.
        UnsupportedConstraintError: More than 200 levels, 300,000 values, or a number with more
            than 1,233 digits.
    """
    stack: list[tuple[Any, str, int]] = [(root, "#", 0)]
    count = 0
    while stack:
        value, pointer, depth = stack.pop()
        count += 1
        if depth > MAX_NESTING or count > MAX_VALUES:
            raise UnsupportedConstraintError(
                f"the schema is nested deeper than {MAX_NESTING} or has more than "
                f"{MAX_VALUES:,} values, at {pointer[:200]}; make it smaller, for instance "
                f"by '$ref'"
            )
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise _not_json(f"the name {key!r:.80}", pointer)
                stack.append((item, f"{pointer}/{key[:80]}", depth + 1))
        elif isinstance(value, list):
            stack.extend((item, f"{pointer}/{i}", depth + 1) for i, item in enumerate(value))
        elif isinstance(value, int):
            if value.bit_length() > _MAX_BITS:
                raise UnsupportedConstraintError(
                    f"the number at {pointer[:200]} has more than {_MAX_BITS} bits; give a "
                    f"smaller one"
                )
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise _not_json(str(value), pointer)
        elif value is not None and not isinstance(value, str):
            raise _not_json(f"a {type(value).__name__}", pointer)


def _not_json(what: str, pointer: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"the schema is not JSON at {pointer[:200]}: expected objects with names that are strings, "
        f"arrays (lists), strings, finite numbers, booleans or null (None), but found {what}"
    )

"""Memory that was freed, and is still counted as the process's own."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def give_back() -> None:
    """Return freed memory to the system, where the C library keeps it for later.

    The arrays of a large construction leave holes between what is still used; glibc returns them
    only if asked to (``malloc_trim``). That takes some milliseconds. Elsewhere nothing is done.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None

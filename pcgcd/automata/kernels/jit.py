"""One way to compile a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bits: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


def compiled(function: Function) -> Function:
    """Compile with numba, and keep the machine code on disk if there is a place for it."""
    try:
        result: Any = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        result = njit(nogil=True)(function)
    return cast(Function, result)


def inlined(function: Function) -> Function:
    """Write a part of one compiled loop by itself, at no cost.

    It is put into its caller before that is compiled. A helper of many callers is better off with
    :func:`compiled`, which compiles it once for each kind of arguments.
    """
    return cast(Function, njit(inline="always")(function))

"""Warnings that point at the code of the caller."""

from __future__ import annotations

import sys
import warnings


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first call that is not made in this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pcgcd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

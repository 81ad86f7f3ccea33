"""Writing figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from pcgcd.basics.files import whole_file

# Without a date, and with a fixed salt for ids, the same figure gives the same file.
_UNDATED: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 200.0) -> Path:
    """Write a figure as a whole or not at all.

    Args:
        figure: The figure.
        path: Where to; the ending names the format (png, pdf, svg). Missing folders are made.
        dpi: Dots per inch of a png.

    Returns:
        The path.
    """
    target = Path(path)
    kind = target.suffix.lstrip(".").lower() or "png"
    with whole_file(target) as file, rc_context({"svg.hashsalt": "pcgcd"}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=_UNDATED.get(kind))
    return target

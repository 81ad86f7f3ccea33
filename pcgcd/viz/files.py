"""Writing figures."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

__all__ = ["save"]

# Without a date, and with a fixed salt for ids, the same figure gives the same file.
_UNDATED: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 200.0) -> Path:
    """Write a figure as a whole or not at all: to a temporary file, which is then renamed.

    Args:
        figure: The figure.
        path: Where to; the ending names the format (png, pdf, svg). Missing folders are made.
        dpi: Dots per inch of a png.

    Returns:
        The path.
    """
    target = Path(path)
    kind = target.suffix.lstrip(".").lower() or "png"
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=f".{kind}")
    os.close(handle)
    temporary = Path(name)
    try:
        with rc_context({"svg.hashsalt": "pcgcd"}):
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=_UNDATED.get(kind))
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target

"""Rows of files: JSON lines, or one JSON list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pcgcd.errors import InvalidParameterError


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file that has one on each line, or a list of them.

    Raises:
        InvalidParameterError: The file cannot be read, or has something else in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameterError(
            f"{path.parent.name}/{path.name} was expected in the data folder, but cannot be read "
            f"({error}); set PCGCD_DATA to the folder that has it, or give --data"
        ) from error
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError as error:
        raise InvalidParameterError(f"{path.name} is not JSON: {error}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise InvalidParameterError(f"{path.name} must have an object in each row")
    return list(rows)


def entries(row: dict[str, Any], names: Sequence[str], path: Path) -> list[Any]:
    """Some entries of a row.

    Raises:
        InvalidParameterError: One is missing.
    """
    missing = [name for name in names if name not in row]
    if missing:
        raise InvalidParameterError(
            f"a row of {path.name} has no {missing[0]!r}; expected {', '.join(names)}, but found "
            f"{', '.join(row)}"
        )
    return [row[name] for name in names]

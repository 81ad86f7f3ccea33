"""xlam-function-calling-60k: ``query``, and ``tools`` and ``answers`` as JSON texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.data.bfcl import CallExample
from pcgcd.experiments.data.files import entries, read_rows


def read_xlam(path: Path) -> list[CallExample]:
    """Return all rows of a file; an argument whose value is its default may be left out.

    Raises:
        InvalidParameterError: The file cannot be read, or a row means nothing.
    """
    found = []
    for place, row in enumerate(read_rows(path)):
        query, tools, answers = entries(row, ("query", "tools", "answers"), path)
        functions = _list(tools, path)
        parameters = {tool["name"]: tool.get("parameters") or {} for tool in functions}
        calls = [
            (
                call["name"],
                {
                    name: [value, *_omitted(parameters.get(call["name"], {}).get(name), value)]
                    for name, value in call["arguments"].items()
                },
            )
            for call in _list(answers, path)
        ]
        name = f"xlam {row.get('id', place)}"
        found.append(CallExample(name, [{"role": "user", "content": query}], functions, calls))
    return found


def _list(value: Any, path: Path) -> list[Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidParameterError(
            f"tools or answers in {path.name} are not JSON: {error}"
        ) from error
    if not isinstance(found, list):
        raise InvalidParameterError(f"tools and answers in {path.name} must be lists")
    return found


def _omitted(described: Any, value: Any) -> list[str]:
    """Return an empty text, which lets an argument be left out, where the value is the default."""
    default = described.get("default") if isinstance(described, dict) else None
    return [""] if default is not None and str(default) == str(value) else []

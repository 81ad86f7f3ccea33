"""The journal of an experiment: rows are appended when they are made, and never changed.

The first line says what the rows are about. A line that was cut off by a crash is made again. The
same command with more examples goes on with the rows of fewer: then the first line is replaced.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pcgcd.basics.files import write_text
from pcgcd.errors import CheckpointError
from pcgcd.experiments.harness.facts import lasting
from pcgcd.experiments.harness.rows import Key, Row

_NAME = re.compile(r"journal(-\d+-of-\d+)?\.jsonl")
# What a larger limit changes, among the facts.
_COUNTS = ("limit", "examples", "schemas")


class Journal:
    """Rows on a disk.

    Attributes:
        path: The file.
        head: What the rows are about.
        rows: All rows so far.
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        """Open a journal, or begin it.

        Raises:
            CheckpointError: The file is the journal of something else, or no journal.
        """
        self.path, self.head = path, dict(head)
        self.rows: dict[Key, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and _drop_torn_line(path):
            found, self.rows = read_journal(path)
            known, wanted = lasting(found), lasting(self.head)
            if _is_larger(known, wanted):
                rest = path.read_text(encoding="utf-8").partition("\n")[2]
                write_text(path, _line(self.head) + rest)
            elif known != wanted:
                raise CheckpointError(
                    f"{path} was begun with other options: {_difference(known, wanted)}; give "
                    "the same ones to go on, or another folder (--out)"
                )
        else:
            self._append([self.head])

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows; they are on the disk when this returns."""
        new = list(rows)
        self._append(row.to_dict() for row in new)
        self.rows.update((row.key, row) for row in new)

    def _append(self, values: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(map(_line, values))
        with self.path.open("ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())


def read_journal(path: Path) -> tuple[dict[str, Any], dict[Key, Row]]:
    """Return the head and the rows of a journal; a line that was cut off at the end is left out.

    Raises:
        CheckpointError: The file is no journal.
    """
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        head, *rows = [json.loads(line) for line in lines]
        found = [Row.from_dict(row) for row in rows]
        if "experiment" not in head:
            raise ValueError("its first line names no experiment")
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} is no journal of an experiment ({error}); move it away"
        ) from error
    return head, {row.key: row for row in found}


def journals_in(folder: Path) -> list[Path]:
    """Return the journals of a folder: one, or one for each shard."""
    return sorted(path for path in folder.glob("journal*.jsonl") if _NAME.fullmatch(path.name))


def _drop_torn_line(path: Path) -> bool:
    """Cut off what a crash left of a last line; whether a whole line is left."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    return whole > 0


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _is_larger(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a journal is wanted of the same with more examples."""

    def limit_of(head: Mapping[str, Any]) -> float:
        return float(head.get("facts", {}).get("limit", math.inf))

    def without_counts(head: Mapping[str, Any]) -> dict[str, Any]:
        facts = {k: v for k, v in head.get("facts", {}).items() if k not in _COUNTS}
        return {**head, "facts": facts, "planned": None, "command": None}

    return limit_of(found) < limit_of(wanted) and without_counts(found) == without_counts(wanted)


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    return ", ".join(
        f"{name} was {found.get(name)!r:.60} and is {wanted.get(name)!r:.60}" for name in names
    )

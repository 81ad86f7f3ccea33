"""The journal of an experiment: rows are appended when they are made, and never changed.

The first line says what the rows are about. A line that was cut off by a crash is made again. The
same command with more examples, or more numbers of particles, goes on with the rows of fewer: then
the first line is replaced. So it does with the rows of a ``results.json``, if it is given one.
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
# What says among the facts how large a run is, but not what one of its rows is.
_SIZES = ("limit", "examples", "schemas", "particles")


class Journal:
    """Rows on a disk.

    Attributes:
        path: The file.
        head: What the rows are about.
        rows: All rows so far.
    """

    def __init__(
        self, path: Path, head: Mapping[str, Any], earlier: Mapping[str, Any] | None = None
    ) -> None:
        """Open a journal, or begin it.

        Args:
            path: The file.
            head: What the rows are about.
            earlier: The content of a ``results.json`` whose rows count as made.

        Raises:
            CheckpointError: The file is the journal of something else, or no journal; or the
                earlier results are those of something else.
        """
        self.path, self.head = path, dict(head)
        self.rows: dict[Key, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and _drop_torn_line(path):
            found, self.rows = read_journal(path)
            if self._goes_on_from(found, f"{path} was begun"):
                rest = path.read_text(encoding="utf-8").partition("\n")[2]
                write_text(path, _line(self.head) + rest)
        else:
            self._append([self.head])
        if earlier is not None:
            self._goes_on_from({name: earlier.get(name) for name in head}, "results.json was made")
            rows = map(Row.from_dict, earlier["rows"])
            self.add(row for row in rows if row.key not in self.rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows; they are on the disk when this returns."""
        new = list(rows)
        self._append(row.to_dict() for row in new)
        self.rows.update((row.key, row) for row in new)

    def _goes_on_from(self, found: Mapping[str, Any], made: str) -> bool:
        """Return whether more is wanted than before; raise if something else is."""
        known, wanted = lasting(found), lasting(self.head)
        more = _is_larger(known, wanted)
        if not more and known != wanted:
            raise CheckpointError(
                f"{made} with other options: {_difference(known, wanted)}; give the same ones to "
                "go on, or another folder (--out)"
            )
        return more

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
    """Return whether the same is wanted with more examples or more numbers of particles."""

    def size(head: Mapping[str, Any]) -> tuple[float, set[int]]:
        facts = head.get("facts") or {}
        return float(facts.get("limit", math.inf)), set(facts.get("particles", ()))

    def rest(head: Mapping[str, Any]) -> dict[str, Any]:
        facts = {k: v for k, v in (head.get("facts") or {}).items() if k not in _SIZES}
        return {**head, "facts": facts, "planned": None, "command": None}

    (limit, particles), (larger, more) = size(found), size(wanted)
    grows = limit <= larger and particles <= more and (limit, particles) != (larger, more)
    return grows and rest(found) == rest(wanted)


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    return ", ".join(
        f"{name} was {found.get(name)!r:.60} and is {wanted.get(name)!r:.60}" for name in names
    )

"""The one runner: makes the rows that are missing, and writes the results.

Which rows are made together is settled before anything runs, and does not depend on shards or on
what is there already: so a run that was killed, or was done by many machines, ends with the rows of
a run in one go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pcgcd.basics.files import write_text
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.experiments.harness.facts import lasting, machine, versions
from pcgcd.experiments.harness.journal import Journal, journals_in, read_journal
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.reports import Report, write_report
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row


class Experiment(Protocol):
    """A module of an experiment.

    Attributes:
        NAME: What it is called on the command line.
        SUMMARY: What it measures, in one line.
    """

    NAME: str
    SUMMARY: str

    def plan(self, options: Options) -> Plan:
        """Read the data and the models, and settle what is to be done."""

    def report(self, rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
        """Tables and figures of rows, whoever made them."""


@dataclass(frozen=True)
class Shard:
    """A part of the work.

    Attributes:
        index: Which one, from 1.
        count: Of how many.
    """

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``2/4``.

        Raises:
            InvalidParameterError: It is no such fraction.

        >>> Shard.parse("2/4")
        Shard(index=2, count=4)
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.index <= shard.count:
            raise InvalidParameterError(
                f"a shard must be i/n with 1 <= i <= n, such as 1/4, but is {text!r}"
            )
        return shard

    @property
    def journal(self) -> str:
        """The name of its journal."""
        return "journal.jsonl" if self.count == 1 else f"journal-{self.index}-of-{self.count}.jsonl"


ALL = Shard()


def run(
    experiment: Experiment,
    options: Options,
    out: Path,
    *,
    command: str = "",
    shard: Shard = ALL,
    earlier: Path | None = None,
    progress: bool = False,
) -> Report | None:
    """Make the rows of an experiment that are missing, and write what it found.

    Args:
        experiment: The experiment.
        options: What is asked of it.
        out: The folder of the journal and the results.
        command: The command that does the same.
        shard: The part of the work; results are written where that is all of it.
        earlier: A folder with a ``results.json`` of the same options, or of fewer examples or
            numbers of particles: its rows are not made again.
        progress: Whether to show a bar.

    Returns:
        The report; None for one shard of several, whose rows :func:`merge` joins.

    Raises:
        CheckpointError: The folder has rows of other options. More examples or numbers of particles
            than before are fine.
    """
    plan = experiment.plan(options)
    planned = [key for job in plan.jobs for key in job.keys]
    if len(set(planned)) < len(planned):
        raise InvalidParameterError(
            f"{experiment.NAME} would make two rows of one example, setting, method, k and seed; "
            "are two examples of the same name?"
        )
    head = {
        "experiment": experiment.NAME,
        "command": command,
        "planned": len(planned),
        "facts": dict(plan.facts),
    }
    journal = Journal(out / shard.journal, head, None if earlier is None else read_results(earlier))
    if not journal.rows.keys() <= set(planned):
        raise CheckpointError(
            f"{journal.path} has rows that these options do not make; give another folder (--out)"
        )
    mine = [job for i, job in enumerate(plan.jobs) if i % shard.count == shard.index - 1]
    with _bar(experiment.NAME, sum(len(job.keys) for job in mine), progress) as done:
        for job in mine:
            if not all(key in journal.rows for key in job.keys):
                rows = list(job.run())
                _check(job, rows)
                # What is there already stays as it is: only the seconds could differ.
                journal.add(row for row in rows if row.key not in journal.rows)
            done(len(job.keys))
    return merge(experiment, [out], out) if shard.count == 1 else None


def merge(
    experiment: Experiment, folders: Iterable[Path], out: Path, *, partial: bool = False
) -> Report:
    """Join the journals of some folders and write ``results.json``, tables and figures.

    Args:
        experiment: The experiment that made them.
        folders: Where the journals are; those of all shards.
        out: The folder to write to.
        partial: Whether rows may be missing; the results then say how many.

    Raises:
        CheckpointError: There is no journal, they differ in their options, or rows are missing.
    """
    paths = [path for folder in folders for path in journals_in(folder)]
    if not paths:
        raise CheckpointError("there is no journal to merge; run the experiment first")
    heads, found = zip(*map(read_journal, paths), strict=True)
    head = heads[0]
    for path, other in zip(paths, heads, strict=True):
        if lasting(other) != lasting(head) or head["experiment"] != experiment.NAME:
            raise CheckpointError(
                f"{path} does not belong to {paths[0]}: it was made by another experiment, or with "
                "other options"
            )
    rows = sorted(
        {key: row for part in found for key, row in part.items()}.values(),
        key=lambda row: natural(row.key),
    )
    if len(rows) < head["planned"] and not partial:
        raise CheckpointError(
            f"{len(rows):,} of {head['planned']:,} rows are there; run the other shards, or merge "
            "what there is (--partial)"
        )
    results = {
        **head,
        "complete": len(rows) == head["planned"],
        "versions": versions(),
        "machine": machine(),
        "rows": [row.to_dict() for row in rows],
    }
    write_text(out / "results.json", _json(results))
    return write_report(show(experiment, results), results, out)


def read_results(folder: Path) -> dict[str, Any]:
    """Return the content of the ``results.json`` of a folder.

    Raises:
        CheckpointError: There is none, or it is something else.
    """
    path = folder / "results.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not {"experiment", "rows"} <= found.keys():
            raise ValueError("it names no experiment, or has no rows")
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"the results of an experiment were expected in {path}, but {error}"
        ) from error
    return found


def show(experiment: Experiment, results: Mapping[str, Any]) -> Report:
    """Return the tables and figures of the content of a ``results.json``."""
    rows = [Row.from_dict(row) for row in results["rows"]]
    return experiment.report(rows, results["facts"])


def natural(key: Key) -> tuple[Any, ...]:
    """Return an order in which "H = 64" comes before "H = 256"."""
    return tuple(
        tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _pieces(str(value)))
        for value in key
    )


def _pieces(text: str) -> list[str]:
    return re.findall(r"\d+|\D+", re.sub(r"(?<=\d),(?=\d{3})", "", text))


def _check(job: Job, rows: Sequence[Row]) -> None:
    if tuple(row.key for row in rows) != job.keys:
        raise InvalidParameterError(
            f"a job promised rows for {list(job.keys)[:3]}, ... but made others; a job must make "
            "the rows that it names, in order"
        )


def _json(results: Mapping[str, Any]) -> str:
    """Return a row on each line, so that files can be compared."""
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in results["rows"])
    rest = {name: value for name, value in results.items() if name != "rows"}
    head = json.dumps(rest, ensure_ascii=False, indent=1).removesuffix("\n}")
    return f'{head},\n "rows": [\n  {rows}\n ]\n}}\n'


@contextmanager
def _bar(name: str, total: int, wanted: bool) -> Iterator[Any]:
    if not wanted:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda count: bar.advance(task, count)

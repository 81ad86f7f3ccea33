"""Questions to databases (section 5.4, Table 4): how many queries return what they should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from pcgcd.constraints import Constraint
from pcgcd.constraints.sql import sql
from pcgcd.errors import AutomatonTooLargeError
from pcgcd.experiments.data.spider import (
    Answer,
    Question,
    answer,
    is_ordered,
    read_spider,
    same_answer,
    schema_text,
)
from pcgcd.experiments.harness.generating import Example, generation_plan
from pcgcd.experiments.harness.options import Options, part_of
from pcgcd.experiments.harness.reports import Report, figure_against_k, summary_table
from pcgcd.experiments.harness.rows import Plan, Row
from pcgcd.experiments.harness.statistics import measure
from pcgcd.experiments.held_out import trained_on
from pcgcd.experiments.tasks import query_prompts
from pcgcd.learning import Source

NAME = "spider"
SUMMARY = "execution accuracy of SQL queries against the number of particles"
METHODS = ("LM", "LCD+SMC", "GCD+SMC", "P-GCD+SMC", "P-GCD+SMC+potential", "twisted+SMC")
COLUMNS = {
    "accuracy, %": ("score", 100.0),
    "runs, %": ("runs", 100.0),
    "satisfied, %": ("satisfied", 100.0),
}
_MAX_DEPTH = 1
_LONGEST_SCHEMA = 3_000  # characters


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    settings = options.settings(
        particles=(1, 4, 8), seeds=1, methods=METHODS, budgets=("128",), limit=20
    )
    examples = [task(question) for question in islice(questions(options), settings["limit"])]
    return generation_plan(examples, options, settings)


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    return Report(
        [summary_table(rows, "Questions to databases", COLUMNS)],
        {
            "accuracy": figure_against_k(
                rows, measure("score"), "execution accuracy, %", scale=100
            ),
            "log_evidence": figure_against_k(rows, measure("log_evidence"), "log-evidence"),
        },
    )


def questions(options: Options) -> Iterator[Question]:
    """Questions of the part asked for, whose reference query satisfies the constraint and runs."""
    # Databases are divided, not questions: one that any training prompt is about is left out.
    found = _all_questions(options.folder)
    seen = {question.database for question in _trained_on(options.folder, found)}
    found = [question for question in found if question.database not in seen]
    kept = part_of(found, [question.name for question in found], options.part)
    return filter(_is_possible, kept)


def training_prompts(folder: Path) -> list[Source]:
    """Questions about databases that no table is about, as this experiment asks them."""
    kept = _trained_on(folder, _all_questions(folder))
    return [Source(_prompt(q)) for q in kept if len(schema_text(q.database)) <= _LONGEST_SCHEMA]


def _all_questions(folder: Path) -> list[Question]:
    files = [folder / "spider" / name for name in ("dev.json", "dev.jsonl")]
    path = next((file for file in files if file.is_file()), files[0])
    return read_spider(path, folder / "spider" / "database")


def _trained_on(folder: Path, found: Sequence[Question]) -> list[Question]:
    return trained_on(folder, query_prompts, found, lambda question: f" {question.text}")


def _is_possible(question: Question) -> bool:
    if len(schema_text(question.database)) > _LONGEST_SCHEMA:
        return False
    try:
        accepted = constraint_of(question.database).matches(question.query)
    except AutomatonTooLargeError:  # of a database with many tables
        return False
    return accepted and _wanted(question.database, question.query) is not None


@cache
def constraint_of(database: Path) -> Constraint:
    """Queries over the tables of a database, as an automaton with choices."""
    return sql(database, max_depth=_MAX_DEPTH)


@cache
def _wanted(database: Path, query: str) -> Answer | None:
    return answer(database, query)


def task(question: Question) -> Example:
    """One question as a task."""
    return Example(
        question.name,
        "",
        _prompt(question),
        partial(constraint_of, question.database),
        partial(rate, question=question),
    )


def _prompt(question: Question) -> list[dict[str, str]]:
    system = (
        f"The tables of a database in SQLite:\n{schema_text(question.database)}\n"
        "Answer with one SQL query, and nothing else: no explanation, no Markdown."
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": question.text}]


def rate(text: str, question: Question) -> dict[str, float]:
    """Return whether a query runs, and returns what the reference returns (the score)."""
    found = answer(question.database, text)
    wanted = _wanted(question.database, question.query)
    right = same_answer(found, wanted, ordered=is_ordered(question.query))
    return {"score": float(right), "runs": float(found is not None)}

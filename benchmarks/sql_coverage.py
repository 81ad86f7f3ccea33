"""Does ``sql(database)`` accept what people write, and nothing that SQLite cannot parse?

For each database of Spider's development set: the sizes of its automata, the share of the gold
queries that is accepted, and what SQLite says to random queries of the automaton: every one has to
parse; some name columns that are not in scope, which a finite automaton cannot know.

    python benchmarks/sql_coverage.py            # needs the data in $PCGCD_DATA
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, machine, rounded
from common import write_json as write
from rich.console import Console
from rich.table import Table

import pcgcd
from pcgcd import FiniteAutomaton
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.constraints.sql import sql
from pcgcd.errors import AutomatonTooLargeError
from pcgcd.testing.walks import RandomWalks

NAME = "sql"
DATA = Path(os.environ.get("PCGCD_DATA", "../shared/data")) / "spider"
SYNTAX_ERRORS = ("syntax error", "incomplete input", "unrecognized token")


class Runner:
    """An automaton by its successors, to accept words quickly."""

    def __init__(self, automaton: FiniteAutomaton) -> None:
        tokens = [automaton.labels.tokens(i).tolist() for i in range(automaton.labels.num_labels)]
        self.steps: list[dict[int, set[int]]] = [{} for _ in range(automaton.num_states)]
        for source, target, label in zip(
            automaton.source.tolist(), automaton.target.tolist(), automaton.label.tolist()
        ):
            for token in tokens[label]:
                self.steps[source].setdefault(token, set()).add(target)
        self.start = set(np.flatnonzero(automaton.initial_mask).tolist())
        self.ends = set(np.flatnonzero(automaton.accepting_mask).tolist())

    def accepts(self, text: str) -> bool:
        states = self.start
        for byte in text.encode():
            states = {t for state in states for t in self.steps[state].get(byte, ())}
        return not states.isdisjoint(self.ends)


def size(automaton: FiniteAutomaton) -> dict[str, int]:
    return {"states": automaton.num_states, "edges": automaton.num_edges}


def verdict(connection: sqlite3.Connection, query: str) -> str:
    """What SQLite says: fine, a syntax error, or another error."""
    try:
        connection.execute(f"EXPLAIN {query}").close()
    except sqlite3.Error as error:
        message = str(error)
        if any(sign in message for sign in SYNTAX_ERRORS):
            return "syntax error"
        return message.split(":")[0] if ":" in message else "other"
    return "fine"


def measure(name: str, queries: list[str], samples: int, max_depth: int) -> dict[str, Any]:
    path = DATA / "database" / name / f"{name}.sqlite"
    started = time.perf_counter()
    constraint = sql(path, max_depth=max_depth)
    built = time.perf_counter()
    automaton = compile_expression(constraint.expression, deterministic=False)
    compiled = time.perf_counter()
    runner = Runner(automaton)
    rejected = [query for query in queries if not runner.accepts(query)]
    connection = sqlite3.connect(path)
    walks = RandomWalks(automaton, seed=0)
    words = [bytes(walks.word(walks.random.randrange(300))).decode() for _ in range(samples)]
    said = Counter(verdict(connection, query) for query in words)
    connection.close()
    try:
        deterministic = size(compile_expression(constraint.expression, deterministic=True))
    except AutomatonTooLargeError:
        deterministic = {}
    return {
        "database": name,
        "automaton": size(automaton),
        "minimal_deterministic": deterministic,
        "build_ms": 1e3 * (built - started),
        "reduce_ms": 1e3 * (compiled - built),
        "gold": len(queries),
        "gold_accepted": len(queries) - len(rejected),
        "gold_rejected": rejected,
        "samples": samples,
        "samples_by_verdict": dict(said),
    }


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    rows = [json.loads(line) for line in (DATA / "dev.jsonl").read_text().splitlines()]
    databases = sorted({row["db_id"] for row in rows})[: 2 if quick else None]
    samples, max_depth = (50 if quick else 1000), 2
    # The compiled kernels are loaded before anything is timed.
    compile_expression(sql({"t": ["c"]}, max_depth=0).expression, deterministic=False)
    results = [
        measure(name, [r["query"] for r in rows if r["db_id"] == name], samples, max_depth)
        for name in databases
    ]
    said: Counter[str] = sum((Counter(r["samples_by_verdict"]) for r in results), Counter())
    gold = sum(r["gold"] for r in results)
    drawn = sum(said.values())
    return {
        "benchmark": NAME,
        "command": "python benchmarks/sql_coverage.py",
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "sqlite": sqlite3.sqlite_version},
        "max_depth": max_depth,
        "gold": gold,
        "gold_accepted_share": sum(r["gold_accepted"] for r in results) / gold,
        "samples": drawn,
        "samples_with_syntax_errors": said["syntax error"],
        "samples_prepared_share": said["fine"] / drawn,
        "samples_by_verdict": dict(said.most_common()),
        "databases": results,
    }


def tables(results: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"{results['gold_accepted_share']:.1%} of {results['gold']} gold queries accepted; "
        f"{results['samples_with_syntax_errors']} syntax errors in {results['samples']} samples, "
        f"{results['samples_prepared_share']:.1%} of which SQLite prepares"
    )
    for column in ("database", "gold", "accepted", "states", "edges", "minimal DFA", "build ms"):
        table.add_column(column, justify="left" if column == "database" else "right")
    for row in results["databases"]:
        table.add_row(
            row["database"],
            str(row["gold"]),
            str(row["gold_accepted"]),
            f"{row['automaton']['states']:,}",
            f"{row['automaton']['edges']:,}",
            f"{row['minimal_deterministic'].get('states', 'too large'):,}",
            f"{row['build_ms'] + row['reduce_ms']:.0f}",
        )
    return [table]


def save(results: dict[str, Any], folder: Path) -> list[Path]:
    return [write(rounded(results), folder / f"{NAME}.json")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two databases, nothing is written")
    quick = parser.parse_args().quick
    if not DATA.exists():
        sys.exit(f"there is no {DATA}; set PCGCD_DATA to the folder that has spider/")
    found = main(quick=quick)
    for item in tables(found):
        Console().print(item)
    if not quick:
        save(found, RESULTS)

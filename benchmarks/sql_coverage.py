"""Does ``sql(database)`` accept what people write, and can SQLite run what it accepts?

For each database of Spider's development set: the size of its automaton, what it costs to build and
to lift to GPT-2's tokens, the share of the gold queries (with white space as people write it) that
is accepted, and the share of sampled queries that SQLite prepares (``EXPLAIN``; nothing is
executed). Samples are drawn in four ways: uniformly over the edges of the automaton or over the
allowed next bytes, short or long. And how many kinds of SQLite's syntax diagrams, and how many
ordinary queries of analysts, are accepted.

    python benchmarks/sql_coverage.py            # needs the data in $PCGCD_DATA
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RESULTS, machine, rounded
from common import write_json as write
from rich.console import Console
from rich.table import Table

import pcgcd
from pcgcd import FiniteAutomaton
from pcgcd.automata.lifting import lift
from pcgcd.constraints.sql import sql
from pcgcd.experiments.data.spider import tidy
from pcgcd.experiments.nfa_dfa import gpt2_vocabulary
from pcgcd.testing.walks import RandomWalks

NAME = "sql"
DATA = Path(os.environ.get("PCGCD_DATA", "../shared/data")).resolve() / "spider"
TYPICAL = "concert_singer"
SYNTAX_ERRORS = ("syntax error", "incomplete input", "unrecognized token")


class ByteWalks:
    """Words byte by byte, each allowed next byte alike: what an unconstrained model would do."""

    def __init__(self, automaton: FiniteAutomaton, seed: int) -> None:
        self.random = random.Random(seed)
        self.index = automaton.edge_index
        self.accepting = automaton.accepting_mask
        self.distance = automaton.distance_to_accept
        labels = automaton.labels
        self.members = labels.label_class[:, labels.token_class]
        self.start = np.flatnonzero(automaton.initial_mask)

    def word(self, length: int) -> bytes:
        """So many bytes if there are as many, then the shortest way to an end."""
        states, found = self.start, bytearray()
        while True:
            if len(found) >= length and self.accepting[states].any():
                return bytes(found)
            spans = [np.arange(*self.index.first[s : s + 2]) for s in states.tolist()]
            edges = np.concatenate(spans)
            if len(found) >= length:
                near = self.distance[self.index.target[edges]]
                edges = edges[near == near.min()]
            if not len(edges):
                return bytes(found)
            labels, targets = self.index.label[edges], self.index.target[edges]
            allowed = np.flatnonzero(self.members[np.unique(labels)].any(axis=0))
            byte = self.random.choice(allowed.tolist())
            states = np.unique(targets[self.members[labels, byte]])
            found.append(byte)


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


def foreign_keys(name: str) -> list[tuple[str, str]]:
    """Which tables refer to which: Spider keeps that beside the databases."""
    listed = json.loads((DATA / "tables.json").read_text())
    (entry,) = (entry for entry in listed if entry["db_id"] == name)
    table = [entry["table_names_original"][i] for i, _ in entry["column_names_original"][1:]]
    return [(table[a - 1], table[b - 1]) for a, b in entry["foreign_keys"]]


def queries_of(automaton: FiniteAutomaton, samples: int) -> Iterator[tuple[str, str]]:
    """How it was drawn, and the query."""
    edges, byte_by_byte = RandomWalks(automaton, seed=0), ByteWalks(automaton, seed=0)
    for name, length in (("short", 20), ("long", 300)):
        for _ in range(samples):
            yield f"edges, {name}", bytes(edges.word(edges.random.randrange(length))).decode()
            drawn = byte_by_byte.word(byte_by_byte.random.randrange(length))
            yield f"bytes, {name}", drawn.decode()


def measure(name: str, queries: list[str], samples: int) -> dict[str, Any]:
    path = DATA / "database" / name / f"{name}.sqlite"
    started = time.process_time()
    automaton = sql(path, foreign_keys=foreign_keys(name)).automaton
    built = time.process_time()
    rejected = [query for query in queries if not automaton.accepts(query.encode())]
    connection = sqlite3.connect(f"file:{path.resolve()}?mode=ro", uri=True)
    said: dict[str, Counter[str]] = {}
    for way, query in queries_of(automaton, samples):
        said.setdefault(way, Counter())[verdict(connection, query)] += 1
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'")
    number = tables.fetchone()[0]
    connection.close()
    return {
        "database": name,
        "tables": number,
        "automaton": size(automaton),
        "build_cpu_ms": 1e3 * (built - started),
        "gold": len(queries),
        "gold_accepted": len(queries) - len(rejected),
        "gold_rejected": rejected,
        "samples_by_verdict": {way: dict(verdicts) for way, verdicts in said.items()},
    }


def memory(name: str) -> dict[str, Any]:
    """What building and lifting takes in a fresh process, over what an import of pcgcd has."""
    script = f"import sql_coverage; sql_coverage.print_memory({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=HERE,
        env={**os.environ, "PCGCD_DATA": str(DATA.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_memory(name: str) -> None:
    """The other side of :func:`memory`."""
    vocabulary = gpt2_vocabulary(DATA.parent / "tokenizers" / "gpt2")
    lift(sql({"t": ["c"]}, max_depth=0).automaton, vocabulary)
    keys = foreign_keys(name)
    base, started = peak(), time.process_time()
    automaton = sql(DATA / "database" / name / f"{name}.sqlite", foreign_keys=keys).automaton
    built, built_peak = time.process_time(), peak()
    lifted = lift(automaton, vocabulary)
    result = {
        "build_cpu_ms": 1e3 * (built - started),
        "build_mb": built_peak - base,
        "lift_cpu_ms": 1e3 * (time.process_time() - built),
        "build_and_lift_mb": peak() - base,
        "token_automaton": size(lifted),
    }
    print(json.dumps(result))


def peak() -> float:
    """The most memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def diagrams() -> dict[str, Any]:
    """Which kinds of SQLite's own syntax diagrams are accepted."""
    sys.path.insert(0, str(HERE.parent))
    kinds = importlib.import_module("tests.constraints.sql_diagrams")
    automaton = sql(kinds.TABLES).automaton
    refused = [k for k, query in kinds.KINDS.items() if not automaton.accepts(query.encode())]
    return {"kinds": len(kinds.KINDS), "refused": refused}


def analysts() -> dict[str, Any]:
    """Which ordinary queries about a shop are accepted."""
    shop = importlib.import_module("tests.constraints.sql_analysts")
    automaton = sql(shop.TABLES, foreign_keys=shop.FOREIGN_KEYS).automaton
    queries = shop.queries()
    refused = [query for query in queries if not automaton.accepts(query.encode())]
    return {"queries": len(queries), "automaton": size(automaton), "refused": refused}


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    rows = [json.loads(line) for line in (DATA / "dev.jsonl").read_text().splitlines()]
    databases = sorted({row["db_id"] for row in rows})[: 2 if quick else None]
    samples = 10 if quick else 150
    # The compiled kernels are loaded before anything is timed.
    sql({"t": ["c"]}, max_depth=0)
    results = [
        measure(name, [tidy(r["query"]) for r in rows if r["db_id"] == name], samples)
        for name in databases
    ]
    ways = list(results[0]["samples_by_verdict"])
    said = {
        way: sum((Counter(r["samples_by_verdict"][way]) for r in results), Counter())
        for way in ways
    }
    gold = sum(r["gold"] for r in results)
    drawn = sum(sum(verdicts.values()) for verdicts in said.values())
    largest = max(results, key=lambda row: (row["tables"], row["database"]))["database"]
    return {
        "benchmark": NAME,
        "command": "python benchmarks/sql_coverage.py",
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "sqlite": sqlite3.sqlite_version},
        "gold": gold,
        "gold_accepted_share": sum(r["gold_accepted"] for r in results) / gold,
        "samples": drawn,
        "samples_with_syntax_errors": sum(v["syntax error"] for v in said.values()),
        "samples_prepared_share": sum(v["fine"] for v in said.values()) / drawn,
        "samples_by_verdict": {way: dict(verdicts) for way, verdicts in said.items()},
        "diagrams": diagrams(),
        "analysts": analysts(),
        "memory": {name: memory(name) for name in ([] if quick else [TYPICAL, largest])},
        "databases": results,
    }


def tables(results: dict[str, Any]) -> list[Table | str]:
    table = Table(
        title=f"{results['gold_accepted_share']:.1%} of {results['gold']} gold queries accepted; "
        f"{results['samples_with_syntax_errors']} syntax errors in {results['samples']} samples, "
        f"{results['samples_prepared_share']:.1%} of which SQLite prepares"
    )
    ways = list(results["samples_by_verdict"])
    columns = ("database", "tables", "gold", "accepted", "states", "edges", "build CPU ms", *ways)
    for column in columns:
        table.add_column(column, justify="left" if column == "database" else "right")
    for row in results["databases"]:
        table.add_row(
            row["database"],
            str(row["tables"]),
            str(row["gold"]),
            str(row["gold_accepted"]),
            f"{row['automaton']['states']:,}",
            f"{row['automaton']['edges']:,}",
            f"{row['build_cpu_ms']:.0f}",
            *(prepared(row["samples_by_verdict"][way]) for way in ways),
        )
    kinds = results["diagrams"]
    notes = [
        f"{kinds['kinds'] - len(kinds['refused'])} of {kinds['kinds']} kinds of SQLite's syntax "
        f"diagrams are accepted; not: {', '.join(kinds['refused'])}."
    ]
    shop = results["analysts"]
    notes.append(
        f"{shop['queries'] - len(shop['refused'])} of {shop['queries']} ordinary queries of "
        f"analysts are accepted."
    )
    for name, found in results["memory"].items():
        notes.append(
            f"{name} with GPT-2's tokens: {found['token_automaton']['states']:,} states and "
            f"{found['token_automaton']['edges']:,} edges; built and lifted in "
            f"{found['build_cpu_ms'] + found['lift_cpu_ms']:.0f} CPU ms and "
            f"{found['build_and_lift_mb']:.0f} MB at most, over what an import takes."
        )
    return [table, "\n".join(notes)]


def prepared(verdicts: dict[str, int]) -> str:
    """The share of samples that SQLite prepares."""
    return f"{verdicts.get('fine', 0) / sum(verdicts.values()):.1%}"


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

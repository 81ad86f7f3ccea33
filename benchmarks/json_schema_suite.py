"""On how many real JSON schemas is each engine fully correct?

Schemas and instances of JSONSchemaBench and of the official JSON-Schema-Test-Suite, ours and three
other engines on the same ones in one run, each in a process of its own:

    python benchmarks/run.py --only json_schema_suite --peer-python peers/bin/python
    python benchmarks/json_schema_suite.py --peer-python peers/bin/python --every 10

Needs the data folder (PCGCD_DATA, by default ../shared/data) and ``jsonschema[format]``. An engine
is fully correct on a schema if it compiles it in time, accepts some text of every instance given as
valid (json_schema_suite_texts.py says which texts are tried) and none of those given as invalid.
Ours is also probed by random words, which ``jsonschema`` must accept.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from common import RESULTS, in_fresh_process, machine, rounded
from common import write_json as write
from json_schema_suite_running import Row, data_folder, run_engine
from json_schema_suite_worker import OPTIONS
from rich import box
from rich.console import Console
from rich.table import Table

import pcgcd

NAME = "json_schema_suite"
RESULT_FILE = "json_schema.json"
SECONDS_LIMIT = 20.0
QUICK_STEP = 40
METHOD = (
    "each engine a process of its own with one thread, restarted where it crashes or is over the "
    "limit of CPU seconds; an instance is accepted if the engine accepts some text of it to its "
    "end: separators ', ' and ': ' or ',' and ':', strings with or without escapes, whole floats "
    "with or without the point, members of objects in any order, the schema's first (depth first, "
    "with a limit of steps); texts are fed as the tokens of their single bytes; fully correct: "
    "compiled in time, every valid instance accepted, every invalid one rejected; unsound: an "
    "invalid one accepted; incomplete: a valid one rejected; not covered: refused, crashed or over "
    "the limit; schemas without instances count as compiled only; refused but right with final "
    "check: of those not covered, how many are fully correct with relax={'uniqueItems'} and "
    "Constraint.check, which generate applies to whole texts"
)
SETTINGS = {
    "pcgcd": "open_objects=True, which is what JSON schema means; compact white space or that of "
    "json.dumps, the schema's order of members",
    "xgrammar": "defaults: any white space, strict_mode=True (members not named are forbidden)",
    "xgrammar, strict_mode=False": "strict_mode=False, which is what JSON schema means",
    "llguidance": "defaults: flexible white space, lenient off (refuses what it cannot enforce)",
    "outlines-core": "defaults: at most one space between parts",
}


# -- the schemas ------------------------------------------------------------------------------


def all_rows(folder: Path) -> Iterator[Row]:
    """Every schema: where it is from, its name, its instances and whether they are valid."""
    with (folder / "jsonschemabench.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            tests = [(value, True) for value in row["valid"]]
            tests += [(value, False) for value in row["invalid"]]
            part = row["id"].split("---")[0] if "---" in row["id"] else row["id"].split("_")[0]
            yield _row("bench", part, row["id"], row["schema"], tests)
    suite = folder / "test-suite"
    for path in sorted(suite.rglob("*.json")):
        part = path.relative_to(suite).with_suffix("").as_posix()
        for group in json.loads(path.read_text(encoding="utf-8")):
            tests = [(test["data"], test["valid"]) for test in group["tests"]]
            name = f"{part}: {group['description']}"
            yield _row("suite", part, name, group["schema"], tests)


def _row(of: str, part: str, name: str, schema: Any, tests: list[tuple[Any, bool]]) -> Row:
    return {"set": of, "part": part, "id": name, "schema": schema, "tests": tests}


def chosen_rows(step: int, only: str | None) -> list[Row]:
    rows = [row for row in all_rows(data_folder() / "json_schema") if only in (None, row["set"])]
    return [{"number": number, **row} for number, row in enumerate(rows) if number % step == 0]


# -- summaries --------------------------------------------------------------------------------


def verdict(row: Row, result: dict[str, Any]) -> dict[str, Any]:
    """Whether an engine is right on a schema, from what it accepted."""
    if "error" in result:
        return {"compiled": False, "unsound": 0, "incomplete": 0, "right": False}
    pairs = list(zip(result["accepted"], (valid for _, valid in row["tests"]), strict=True))
    unsound = sum(accepted and not valid for accepted, valid in pairs)
    incomplete = sum(valid and not accepted for accepted, valid in pairs)
    words = len(result.get("unsound_words", ()))
    return {
        "compiled": True,
        "unsound": unsound,
        "incomplete": incomplete,
        "right": bool(pairs) and not unsound and not incomplete and not words,
    }


def counted(pairs: list[tuple[Row, dict[str, Any]]]) -> dict[str, int]:
    """How many schemas of a part are what."""
    verdicts = [verdict(row, result) for row, result in pairs]
    return {
        "schemas": len(pairs),
        "with_instances": sum(bool(row["tests"]) for row, _ in pairs),
        "compiled": sum(one["compiled"] for one in verdicts),
        "wholly_right": sum(one["right"] for one in verdicts),
        "unsound": sum(one["unsound"] > 0 for one in verdicts),
        "incomplete": sum(one["incomplete"] > 0 for one in verdicts),
        "not_covered": sum(not one["compiled"] for one in verdicts),
        "invalid_accepted": sum(one["unsound"] for one in verdicts),
        "valid_rejected": sum(one["incomplete"] for one in verdicts),
    }


def kind_of_error(error: str) -> str:
    return error if error == "crashed" or error.startswith("over") else error.split(":")[0]


def summary(pairs: list[tuple[Row, dict[str, Any]]]) -> dict[str, Any]:
    """What is reported of an engine on a set: counts, times, errors, and what is wrong where."""
    results = [result for _, result in pairs]
    times = sorted(result["compile_ms"] for result in results if "compile_ms" in result)
    parts: dict[str, list[tuple[Row, dict[str, Any]]]] = collections.defaultdict(list)
    for row, result in pairs:
        parts[row["part"]].append((row, result))
    verdicts = [(row["id"], verdict(row, result)) for row, result in pairs]
    report: dict[str, Any] = {
        **counted(pairs),
        "searches_cut": sum(result["cut"] for result in results),
        "compile_ms": {
            "p50": statistics.median(times),
            "p95": times[int(0.95 * (len(times) - 1))],
            "max": times[-1],
        }
        if times
        else {},
        "errors": dict(
            collections.Counter(kind_of_error(r["error"]) for r in results if "error" in r)
        ),
        "by_part": {part: counted(inside) for part, inside in parts.items()},
        "unsound_schemas": [name for name, one in verdicts if one["unsound"]],
        "incomplete_schemas": [name for name, one in verdicts if one["incomplete"]],
        "not_covered_schemas": [name for name, one in verdicts if not one["compiled"]],
    }
    if any("words" in result for result in results):
        checked = sum(result.get("right_with_final_check", False) for result in results)
        report["refused_but_right_with_final_check"] = checked
        report["random_words"] = sum(result.get("words", 0) for result in results)
        report["random_words_unsound"] = sum(len(r.get("unsound_words", ())) for r in results)
        states = sorted(result["states"] for result in results if "states" in result)
        report["states"] = {
            "p50": statistics.median(states),
            "p95": states[int(0.95 * (len(states) - 1))],
        }
    return report


def goals(sets: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project wants of these numbers, and whether they show it."""
    found = []
    for name, engines in sets.items():
        ours = engines["pcgcd"]
        found.append(
            {
                "goal": f"{name}: no unsound schema",
                "value": ours["unsound"],
                "met": not ours["unsound"],
            }
        )
        words = ours["random_words_unsound"]
        found.append({"goal": f"{name}: no unsound word", "value": words, "met": not words})
        for peer in engines:
            if peer != "pcgcd":
                limit = engines[peer]["wholly_right"]
                found.append(
                    {
                        "goal": f"{name}: more schemas fully correct than {peer}",
                        "value": ours["wholly_right"],
                        "limit": limit,
                        "met": ours["wholly_right"] > limit,
                    }
                )
    return found


# -- the benchmark ----------------------------------------------------------------------------


def available(python: str) -> dict[str, str]:
    """The peers that are installed, and their versions."""
    found = {}
    for library in dict.fromkeys(name.split(",")[0] for name in OPTIONS if name != "pcgcd"):
        try:
            found[library] = str(in_fresh_process("peer_version.py", [library], python)["version"])
        except (RuntimeError, OSError):
            continue
    return found


def known_results(path: Path | None) -> dict[tuple[str, int], dict[str, Any]]:
    """What an interrupted run has left."""
    if path is None or not path.exists():
        return {}
    whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return {(r["engine"], r["number"]): r for r in map(json.loads, whole)}


def main(
    quick: bool = False,
    peer_python: str | None = None,
    step: int = 1,
    only: str | None = None,
    vocabulary: str = "bytes",
    limit: float = SECONDS_LIMIT,
    resume: Path | None = None,
    engines: list[str] | None = None,
    verbose: bool = False,
) -> dict[str, Any]:
    """Measure everything; a quick run takes each 40th schema."""
    python = peer_python or sys.executable
    step = QUICK_STEP if quick else step
    command = f"python benchmarks/{NAME}.py"
    command += " --peer-python <a Python with the three engines>" if peer_python else ""
    command += f" --vocabulary {vocabulary} --limit {limit:g}"
    command += f" --every {step}" if step > 1 else ""
    command += f" --engines {' '.join(engines)}" if engines else ""
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {
            "pcgcd": pcgcd.__version__,
            "jsonschema": metadata.version("jsonschema"),
            **available(python),
        },
        "method": METHOD,
        "vocabulary": vocabulary,
        "cpu_seconds_limit": limit,
        "settings": SETTINGS,
    }
    if not (data_folder() / "json_schema").is_dir():
        results["skipped"] = "the data folder (PCGCD_DATA) has no json_schema: nothing was measured"
        return results
    names = [
        name
        for name in engines or OPTIONS
        if name == "pcgcd" or name.split(",")[0] in results["versions"]
    ]
    results["missing"] = [name for name in OPTIONS if name not in names]
    rows = chosen_rows(step, only)
    known = known_results(resume)
    by_number = {row["number"]: row for row in rows}
    for name in names:
        left = [row for row in rows if (name, row["number"]) not in known]
        chosen = sys.executable if name == "pcgcd" else python
        for result in run_engine(name, left, chosen, vocabulary, limit):
            known[name, result["number"]] = result
            if resume is not None:
                with resume.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            if verbose:
                tell(by_number[result["number"]], result)
    results["sets"] = {
        part: {
            name: summary([(row, known[name, row["number"]]) for row in rows if row["set"] == part])
            for name in names
        }
        for part in dict.fromkeys(row["set"] for row in rows)
    }
    results["goals"] = goals(results["sets"]) if "pcgcd" in names else []
    return dict(rounded(results))


# -- showing ----------------------------------------------------------------------------------


def tell(row: Row, result: dict[str, Any]) -> None:
    """Name a schema on which an engine is not fully correct."""
    found = verdict(row, result)
    if "error" in result:
        print(f"{result['engine']}: {row['id']}: {result['error']}", flush=True)
    elif found["unsound"] or found["incomplete"] or result.get("unsound_words"):
        wrong = [
            ("accepted" if accepted else "rejected", json.dumps(value)[:200])
            for accepted, (value, valid) in zip(result["accepted"], row["tests"])
            if accepted != valid
        ]
        words = result.get("unsound_words", [])[:2]
        print(
            f"{result['engine']}: {row['id']}: {wrong[:2]} {words} cut {result['cut']}", flush=True
        )


COLUMNS = {
    "compiled": "compiled",
    "wholly_right": "right",
    "unsound": "unsound",
    "incomplete": "incomplete",
}


def set_table(name: str, engines: dict[str, Any]) -> Table:
    first = next(iter(engines.values()))
    title = f"{name}: {first['schemas']} schemas, {first['with_instances']} with instances"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", no_wrap=True)
    for title in (*COLUMNS.values(), "ms, p50 / p95"):
        table.add_column(title, justify="right", no_wrap=True)
    for engine, found in engines.items():
        times = " / ".join(f"{found['compile_ms'].get(level, 0):,.0f}" for level in ("p50", "p95"))
        table.add_row(engine, *(f"{found[column]:,}" for column in COLUMNS), times)
    return table


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    if "skipped" in results:
        return [results["skipped"]]
    shown: list[Table | str] = [set_table(*pair) for pair in results["sets"].items()]
    for name, engines in results["sets"].items():
        if "pcgcd" in engines:
            ours = engines["pcgcd"]
            bad, words = ours["random_words_unsound"], ours["random_words"]
            shown.append(f"{name}: {bad} of {words:,} random words of ours unsound")
    shown += [f"not so: {goal['goal']}" for goal in results["goals"] if not goal["met"]]
    if results["missing"]:
        shown.append(f"left out: {'; '.join(results['missing'])}")
    return shown


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    return [] if "skipped" in results else [write(results, folder / RESULT_FILE)]


def command_line(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", help="a Python that has the peers (this one)")
    parser.add_argument("--only", choices=("bench", "suite"))
    parser.add_argument("--engines", nargs="+", choices=tuple(OPTIONS), help="only these")
    parser.add_argument("--every", type=int, default=1, help="take only each so many-th schema")
    parser.add_argument("--vocabulary", choices=("bytes", "gpt2", "smollm2"), default="bytes")
    parser.add_argument(
        "--limit", type=float, default=SECONDS_LIMIT, help="CPU seconds for a schema"
    )
    parser.add_argument("--resume", type=Path, help="file of partial results, read and added to")
    parser.add_argument("--verbose", action="store_true", help="name the schemas that fail")
    parser.add_argument("--out", type=Path, help="folder of the results (docs/results)")
    given = parser.parse_args(argv)
    results = main(
        peer_python=given.peer_python,
        step=given.every,
        only=given.only,
        vocabulary=given.vocabulary,
        limit=given.limit,
        resume=given.resume,
        engines=given.engines,
        verbose=given.verbose,
    )
    console = Console()
    for item in tables(results):
        console.print(item)
    is_whole = given.every == 1 and given.only is None and given.engines is None
    if given.out or is_whole:
        for path in save(results, given.out or RESULTS):
            console.print(f"written: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(command_line())

"""What a person gets first: ordinary questions, the library's defaults, exact answers.

    python benchmarks/first_answers.py --out first.jsonl --whitespace compact,bounded,free

Each line of the output is one run; a run that is there already is not done again. The questions
are those of ``first_answers_tasks.py``, or of a file of JSON lines with the same three fields. An
answer counts as right if all of it is exactly right.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, machine, rounded, write_json
from first_answers_tasks import TASKS, Task
from rich.console import Console
from rich.table import Table

import pcgcd
from pcgcd.constraints import json_schema
from pcgcd.lm import load_model

# What differs from the defaults of generate.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "gcd": {"method": "gcd"},
    "gcd-not-resampled": {"method": "gcd", "smc": False},
    "gcd-spelling": {"method": "gcd", "spelling": True},
    "beam": {"temperature": 0},
    "greedy": {"temperature": 0, "particles": 1},
}
BUDGET = 48
SHARES = ("right", "weight")
MEANS = {
    "right": "best is right",
    "weight": "weight of right answers",
    "log_evidence": "log-evidence",
    "mean_log_prob": "mean log p",
    "seconds": "CPU s",
}
METHOD = (
    "20 questions, each with one to three plain fields, written before any was run; the schema of "
    "the answer, closed; a budget of 48 tokens; 8 particles; an answer is right if it equals the "
    "expected one exactly. At temperature 0 log-evidence is a lower bound. CPU seconds of one "
    "thread."
)


def main() -> None:
    """Run what is missing, and print the table of everything."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="the journal, one run on each line")
    add("--model", help="a folder, hub id or GGUF file; the default model without it")
    add("--tasks", type=Path, help="other questions, as JSON lines")
    add("--settings", default="beam,gcd", help=f"of {', '.join(SETTINGS)} (%(default)s)")
    add("--whitespace", default="", help="of compact, bounded, free; the library's default without")
    add("--seeds", type=int, default=2, help="of what is sampled (%(default)s)")
    add("--publish", action="store_true", help="write docs/results/first_answers.json")
    add("--raw", action="store_true", help="continue the prompt as it stands")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tasks = _read(options.tasks) if options.tasks else TASKS
    settings = [
        name.strip() for name in options.settings.split(";" if ";" in options.settings else ",")
    ]
    spaces = options.whitespace.split(",") if options.whitespace else [None]
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {_key(row) for row in rows}
    lm: Any = None
    for place, setting, space, seed in _plan(len(tasks), settings, spaces, options.seeds):
        row = {
            "model": Path(options.model).stem if options.model else "default",
            "raw": options.raw,
            "setting": setting,
            "whitespace": space,
            "seed": seed,
            "task": place,
        }
        if _key(row) in done:
            continue
        lm = lm or load_model(options.model)
        row |= _run(lm, tasks[place], setting, space, seed, options.raw)
        rows.append(row)
        with options.out.open("a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    results = {"method": METHOD, "summary": summary(rows), "machine": machine()}
    Console(width=160).print(*tables(results))
    if options.publish:
        write_json(rounded(results), RESULTS / "first_answers.json")


def _read(path: Path) -> list[Task]:
    return [Task(**json.loads(line)) for line in path.read_text().splitlines()]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "raw", "setting", "whitespace", "seed", "task"))


def _plan(
    count: int, settings: list[str], spaces: list[str | None], seeds: int
) -> Iterator[tuple[int, str, str | None, int]]:
    for place in range(count):
        for setting in settings:
            for space in spaces:
                for seed in range(1 if SETTINGS[setting].get("temperature") == 0 else seeds):
                    yield place, setting, space, seed


def _run(lm: Any, task: Task, setting: str, space: Any, seed: int, raw: bool) -> dict[str, Any]:
    wanted: Any = task.schema if space is None else json_schema(task.schema, whitespace=space)
    asked: dict[str, Any] = {"prompt": task.prompt}
    if raw:
        asked = {"prompt": task.prompt + "\n", "chat": False}
    start = time.process_time()
    result = pcgcd.generate(lm, wanted, **asked, budget=BUDGET, seed=seed, **SETTINGS[setting])
    posterior = result.posterior()
    return {
        "best": result.best,
        "right": _value(result.best) == task.answer,
        "weight": sum(w for text, w in posterior.items() if _value(text) == task.answer),
        "log_evidence": result.log_evidence if math.isfinite(result.log_evidence) else None,
        "texts": len(posterior),
        "mean_log_prob": sum(s.weight * s.log_prob for s in result if s.weight),
        "seconds": time.process_time() - start,
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The means of the runs of each model, white space and setting."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["model"], row["raw"], row["whitespace"] or "bounded", row["setting"]].append(row)
    return [
        {
            "model": model,
            "raw": raw,
            "whitespace": space,
            "setting": setting,
            "runs": len(group),
            **{name: _mean(group, name) for name in MEANS},
        }
        for (model, raw, space, setting), group in sorted(groups.items(), key=str)
    ]


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    values = [float(row[name]) for row in rows if row[name] is not None]
    return sum(values) / max(len(values), 1)


def tables(results: dict[str, Any]) -> list[Table]:
    """The table of a summary."""
    table = Table()
    for column in ("model", "white space", "setting"):
        table.add_column(column)
    for column in ("runs", *MEANS.values()):
        table.add_column(column, justify="right")
    for row in results["summary"]:
        model = row["model"] + (", raw prompts" if row["raw"] else "")
        means = [f"{row[name]:.{2 if name in SHARES else 1}f}" for name in MEANS]
        table.add_row(model, row["whitespace"], row["setting"], str(row["runs"]), *means)
    return [table]


if __name__ == "__main__":
    main()

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
from first_answers_tasks import TASKS, Task

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
    _print(rows)


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
    schema = {**task.schema, "additionalProperties": False}
    wanted: Any = schema if space is None else json_schema(schema, whitespace=space)
    prompt: Any = task.prompt + "\n" if raw else [{"role": "user", "content": task.prompt}]
    start = time.process_time()
    result = pcgcd.generate(
        lm, wanted, prompt=prompt, budget=BUDGET, seed=seed, **SETTINGS[setting]
    )
    likely = max(zip(result.log_probs, result.texts, strict=True))[1]
    posterior = result.posterior()
    return {
        "best": result.best,
        "right": _value(result.best) == task.answer,
        "likely_right": _value(likely) == task.answer,
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


def _print(rows: list[dict[str, Any]]) -> None:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in ("model", "raw", "whitespace", "setting"))].append(row)
    names = "model", "white space", "setting", "runs", "best", "most probable", "weight"
    print("| " + " | ".join([*names, "log Z", "E[log p]", "CPU s"]) + " |")
    print("|---|---|---|" + "---:|" * 7)
    for (model, raw, space, setting), group in sorted(groups.items(), key=str):
        cells = [model + (", raw" if raw else ""), space or "default", setting, str(len(group))]
        cells += [f"{_mean(group, 'right'):.2f}", f"{_mean(group, 'likely_right'):.2f}"]
        cells += [f"{_mean(group, 'weight'):.2f}", f"{_mean(group, 'log_evidence'):.1f}"]
        cells += [f"{_mean(group, 'mean_log_prob'):.1f}", f"{_mean(group, 'seconds'):.1f}"]
        print("| " + " | ".join(cells) + " |")


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    values = [float(row[name]) for row in rows if row[name] is not None]
    return sum(values) / max(len(values), 1)


if __name__ == "__main__":
    main()

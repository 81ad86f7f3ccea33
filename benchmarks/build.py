"""How long a JSON schema takes to build, how much memory, and how long a first use waits.

The schemas of JSONSchemaBench over GPT-2's vocabulary, one after the other in a fresh process with
compiled loops, and a small schema in a process with an empty cache of compiled loops:

    python benchmarks/build.py
    python benchmarks/build.py --every 10 --out /tmp

Needs the data folder (PCGCD_DATA, by default ../shared/data).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from common import HERE, RESULTS, machine, rounded, write_json
from json_schema_suite_running import data_folder
from rich import box
from rich.console import Console
from rich.table import Table

RESULT_FILE = "build.json"
LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
STEPS = ("expression_ms", "first_mask_ms", "bytes_ms", "lift_ms", "full_ms", "states")
METHOD = (
    "CPU milliseconds in one process and one thread: from the schema to the expression, from the "
    "schema to the first mask of GCD (lazy: automata are written where they are entered), on from "
    "there to the automaton over bytes and to the token automaton (full: all of that together); "
    "memory: peak resident size of the process above what it is before the first schema; cold: CPU "
    "seconds of a process with an empty NUMBA_CACHE_DIR"
)
BUDGET = 10_000
SMALL = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def vocabulary() -> Any:
    from engines_workload import gpt2

    from pcgcd.automata import Vocabulary

    tokenizer = gpt2(data_folder())
    result = Vocabulary.from_bytes(tokenizer.tokens, tokenizer.eos)
    _ = result.trie, result.fingerprint
    return result


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(schema: Any, tokens: Any) -> dict[str, Any]:
    """The times of one schema; each step is done once."""
    from pcgcd.constraints import json_schema
    from pcgcd.decoding.targets import Target
    from pcgcd.errors import PcgcdError

    clock = time.process_time
    start = clock()
    try:
        constraint = json_schema(schema)
        expression = clock()
        Target.of(constraint, tokens).engine().start([BUDGET]).allowed()
        first = clock()
        _ = constraint.automaton
        over_bytes = clock()
        lifted = constraint.compile(tokens)
        end = clock()
    except PcgcdError as error:
        return {"error": type(error).__name__, "refused_ms": 1e3 * (clock() - start)}
    return {
        "expression_ms": 1e3 * (expression - start),
        "bytes_ms": 1e3 * (over_bytes - first),
        "lift_ms": 1e3 * (end - over_bytes),
        "full_ms": 1e3 * (end - start),
        "first_mask_ms": 1e3 * (first - start),
        "states": lifted.num_states,
        "lowered": sum("lowered" in line for line in constraint.dropped),
    }


def cold() -> dict[str, float]:
    """CPU seconds from the start of a process: to the import, to the first mask, to P-GCD."""
    import pcgcd

    found = {"import": time.process_time()}
    from pcgcd.constraints import json_schema
    from pcgcd.decoding.targets import Target

    target = Target.of(json_schema(SMALL), vocabulary())
    target.engine().start([40]).allowed()
    found["first mask"] = time.process_time()
    import torch

    automaton = target.automaton

    generator = torch.Generator().manual_seed(0)
    hmm = pcgcd.HMM.random(64, automaton.vocab_size, generator=generator)
    (hmm * automaton).start([40] * 4).next_tokens()
    found["first P-GCD token"] = time.process_time()
    return found


def cold_process() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.run(
            [sys.executable, str(HERE / "build.py"), "--cold"],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return dict(json.loads(output.stdout))


def levels(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {name: ordered[int(part * (len(ordered) - 1))] for name, part in LEVELS.items()}


def main(step: int = 1) -> dict[str, Any]:
    """Measure everything."""
    from pcgcd.automata.kernels.jit import always_compiled

    warnings.simplefilter("ignore")
    with always_compiled():
        tokens = vocabulary()
        for schema in (SMALL, {"type": "object"}, True):
            one(schema, tokens)
    base = peak()
    rows = []
    with (data_folder() / "json_schema" / "jsonschemabench.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % step == 0:
                rows.append(one(json.loads(line)["schema"], tokens))
    built = [row for row in rows if "error" not in row]
    every = f" --every {step}" if step > 1 else ""
    return dict(
        rounded(
            {
                "benchmark": "build",
                "command": f"python benchmarks/build.py{every}",
                "machine": machine(),
                "method": METHOD,
                "schemas": len(rows),
                "refused": len(rows) - len(built),
                "slowest_refusal_ms": max(
                    (r["refused_ms"] for r in rows if "error" in r), default=0
                ),
                "with_lowered_bounds": sum(row["lowered"] > 0 for row in built),
                **{name: levels([row[name] for row in built]) for name in STEPS},
                "peak_memory_mb": peak() - base,
                "cold_cpu_seconds": cold_process(),
            }
        )
    )


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed: the distribution of each step, then memory and the first use."""
    title = f"{results['schemas']} schemas, GPT-2's tokens; {results['refused']} refused"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", no_wrap=True)
    for level in LEVELS:
        table.add_column(level, justify="right", no_wrap=True)
    for name in STEPS:
        shown = name.removesuffix("_ms").replace("_", " ") + (", ms" if name != "states" else "")
        table.add_row(shown, *(f"{results[name][level]:,.0f}" for level in LEVELS))
    cold = ", ".join(f"{name} {value:.1f}" for name, value in results["cold_cpu_seconds"].items())
    return [
        table,
        f"peak memory above the base: {results['peak_memory_mb']:.0f} MB; schemas with lowered "
        f"bounds: {results['with_lowered_bounds']}",
        f"CPU seconds from an empty cache of compiled loops: {cold}",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take only each so many-th schema")
    parser.add_argument("--cold", action="store_true", help="only a first use, in this process")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    given = parser.parse_args()
    if given.cold:
        print(json.dumps(cold()))
    else:
        results = main(given.every)
        for item in tables(results):
            Console().print(item)
        write_json(results, given.out / RESULT_FILE)

"""Which engine computes the language model of particles fastest, and do engines agree?

The default model in transformers (as it comes, and as `TransformersLM` computes it), llama.cpp and
vLLM: tokens a CPU-second with 1, 16 and 64 different particles after prompts of 100 and 400 tokens,
the largest difference of a log-probability from transformers in float32, and the estimates of
log p(constraint) by GCD and P-GCD.

    python benchmarks/run.py --only lm_engines --peer-python vllm/bin/python

needs what the default model needs, and `pcgcd[llamacpp]`; in the peers' environment, vLLM.
"""

from __future__ import annotations

import statistics
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, machine, rounded, write_json
from decoding import attempt
from rich import box
from rich.table import Table

import pcgcd

NAME = "lm_engines"
TITLES = {
    "plain": "transformers as it comes, float32",
    "transformers": "TransformersLM, float32",
    "llamacpp f32": "LlamaCpp, f32",
    "llamacpp f16": "LlamaCpp, f16",
    "llamacpp bf16": "LlamaCpp, bf16",
    "vllm": "VLLM, float32",
}
TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it."
)
METHOD = (
    "one process with one thread for each engine, one after the other; CPU milliseconds of a step "
    "in which all particles differ and go on by one token, the least of several steps; "
    "differences: the largest over all tokens whose log-probability is above -20, after prefixes "
    "of one text; evidence: mean over seeds of the estimates with 16 particles, for the function "
    "call of the demo; vLLM hands its rows over as Python numbers, which is part of its time"
)


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure every engine that is installed; a quick run proves nothing."""
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with vLLM>"
    given: dict[str, Any] = {
        "text": TEXT,
        "lengths": [3, 17] if quick else [3, 10, 20, 30, 40],
        "prompts": [100] if quick else [100, 400],
        "particles": [1, 4] if quick else [1, 16, 64],
        "steps": 2 if quick else 4,
        "seeds": 0 if quick else 2,
        "budget": 28,
    }
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "torch": torch.__version__},
        "method": METHOD,
        "particles": given["particles"],
        "engines": {},
    }
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in TITLES:
            if engine == "vllm" and not (peer_python or find_spec("vllm")):
                results["engines"][engine] = {"missing": "vLLM: not installed (--peer-python)"}
                continue
            python = peer_python if engine == "vllm" else None
            asked = (engine, {**given, "rows": str(Path(folder) / "rows.npy")})
            measured = attempt("lm_engines_worker.py", asked, python)
            if "missing" not in measured:
                rows[engine] = np.load(asked[1]["rows"])
            results["engines"][engine] = measured
    for engine, found in rows.items():
        seen = rows["plain"] > -20
        difference = np.abs(found - rows["plain"])[seen].max()
        results["engines"][engine]["largest_difference"] = float(difference)
    results["load_average_after"] = machine()["load_average"]
    return rounded(results)


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    engines = results["engines"]
    speed = Table(
        title="tokens a CPU-second, by prompt and particles (times transformers as it comes)",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    lengths = list(engines["plain"]["step_cpu_ms"])
    speed.add_column("")
    for length in lengths:
        for k in results["particles"]:
            speed.add_column(f"{length} tokens\nk = {k}", justify="right", no_wrap=True)
    same = Table(
        title="largest difference of a log-probability; log p(constraint)",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("", "difference", "GCD", "P-GCD"):
        same.add_column(column, justify="right" if column else "left", no_wrap=True)
    notes: list[str] = []
    for name, title in TITLES.items():
        measured = engines[name]
        if "missing" in measured:
            notes.append(measured["missing"])
            continue
        cells = []
        for length in lengths:
            for k in results["particles"]:
                own = measured["step_cpu_ms"][length][str(k)]["best"]
                plain = engines["plain"]["step_cpu_ms"][length][str(k)]["best"]
                cells.append(f"{1e3 * k / own:.0f} ({plain / own:.2f})")
        speed.add_row(title, *cells)
        found = measured.get("log_evidence", {})
        means = [f"{statistics.mean(found[m]):.2f}" if m in found else "" for m in ("gcd", "pgcd")]
        same.add_row(title, f"{measured['largest_difference']:.2g}", *means)
    return [speed, same, *notes]


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers."""
    return [write_json(results, folder / f"{NAME}.json")]

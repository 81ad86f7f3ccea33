"""One engine on one workload, in a process of its own: a line of JSON for each schema.

    python benchmarks/engines_worker.py <engine> <workload file> <whitespace> <walks>

The lines come as they are measured, so that what was measured counts even if a later schema takes
so long that the process is ended.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from common import MEGABYTE, _return_free_memory, _status_bytes

BATCH = 16
# What it is told to finish within: far more than any instance needs.
BUDGET = 10_000
WARM_UP = {
    "type": "object",
    "properties": {
        "warm": {"type": "string"},
        "up": {"type": "array", "items": {"type": "number"}},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["warm"],
    "additionalProperties": False,
}


class Engine(Protocol):
    """What the measurement needs of an engine."""

    version: str

    def compile(self, schema: dict[str, Any]) -> Any:
        """From a schema to what matchers are made of."""

    def matcher(self, compiled: Any) -> Any:
        """A new matcher at the start of a text."""

    def mask(self, matcher: Any, remaining: int) -> None:
        """Write the mask of the next token."""

    def allows(self, token: int) -> bool:
        """Whether the mask that was written last has a token."""

    def advance(self, matcher: Any, token: int) -> None:
        """Move the matcher over a token."""

    def own_bytes(self, compiled: Any) -> int | None:
        """What the engine itself says it holds for a schema."""


def resident() -> float:
    _return_free_memory()
    return (_status_bytes("VmRSS:") or 0) / MEGABYTE


def seconds(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, and the wall and CPU seconds that it took."""
    started, started_cpu = time.perf_counter(), time.process_time()
    result = action()
    return result, time.perf_counter() - started, time.process_time() - started_cpu


def walk(engine: Engine, matcher: Any, ids: list[int], eos: int) -> tuple[list[int], list[int]]:
    """Nanoseconds of each mask and of each advance along an instance; stops where it is refused."""
    masks, advances = [], []
    clock = time.perf_counter_ns
    budget = len(ids) + 1 if getattr(engine, "is_tight", False) else BUDGET
    for step, token in enumerate([*ids, eos]):
        started = clock()
        engine.mask(matcher, budget - step)
        masks.append(clock() - started)
        if not engine.allows(token):
            raise ValueError(f"token {step} of the instance is refused")
        if token != eos:
            started = clock()
            engine.advance(matcher, token)
            advances.append(clock() - started)
    return masks, advances


def batch_nanoseconds(engine: Any, compiled: Any, ids: list[int]) -> list[float]:
    """Nanoseconds for each row when the masks of k matchers are written in one call."""
    if not hasattr(engine, "prepare_batch"):
        return []
    matchers = [engine.matcher(compiled) for _ in range(BATCH)]
    # The matchers are at different places of the instance, as particles are.
    for row, matcher in enumerate(matchers):
        for token in ids[: row * len(ids) // BATCH]:
            engine.advance(matcher, token)
    prepared = engine.prepare_batch(matchers)
    taken = []
    for _ in range(7):
        started = time.perf_counter_ns()
        engine.mask_batch(prepared, BUDGET)
        taken.append((time.perf_counter_ns() - started) / BATCH)
    return taken


def measure(engine: Engine, item: dict[str, Any], eos: int, walks: int) -> dict[str, Any]:
    """Everything about one schema. The matcher of the first walk is also the first one made."""
    before = resident()
    gc.collect()
    gc.disable()
    try:
        compiled, wall, cpu = seconds(lambda: engine.compile(item["schema"]))
    except Exception as error:
        return {"id": item["id"], "error": f"{type(error).__name__}: {error}"[:200]}
    finally:
        gc.enable()
    result: dict[str, Any] = {
        "id": item["id"],
        "compile_ms": 1e3 * wall,
        "compile_cpu_ms": 1e3 * cpu,
    }
    first, more, more_cpu = seconds(lambda: _first_mask(engine, compiled))
    result["first_mask_ms"] = 1e3 * (wall + more)
    result["first_mask_cpu_ms"] = 1e3 * (cpu + more_cpu)
    result["memory_mb"] = max(0.0, resident() - before)
    result["own_bytes"] = engine.own_bytes(compiled)
    try:
        result["first_walk_ns"], _ = walk(engine, first, item["ids"], eos)
        rest = [walk(engine, engine.matcher(compiled), item["ids"], eos) for _ in range(walks)]
        # A walk may be interrupted by other processes; the median over walks is not.
        for name, part in (("mask_ns", 0), ("advance_ns", 1)):
            result[name] = [statistics.median(times) for times in zip(*(one[part] for one in rest))]
        _, wall, cpu = seconds(lambda: walk(engine, engine.matcher(compiled), item["ids"], eos))
        result["walk_ms"], result["walk_cpu_ms"] = 1e3 * wall, 1e3 * cpu
        result["batch_ns"] = batch_nanoseconds(engine, compiled, item["ids"])
    except ValueError as error:
        result["refused"] = str(error)
    result["memory_after_walks_mb"] = max(0.0, resident() - before)
    if hasattr(engine, "describe"):
        result["automaton"] = engine.describe(compiled)
    return result


def _first_mask(engine: Engine, compiled: Any) -> Any:
    matcher = engine.matcher(compiled)
    engine.mask(matcher, BUDGET)
    return matcher


def warm_up(engine: Engine, vocab_size: int) -> None:
    """Everything once, so that what an engine does once in a process is not counted."""
    compiled = engine.compile(WARM_UP)
    matcher, ids = _first_mask(engine, compiled), []
    for step in range(8):
        ids.append(next(token for token in range(vocab_size) if engine.allows(token)))
        engine.advance(matcher, ids[-1])
        engine.mask(matcher, BUDGET - step)
    batch_nanoseconds(engine, compiled, ids)


def make(name: str, workload: dict[str, Any], whitespace: str) -> Engine:
    tokens = [None if text is None else bytes.fromhex(text) for text in workload["tokens"]]
    if name.startswith("pcgcd"):
        from engines_ours import ENGINES
    else:
        from engines_peers import ENGINES  # type: ignore[assignment]
    return ENGINES[name](tokens, workload["eos"], whitespace, workload["definition"])


def main(name: str, path: Path, part: str, whitespace: str, walks: int) -> None:
    workload = json.loads(path.read_text())
    before = resident()
    engine, wall, _ = seconds(lambda: make(name, workload, whitespace))
    warm_up(engine, len(workload["tokens"]))
    gc.freeze()
    loaded = {"load_ms": 1e3 * wall, "load_mb": resident() - before}
    print(json.dumps({"version": engine.version, **loaded}), flush=True)
    for item in workload[part]:
        print(json.dumps(measure(engine, item, workload["eos"], walks)), flush=True)


if __name__ == "__main__":
    name, path, part, whitespace, walks = sys.argv[1:]
    main(name, Path(path), part, whitespace, int(walks))

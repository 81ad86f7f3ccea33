"""What the benchmarks share: clocks, memory, fresh processes, result files.

Needs nothing but the standard library, so that a peer's own environment can import it too.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "docs" / "results"
THREADS = 1
MEGABYTE = 1e6


def timed(
    action: Callable[[Any], object], repeats: int, prepare: Callable[[], Any] = lambda: None
) -> dict[str, Any]:
    """Wall and CPU milliseconds of an action on what ``prepare`` makes (which is not counted)."""
    wall, cpu = [], []
    for _ in range(repeats):
        given = prepare()
        gc.collect()
        started, started_cpu = time.perf_counter(), time.process_time()
        result = action(given)
        cpu.append(1e3 * (time.process_time() - started_cpu))
        wall.append(1e3 * (time.perf_counter() - started))
        del result
    return {
        "repeats": repeats,
        "wall_ms": {"best": min(wall), "median": statistics.median(wall)},
        "cpu_ms": {"best": min(cpu), "median": statistics.median(cpu)},
    }


def _status_bytes(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def _return_free_memory() -> None:
    """Give freed memory back to the system, so that its reuse shows as growth."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def extra_memory(action: Callable[[], Any]) -> tuple[Any, dict[str, float | str]]:
    """Run an action; how much this process's resident memory grew, at its peak and afterwards.

    On Linux the kernel's high-water mark is reset first. Elsewhere the peak is a lower bound: it
    shows only what exceeds everything the process had used before.
    """
    _return_free_memory()
    before = _status_bytes("VmRSS:")
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        before = None
    if before is None:
        unit = 1 if sys.platform == "darwin" else 1024
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        result = action()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - start
        return result, {"peak_mb": peak / MEGABYTE, "method": "growth of ru_maxrss (lower bound)"}
    result = action()
    peak = (_status_bytes("VmHWM:") or 0) - before
    after = (_status_bytes("VmRSS:") or 0) - before
    return result, {
        "peak_mb": max(0.0, peak / MEGABYTE),
        "after_mb": max(0.0, after / MEGABYTE),
        "method": "resident set; freed memory given back and high-water mark reset before",
    }


def in_fresh_process(script: str, arguments: Sequence[str], python: str | None = None) -> Any:
    """Run a script of this folder in a process of its own; what it prints last is JSON."""
    threads = str(THREADS)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    done = subprocess.run(
        [python or sys.executable, str(HERE / script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{script} ended with status {done.returncode}: {reason}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> dict[str, Any]:
    """Facts about the machine, without names or paths."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        pages = 0
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": THREADS,
        "load_average": round(os.getloadavg()[0], 2),
    }


def write_json(value: Any, path: Path) -> Path:
    """Write as a whole or not at all."""
    from pcgcd.basics.files import write_text

    write_text(path, json.dumps(value, indent=2) + "\n")
    return path


def write_with_figure(value: Any, figure: Any, path: Path) -> list[Path]:
    """Write the numbers and their picture beside each other; the path has no suffix."""
    from pcgcd.viz import save

    return [
        write_json(value, path.with_suffix(".json")),
        save(figure, path.with_suffix(".png")),
    ]


def rounded(value: Any, digits: int = 4) -> Any:
    """The same nested value with its floats cut to a few significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(part, digits) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, digits) for part in value]
    return value

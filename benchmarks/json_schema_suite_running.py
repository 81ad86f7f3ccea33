"""Engines in processes of their own for the measurement of JSON schemas, each with a limit."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import HERE, THREADS

# Until an engine has loaded its library and vocabulary.
SECONDS_TO_START = 120.0
Row = dict[str, Any]


def data_folder() -> Path:
    return Path(os.environ.get("PCGCD_DATA", HERE.parent.parent / "shared" / "data"))


class Worker:
    """An engine in a process of its own, and the lines that it writes."""

    def __init__(self, engine: str, vocabulary: str, rows: list[Row], python: str) -> None:
        threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS")
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        script = str(HERE / "json_schema_suite_worker.py")
        self.process = subprocess.Popen(
            [python, script, engine, vocabulary, str(file), str(data_folder())],
            env={**os.environ, **dict.fromkeys(threads, str(THREADS)), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)
        self.lines.put(None)

    def next_line(self, seconds: float) -> dict[str, Any] | None:
        """The next line, or None at the end.

        Raises:
            TimeoutError: It takes more CPU seconds than allowed, or ten times as many on the clock.
        """
        started, started_cpu = time.monotonic(), self._cpu_seconds()
        while True:
            try:
                line = self.lines.get(timeout=0.2)
                break
            except queue.Empty:
                slack = 10 * seconds - (time.monotonic() - started)
                if self._cpu_seconds() - started_cpu > seconds or slack < 0:
                    raise TimeoutError from None
        if line is None or not line.endswith("\n"):
            return None
        found: dict[str, Any] = json.loads(line)
        return found

    def _cpu_seconds(self) -> float:
        """Of the process so far; other processes then do not count. Elsewhere, the clock."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return time.monotonic()
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def run_engine(
    engine: str, rows: list[Row], python: str, vocabulary: str, limit: float
) -> Iterator[dict[str, Any]]:
    """What happens to each row; a new process goes on behind a row at which the last one died."""
    left = list(rows)
    while left:
        worker = Worker(engine, vocabulary, left, python)
        current: dict[str, Any] = {}
        version = ""
        try:
            head = worker.next_line(SECONDS_TO_START)
            if head is None:
                raise RuntimeError(f"{engine} ended before it had loaded; is it installed?")
            version = head["version"]
            while left:
                row = left[0]
                current = {"number": row["number"], "engine": engine, "accepted": [], "cut": 0}
                while "done" not in current and "error" not in current:
                    line = worker.next_line(limit)
                    if line is None:
                        current["error"] = "crashed"
                    elif "test" in line:
                        current["accepted"].append(line["accepted"])
                        current["cut"] += line["cut"]
                    else:
                        current |= {key: value for key, value in line.items() if key != "row"}
                left.pop(0)
                yield {**current, "version": version}
                if current.get("error") == "crashed":
                    break
        except TimeoutError:
            if not current:
                reason = f"{engine} took more than {SECONDS_TO_START:g} s to load"
                raise RuntimeError(reason) from None
            left.pop(0)
            yield {
                **current,
                "error": f"over the limit of {limit:g} CPU seconds",
                "version": version,
            }
        finally:
            worker.close()

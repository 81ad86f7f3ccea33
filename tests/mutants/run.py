"""Apply each mutant to a copy of the tree, and run the tests that must notice it.

    python tests/mutants/run.py [--jobs 2] [--only TEXT] [--again]

The tree itself is never changed. The outcome of each mutant is kept in ``build/mutants.jsonl``
with a digest of the mutant, of its file and of its tests: what has not changed since is not run
again, so that an interrupted run goes on, and several may run at once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.mutants import MUTANTS, Mutant  # noqa: E402

RECORD = ROOT / "build" / "mutants.jsonl"
COPIED = (
    *("pcgcd", "tests", "docs", "benchmarks"),
    *("setup.cfg", "pyproject.toml", "README.md", "Makefile"),
)
TIME_LIMIT = 240  # seconds; what runs longer hangs
KILLED, SURVIVED = "killed", "SURVIVED"
# Without a mutant the tests must pass, or they prove nothing.
UNCHANGED = "no mutant"


def outcome_of(code: int) -> str:
    """What an exit code of pytest means."""
    return {0: SURVIVED, 1: KILLED}.get(code, f"BROKEN: pytest ended with status {code}")


def digest(mutant: Mutant) -> str:
    """Changes whenever the mutant, the code that it changes, or one of its tests does."""
    parts = [repr(mutant).encode(), (ROOT / "pcgcd" / mutant.file).read_bytes()]
    parts += [(ROOT / test).read_bytes() for test in mutant.tests]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the tree that can be spoilt; compiled kernels come along."""
    with tempfile.TemporaryDirectory(prefix="pcgcd-mutants-") as name:
        folder = Path(name)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("*.pyc"))
            elif source.exists():
                shutil.copy2(source, folder / part)
        yield folder


def run_tests(folder: Path, tests: Sequence[str]) -> str:
    """Run some tests in a copy of the tree."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", *tests]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **threads, "PYTHONPATH": str(folder)},
            capture_output=True,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"{KILLED}: it hangs"
    return outcome_of(done.returncode)


def try_mutant(mutant: Mutant) -> str:
    """What comes of a mutant."""
    with copied_tree() as folder:
        path = folder / "pcgcd" / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            return f"STALE: its text occurs {text.count(mutant.old)} times"
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        for compiled in folder.rglob("*.nb?"):
            if "kernels" in mutant.file:  # numba does not notice changes in other files
                compiled.unlink()
        return run_tests(folder, mutant.tests)


def baseline(mutants: Sequence[Mutant]) -> list[Mutant]:
    """One entry that changes nothing for each selection of tests."""
    chosen = {mutant.tests: mutant for mutant in mutants}
    return [
        Mutant(UNCHANGED, mutant.file, mutant.old, mutant.old, tests)
        for tests, mutant in chosen.items()
    ]


def recorded() -> dict[str, tuple[str, float]]:
    """Outcomes of earlier runs, by digest."""
    if not RECORD.exists():
        return {}
    rows = map(json.loads, RECORD.read_text(encoding="utf-8").splitlines())
    return {row["digest"]: (row["outcome"], row["seconds"]) for row in rows}


def record(key: str, outcome: str, seconds: float) -> None:
    """Append one line, in one write."""
    RECORD.parent.mkdir(exist_ok=True)
    line = json.dumps({"digest": key, "outcome": outcome, "seconds": round(seconds, 1)})
    with RECORD.open("ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


def is_good(mutant: Mutant, outcome: str) -> bool:
    """Whether a mutant died, or the tests pass without one."""
    return outcome.startswith(SURVIVED if mutant.name == UNCHANGED else KILLED)


def main() -> int:
    """Run all mutants; 1 if one of them lives, or proves nothing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="at a time (%(default)s)")
    parser.add_argument("--only", default="", help="those with this text in their name or file")
    parser.add_argument("--again", action="store_true", help="also those known from earlier runs")
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if arguments.only in m.name or arguments.only in m.file]
    everything = [*chosen, *baseline(chosen)]
    known = {} if arguments.again else recorded()

    def one(mutant: Mutant) -> tuple[Mutant, str, float]:
        key = digest(mutant)
        if key not in known:
            since = time.perf_counter()
            outcome = try_mutant(mutant)
            record(key, outcome, time.perf_counter() - since)
            known[key] = (outcome, time.perf_counter() - since)
        return mutant, *known[key]

    bad = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, outcome, seconds in pool.map(one, everything):
            bad += not is_good(mutant, outcome)
            shown = "passes" if mutant.name == UNCHANGED and outcome == SURVIVED else outcome
            where = "" if mutant.name == UNCHANGED else mutant.file
            tests = " ".join(test.removeprefix("tests/") for test in mutant.tests)
            print(
                f"{shown:<10} {seconds:6.0f} s  {where:<26} {mutant.name:<62} {tests}", flush=True
            )
    print(f"{len(chosen)} mutants, {bad} that must be looked at")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The full test command builds the documentation, where a warning fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_test_builds_the_documentation() -> None:
    command = ["make", "--dry-run", "test"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    [build] = [line for line in done.stdout.splitlines() if "mkdocs build" in line]
    assert "--strict" in build


def test_the_continuous_integration_runs_the_full_test_command() -> None:
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == "exec make test"

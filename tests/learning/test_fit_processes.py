"""Fits that are killed, and fits by several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pcgcd
from tests.hmm.models import parts
from tests.learning.fit_worker import run

ROOT = Path(pcgcd.__file__).parent.parent


def worker(*arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.learning.fit_worker", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def ends_well(process: subprocess.Popen[str]) -> None:
    try:
        _, errors = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, errors


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("kind", ["dense", "monarch"])
def test_a_fit_that_is_killed_again_and_again_ends_with_the_same_bits(
    kind: str, tmp_path: Path
) -> None:
    ends_well(worker("killed", kind, tmp_path, 6, 11))
    found = torch.load(tmp_path / "result.pt", weights_only=True)
    assert int(found.pop("hits")) >= 2
    undisturbed = run(kind, None)
    for name, part in parts(undisturbed.hmm).items():
        assert torch.equal(found[name], part), name
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"state.safetensors", "best.safetensors", "result.pt"}


@pytest.mark.slow
def test_two_processes_find_what_one_finds_and_fail_together(tmp_path: Path) -> None:
    processes = [worker("together", rank, 2, tmp_path) for rank in range(2)]
    for process in processes:
        ends_well(process)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    for kind in ("dense", "monarch"):
        alone = run(kind, None)
        for name, part in parts(alone.hmm).items():
            torch.testing.assert_close(first["parts"][kind][name], part, rtol=1e-5, atol=1e-7)
            assert torch.equal(first["parts"][kind][name], second["parts"][kind][name])
        history = [entry.held_out for entry in alone.history]
        assert first["held_out"][kind] == pytest.approx(history, rel=1e-5)
    assert "another process" in first["message"]
    assert "probability zero" in second["message"]

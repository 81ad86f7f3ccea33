"""From a language model to an HMM, in one go or in many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pcgcd
from pcgcd.distillation import Fitting, Sampling, Start, distill
from pcgcd.distillation.__main__ import main
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm.checkpoints import load_hmm, read_info
from tests.distillation.worker import run
from tests.distillation.worlds import table, tiny_folder

ROOT = Path(pcgcd.__file__).parent.parent


def start_process(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = (sys.executable, *command)
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_the_hmm_is_between_chance_and_the_model(tmp_path: Path) -> None:
    lm = table()
    distilled = distill(
        lm,
        [(0,)],
        tmp_path,
        sampling=Sampling(samples=3000, length=6, batch_size=1500, shard_size=1500),
        start=Start(num_hidden=8),
        fitting=Fitting(epochs=15, patience=None),
    )
    bits = distilled.bits
    assert bits["language model"] - 0.02 < bits["hmm"] < bits["bigram"] + 0.05
    assert distilled.result.start_held_out is not None
    assert bits["hmm"] < -distilled.result.start_held_out / 0.6931
    hmm = load_hmm(tmp_path, vocabulary=lm.vocabulary)
    torch.testing.assert_close(hmm.emission, distilled.hmm.emission, rtol=1e-6, atol=0)
    facts = read_info(tmp_path).facts
    assert facts["bits_per_token"] == bits
    assert facts["samples"]["vocabulary"] == lm.vocabulary.fingerprint
    assert len(json.loads((tmp_path / "report.json").read_text())["history"]) == 15
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_another_distillation_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    def again(**changed: int) -> None:
        distill(
            table(),
            [(0,)],
            tmp_path,
            sampling=Sampling(samples=40, length=4),
            start=Start(num_hidden=changed.get("hidden", 4)),
            fitting=Fitting(epochs=changed.get("epochs", 1)),
            seed=changed.get("seed", 0),
        )

    again()
    again()
    for change, name in (
        ({"hidden": 5}, "num_hidden"),
        ({"seed": 1}, "seed"),
        ({"epochs": 2}, "epochs"),
    ):
        with pytest.raises(CheckpointError, match=name):
            again(**change)


def test_without_held_out_samples_the_last_epoch_counts(tmp_path: Path) -> None:
    options = {"sampling": Sampling(samples=30, length=4), "start": Start(num_hidden=4)}
    distilled = distill(table(), None, tmp_path, fitting=Fitting(epochs=2, held_out=0), **options)  # type: ignore[arg-type]
    assert distilled.bits == {}
    assert distilled.result.best_epoch == 2
    with pytest.raises(InvalidParameterError, match="none is left"):
        distill(
            table(), None, tmp_path / "b", sampling=Sampling(samples=1, length=4),
            start=Start(num_hidden=4), fitting=Fitting(held_out=0.9),
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_again_and_again_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    finished = start_process("-m", "tests.distillation.worker", str(tmp_path / "a"), "6", "5")
    assert finished.returncode == 0, finished.stderr
    seen = torch.load(tmp_path / "a" / "seen.pt", weights_only=True)
    assert seen["hits"] >= 3
    assert seen["places"] == ["fit", "samples"]
    undisturbed = run(tmp_path / "b")
    assert torch.equal(seen["emission"], undisturbed.hmm.emission)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    left = [path.name for path in (tmp_path / "a").rglob(".*")]
    assert not left


def options(model: Path, prompts: Path, out: Path) -> list[str]:
    return [
        "--model", str(model), "--prompts", str(prompts), "--out", str(out), "--samples", "48",
        "--length", "5", "--shard", "8", "--hidden", "9", "--transition", "monarch",
        "--epochs", "3",
        "--batch", "16", "--held-out", "0.25", "--quiet",
    ]  # fmt: skip


def test_the_module_distils_and_its_errors_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    model, prompts = tiny_folder(tmp_path / "model"), tmp_path / "prompts.txt"
    prompts.write_text("hello\nhe\n")
    assert main(options(model, prompts, tmp_path / "out")) == 0
    assert "held-out bits per token" in capsys.readouterr().out
    assert main([*options(model, prompts, tmp_path / "out"), "--hidden", "16"]) == 2
    assert "num_hidden (there 9, here 16)" in capsys.readouterr().err
    assert main([*options(model, tmp_path / "no", tmp_path / "out")]) == 2
    assert main([*options(tmp_path, prompts, tmp_path / "out")]) == 2
    assert "no language model could be read" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_distil_what_one_does(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model, prompts = tiny_folder(tmp_path / "model"), tmp_path / "prompts.txt"
    prompts.write_text("hello\nhe\n")
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    two = options(model, prompts, tmp_path / "two")
    finished = start_process(*command, "-m", "pcgcd.distillation", *two)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("The HMM is in") == 1
    assert main(options(model, prompts, tmp_path / "one")) == 0
    first, second = (load_hmm(tmp_path / name) for name in ("one", "two"))
    for name in ("initial", "left", "right", "emission"):
        torch.testing.assert_close(
            getattr(first, name), getattr(second, name), rtol=1e-5, atol=1e-7
        )
    shards = sorted((tmp_path / "one" / "samples").glob("*.safetensors"))
    assert len(shards) == 6
    for path in shards:
        assert path.read_bytes() == (tmp_path / "two" / "samples" / path.name).read_bytes()

"""From a language model to an HMM, in one go or in many."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import pcgcd
from pcgcd.cli import main as command_line
from pcgcd.errors import CheckpointError, InvalidParameterError, PcgcdError
from pcgcd.hmm.files.checkpoints import load_hmm, read_info
from pcgcd.learning import Fitting, Sampling, Start, distill
from tests.learning.worker import CLUSTERS, FIT, SAMPLES, SMOOTHING
from tests.learning.worlds import table, tiny_folder

ROOT = Path(pcgcd.__file__).parent.parent


def main(arguments: list[str]) -> int:
    return command_line(["distill", *arguments])


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


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def killed(kind: str, processes: int, folder: Path) -> dict[str, Any]:
    """What a run that was killed at each of its stages found, and runs that were not."""
    finished = start_process("-m", "tests.learning.worker", kind, str(processes), str(folder), "5")
    assert finished.returncode == 0, finished.stderr
    seen: dict[str, Any] = torch.load(folder / "seen.pt", weights_only=True)
    for name, part in seen["undisturbed"].items():
        assert torch.equal(seen["disturbed"][name], part), name
        torch.testing.assert_close(seen["alone"][name], part, rtol=1e-5, atol=1e-7)
    first, second = (folder / name for name in ("disturbed", "undisturbed"))
    for name in ("model.safetensors", "config.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    shards = sorted((first / "samples").glob("*.safetensors"))
    assert len(shards) == 8
    for path in shards:
        assert path.read_bytes() == (second / "samples" / path.name).read_bytes()
    assert not [path.name for path in first.rglob(".*")]
    return seen


@forks
def test_killed_while_sampling_and_fitting_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    stages = killed("table", 1, tmp_path)["stages"]
    assert {SAMPLES, FIT} <= set(stages)


@forks
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_at_each_stage_it_ends_with_the_same_bits(processes: int, tmp_path: Path) -> None:
    """With clusters and smoothing; two processes also end with what one finds, to rounding."""
    pytest.importorskip("transformers")
    pytest.importorskip("sklearn")
    stages = killed("tiny", processes, tmp_path)["stages"]
    assert {SAMPLES, CLUSTERS, FIT, SMOOTHING} <= set(stages)


@pytest.mark.slow
def test_the_command_is_killed_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model, prompts = tiny_folder(tmp_path / "model"), tmp_path / "prompts.txt"
    prompts.write_text("hello\nhe\n")
    once, often = (options(model, prompts, tmp_path / name) for name in ("once", "often"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for sign in ("samples/shard-00001.safetensors", "fit/state.safetensors"):
        command = [sys.executable, "-m", "pcgcd", "distill", *often, "--checkpoint-seconds", "0"]
        with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
            began = time.monotonic()
            while process.poll() is None and time.monotonic() - began < 200:
                if (tmp_path / "often" / sign).exists():
                    process.send_signal(signal.SIGKILL)
                time.sleep(0.001)
    for given in (often, once):
        assert main([*given, "--checkpoint-seconds", "0"]) == 0
    first, second = (tmp_path / name / "model.safetensors" for name in ("once", "often"))
    assert first.read_bytes() == second.read_bytes()


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
    given = options(model, prompts, tmp_path / "out")
    assert main([*given, "--store", "int8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "held-out bits per token" in said
    assert "hmm, stored as int8" in said
    assert "MB as int8" in said
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    bits = report["bits_per_token"]
    assert bits.keys() >= {"hmm", "language model", "bigram", "hmm, stored as int8"}
    assert bits["hmm, stored as int8"] == pytest.approx(bits["hmm"], abs=0.02)
    assert report["storage"]["dtype"] == "int8"
    assert report["options"]["samples"] == 48
    assert report["versions"]["torch"] == importlib.metadata.version("torch")
    assert main([*given, "--hidden", "16"]) == 2
    assert "num_hidden (there 9, here 16)" in capsys.readouterr().err
    assert main([*given, "--samples", "60"]) == 2
    assert "samples (there 48, here 60)" in capsys.readouterr().err
    assert main([*options(tmp_path, prompts, tmp_path / "out")]) == 2
    assert "no language model could be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--prompts", "nowhere.txt"], "nowhere.txt: No such file"),
        (["--prompts", "empty.txt"], "empty.txt has no prompts"),
        (["--prompts", "wrong.jsonl"], "line 2 of wrong.jsonl is not valid JSON"),
        (["--samples", "0"], "samples must be a whole number of at least 1, but is 0"),
        (["--length", "0"], "length must be"),
        (["--shard", "10", "--group", "4"], "multiple of group"),
        (["--hidden", "1"], "num_hidden must be a whole number of at least 2"),
        (["--hidden", "13", "--transition", "monarch"], "but is 13; take 9 or 16"),
        (["--epochs", "-1"], "epochs must be"),
        (["--step-size", "2"], "--step-size must be in (0, 1]"),
        (["--dropout", "1"], "dropout must be"),
        (["--held-out", "1"], "--held-out must be"),
        (["--held-out", "0", "--smooth"], "--held-out is 0"),
        (["--patience", "0"], "patience must be"),
        (["--seed", "-1"], "seed must be"),
    ],
)
def test_what_cannot_be_is_told_before_a_model_is_loaded(
    changed: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(_: object) -> None:
        raise RuntimeError("a model was loaded")

    monkeypatch.setattr("pcgcd.lm.load_model", never)
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n")
    Path("wrong.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    assert main(["--out", "out", *changed]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("start", "fitting", "dtype", "said"),
    [
        (Start(num_hidden=2), Fitting(), None, "too few"),
        (Start(method="lvd"), Fitting(), None, "transformers only"),
        (Start(), Fitting(smooth=True), None, "transformers only"),
        (Start(), Fitting(), "int4", "int4 was asked for"),
        (Start(), Fitting(engine="pyjuice"), None, "needs a CUDA device"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_what_would_fail_later_fails_before_anything_is_drawn(
    start: Start, fitting: Fitting, dtype: str | None, said: str, tmp_path: Path
) -> None:
    if start.method == "lvd":
        pytest.importorskip("sklearn")
    with pytest.raises(PcgcdError, match=said):
        distill(table(), None, tmp_path, start=start, fitting=fitting, emission_dtype=dtype)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_two_processes_distil_what_one_does(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model, prompts = tiny_folder(tmp_path / "model"), tmp_path / "prompts.txt"
    prompts.write_text("hello\nhe\n")
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    two = options(model, prompts, tmp_path / "two")
    finished = start_process(*command, "-m", "pcgcd", "distill", *two)
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

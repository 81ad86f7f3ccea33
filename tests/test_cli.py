"""The command line: exit codes, one sentence for an error, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import pcgcd
from pcgcd.cli import main
from pcgcd.cli.distill import _advice
from pcgcd.cli.machine import share_machine
from pcgcd.cli.main import _as_options
from pcgcd.decoding.warming import compile_all_loops
from pcgcd.demo import exact as demo
from pcgcd.engine.backends import numba_kernels
from pcgcd.errors import EmptyLanguageError


def test_demo_ends_well_and_writes_its_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--exact", "--out", str(tmp_path / "out"), "--seed", "3"]) == 0
    captured = capsys.readouterr()
    assert "demo.png" in captured.out
    assert not captured.err
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10_000


def test_an_error_of_the_library_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise EmptyLanguageError("no string of length 6 works;\nthe smallest length is 7")

    monkeypatch.setattr(demo, "main", failing)
    assert main(["demo", "--exact"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "pcgcd: no string of length 6 works; the smallest length is 7\n"
    assert not captured.out


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--exact", "--out", str(tmp_path / "file" / "folder")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pcgcd: cannot use")
    assert error.count("\n") == 1


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(demo, "main", failing)
    with pytest.raises(ZeroDivisionError):
        main(["demo", "--exact"])


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["demo", "--seed", "x"]])
def test_wrong_usage_ends_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: pcgcd" in capsys.readouterr().err


def test_the_module_can_be_run_and_tells_its_version_without_loading_what_draws() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pcgcd", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"pcgcd {pcgcd.__version__}\n")
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "argparse" in loaded
    assert not loaded & {"matplotlib", "rich", "pcgcd.demo", "pcgcd.viz"}


def test_patterns_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets mean something to the library that prints tables."""
    for pattern in ("[/]x", "[a-z]+", "[bold]b"):
        assert main(["compile", "--regex", pattern]) == 0
        assert f"regex({pattern!r})" in capsys.readouterr().out
    assert main(["mask", "--regex", "[/]x[]]", "--prefix", "/x"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "may follow '/x'" in out
    assert "']'" in out


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"name": {"maxLength": 8, "type": "string"}}, "additionalProperties": False},
        # Open: thousands of states.
        {"properties": {"name": {"type": "string"}}, "additionalProperties": True},
    ],
    ids=["closed", "open"],
)
def test_large_automata_have_a_picture(
    schema: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, picture = tmp_path / "schema.json", tmp_path / "out.svg"
    file.write_text(json.dumps({"type": "object", "required": ["name"], **schema}))
    assert main(["compile", "--json-schema", str(file), "--picture", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["byte_states"] > 100
    assert picture.stat().st_size > 5_000


def test_hints_name_options() -> None:
    said = 'give hmm=, or method="gcd", or top_k=3, ess_threshold=0.5; strict=False (max_states=)'
    options = {"hmm": None, "method": 1, "top_k": 2, "ess_threshold": 3}
    expected = "give --hmm, or --method gcd, or --top-k 3, --ess-threshold 0.5; strict=False"
    assert _as_options(said, options) == f"{expected} (max_states=)"


def test_a_weak_hmm_comes_with_advice() -> None:
    assert _advice({"hmm": 7.0, "bigram": 7.5, "language model": 3.0}) == ""
    assert _advice({}) == ""
    said = _advice({"hmm": 9.0, "bigram": 7.5})
    assert "9.000 against 7.500" in said
    assert all(option in said for option in ("--samples", "--hidden", "--smooth", "--prompts"))


# -- a busy machine -------------------------------------------------------------------------------

_ASK = """
import os, sys
from pcgcd.cli.machine import share_machine
assert "torch" not in sys.modules, "too late: torch is imported"
os.getloadavg = lambda: ({load}, 0, 0)
os.sched_getaffinity = lambda _: range(4)
share_machine()
print(*(os.environ.get(name) for name in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "KMP_BLOCKTIME")))
"""


@pytest.mark.parametrize(
    ("load", "own", "expected"),
    [
        (0.1, {}, "PASSIVE 4 0"),
        (2.2, {}, "PASSIVE 2 0"),
        (9.0, {}, "PASSIVE 1 0"),
        (9.0, {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE 3 0"),
        (9.0, {"MKL_NUM_THREADS": "2"}, "PASSIVE None 0"),
    ],
)
def test_threads_wait_asleep_and_leave_busy_cores_alone(
    load: float, own: dict[str, str], expected: str
) -> None:
    names = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "KMP_BLOCKTIME", "MKL_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(load=load)],
        env={**kept, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == expected, done.stderr


def test_a_process_that_has_torch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    share_machine()
    assert "OMP_WAIT_POLICY" not in os.environ


def test_warm_up_compiles_what_constraints_and_decoding_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = set()

    def noted(name: str, loop: Any) -> Any:
        return lambda *args: called.add(name) or loop(*args)

    loops = [name for name, loop in vars(numba_kernels).items() if isinstance(loop, Dispatcher)]
    loops = [name for name in loops if not name.startswith("_")]
    for name in loops:
        monkeypatch.setattr(numba_kernels, name, noted(name, getattr(numba_kernels, name)))
    compile_all_loops.cache_clear()
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().out.startswith("compiled in ")
    assert "all_scores" in loops
    assert called == set(loops)

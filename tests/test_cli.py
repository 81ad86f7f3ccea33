"""The command line: exit codes, one sentence for an error, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pcgcd
from pcgcd.cli import main
from pcgcd.demo import exact as demo
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

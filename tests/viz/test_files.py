"""Files appear as a whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest
from matplotlib.figure import Figure

from pcgcd.viz import figure_automaton, save
from tests.viz.examples import parity


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_ending_names_the_format(tmp_path: Path, kind: str) -> None:
    path = save(figure_automaton(parity()), tmp_path / "new" / f"picture.{kind}")
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    assert path.read_bytes().startswith(starts[kind])
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "picture.png"
    path.write_text("old")

    def broken(self: Figure, target: BinaryIO, **_: object) -> None:
        target.write(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(Figure, "savefig", broken)
    with pytest.raises(OSError, match="full"):
        save(figure_automaton(parity()), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_figure_gives_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (
        save(figure_automaton(parity()), tmp_path / f"{name}.{kind}").read_bytes() for name in "ab"
    )
    assert first == second

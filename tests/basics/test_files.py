"""Files and folders appear as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcgcd.basics.files import remove_leftovers, whole_file, whole_folder, write_text


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_takes_its_place_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert names(path.parent) == {"file.txt"}
    write_text(path, "é\n")
    assert path.read_bytes() == "é\n".encode()


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file.txt"}


def test_a_folder_takes_its_place_when_the_block_ends(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"

    def fill(fails: bool = False) -> None:
        with whole_folder(folder) as temporary:
            (temporary / "one").write_text("1")
            assert fails or not folder.exists()
            if fails:
                raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fill(fails=True)
    assert names(folder.parent) == set()
    fill()
    assert names(folder) == {"one"}
    with pytest.raises(OSError, match="model"), whole_folder(folder) as temporary:
        (temporary / "two").write_text("2")
    assert names(folder.parent) == {"model"}
    assert names(folder) == {"one"}


def test_leftovers_are_those_of_one_name(tmp_path: Path) -> None:
    for name in (".a.txt-x1.tmp", ".a.txt-keep", ".b.txt-x2.tmp", "a.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".a.txt-folder").mkdir()
    (tmp_path / ".a.txt-folder" / "inside").write_text("")
    remove_leftovers(tmp_path / "a.txt")
    assert names(tmp_path) == {".a.txt-keep", ".b.txt-x2.tmp", "a.txt"}
    remove_leftovers(tmp_path / "nowhere" / "a.txt")

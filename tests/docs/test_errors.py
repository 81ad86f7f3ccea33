"""The catalogue of errors names every class, and its examples raise what it shows."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

from pcgcd import errors
from tests.blocks import python_blocks

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


class Entry(NamedTuple):
    """One section of the page."""

    code: str
    message: str | None


def _catalogue() -> dict[str, Entry]:
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        [code] = python_blocks(section)
        shown = re.search(r"^```text\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        name = section.partition("\n")[0].strip()
        found[name] = Entry(code, " ".join(shown[1].split()) if shown else None)
    return found


CATALOGUE = _catalogue()


def _run(code: str, name: str) -> str:
    """Run an example, and return the message of what it raises or warns of."""
    expected = getattr(errors, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(expected) as caught:
            exec(compile(code, f"errors.md, {name}", "exec"), {})
    assert caught.type is expected
    return " ".join(str(caught.value).split())


def test_every_error_class_has_a_section_and_a_row() -> None:
    assert set(CATALOGUE) == set(errors.__all__)
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(CATALOGUE)
    assert all(anchor == name.lower() for name, anchor in rows)


def test_all_names_every_error_class() -> None:
    defined = {
        name for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }  # fmt: skip
    assert defined == set(errors.__all__)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.message])
def test_each_example_raises_the_message_that_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lemminflect", None)  # put back after the test
    entry = CATALOGUE[name]
    assert _run(entry.code, name) == entry.message


def test_only_the_root_has_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert [name for name, entry in CATALOGUE.items() if not entry.message] == ["PcgcdError"]
    exec(CATALOGUE["PcgcdError"].code, {})
    assert "is broken" in capsys.readouterr().out

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


class Example(NamedTuple):
    """Code of the page, and the message that it says is raised."""

    name: str
    code: str
    message: str


def _sections() -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0].strip(): section for section in sections}


def _examples() -> list[Example]:
    found = []
    for name, section in _sections().items():
        shown = re.findall(r"^```text\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        if name != "PcgcdError":
            pairs = zip(python_blocks(section), shown, strict=True)
            found += [Example(name, block.code, " ".join(text.split())) for block, text in pairs]
    return found


CATALOGUE = _sections()
EXAMPLES = _examples()


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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_raises_the_message_that_is_shown(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lemminflect", None)  # put back after the test
    assert _run(example.code, example.name) == example.message


def test_every_class_but_the_root_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert {example.name for example in EXAMPLES} == set(CATALOGUE) - {"PcgcdError"}
    [block] = python_blocks(CATALOGUE["PcgcdError"])
    exec(block.code, {})
    assert "is broken" in capsys.readouterr().out

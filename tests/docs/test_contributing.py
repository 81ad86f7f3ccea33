"""The picture of the package in CONTRIBUTING.md is the one that the imports keep to."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_imports import LEVEL

ROOT = Path(__file__).parents[2]


def test_every_folder_is_shown_at_its_level() -> None:
    rows = re.findall(
        r"^\| (\d+) \| (.+?) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    shown = {
        name: int(level)
        for level, names in rows
        for name in re.findall(r"`(\w+)(?:/|\.py)`", names)
    }
    assert shown == {name: level for name, level in LEVEL.items() if name != "__main__"}


def test_every_path_that_is_named_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    new = text.partition("## Where something new goes")[2].partition("\n## ")[0]
    for name in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", new):
        assert (ROOT / name).exists() or (ROOT / "pcgcd" / name).exists(), name

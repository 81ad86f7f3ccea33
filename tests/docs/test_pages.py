"""The code of the documentation runs as it is printed, page by page, and prints what is shown."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pcgcd.circuits
import pcgcd.lm
from tests.blocks import python_blocks, run_block

DOCS = Path(__file__).parents[2] / "docs"
# test_errors.py runs the examples that are meant to fail.
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if path.name != "errors.md" and python_blocks(path.read_text(encoding="utf-8"))
)
_load_once = cache(pcgcd.lm.default_model)
WIDEST = (
    114  # characters of code that fit into a page of the site; a browser checks it in test_site.py
)


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_code_fit_into_the_page(page: str) -> None:
    for block in python_blocks((DOCS / page).read_text(encoding="utf-8")):
        assert max(map(len, block.code.splitlines())) <= WIDEST, f"{page}: {block.code}"


@pytest.mark.parametrize("page", PAGES)
def test_code_of_the_page_runs_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pcgcd.lm, "default_model", _load_once)
    names: dict[str, Any] = {}
    for number, block in enumerate(python_blocks((DOCS / page).read_text(encoding="utf-8"))):
        run_block(block, f"{page}, block {number}", names)


def test_every_query_of_the_table_is_in_the_code_of_its_page() -> None:
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    code = "\n".join(block.code for block in python_blocks(text))
    rows = [line for line in text.splitlines() if line.startswith("|") and line.count("|") >= 5]
    queries = {name for row in rows for name in re.findall(r"`(?:fa\.)?(\w+)\(", row)}
    assert {"best_path", "next_token_log_probs", "mixture"} <= queries
    assert not [name for name in queries if f"{name}(" not in code]
    assert "from_pyjuice(" in code
    assert "from_pyjuice" in pcgcd.circuits.__all__

"""The page of benchmarks is made from the results that are committed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rich.table import Table

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("tables", monkeypatch)


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script, whose neighbours are importable while a test runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_committed_results(tables: ModuleType) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == tables.page(), "run python benchmarks/tables.py"


def test_the_comparison_with_the_paper_is_made_from_the_committed_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = script("paper", monkeypatch)
    page = (ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8")
    assert page == paper.page(), "run python benchmarks/paper.py"
    assert set(paper.notes()) <= {"", *paper.SECTIONS}


def test_a_table_keeps_its_cells(tables: ModuleType) -> None:
    table = Table(title="a title\nof two lines")
    table.add_column("name")
    table.add_column("n\nlines", justify="right")
    table.add_row("a|b", "1")
    assert tables.markdown_table(table).splitlines() == [
        "**a title of two lines**",
        "",
        "| name | n lines |",
        "| --- | ---: |",
        "| a\\|b | 1 |",
    ]


def test_a_result_of_an_unknown_benchmark_is_listed(tables: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text('{"command": "python new.py"}')
    page = tables.page(tmp_path)
    assert "## new\n" in page
    assert "Command: `python new.py`." in page

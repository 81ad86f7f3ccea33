"""The reference has every public name, and the navigation every page."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PARTS = (
    "pcgcd",
    "pcgcd.automata",
    "pcgcd.circuits",
    "pcgcd.circuits.operators",
    "pcgcd.circuits.queries",
    "pcgcd.circuits.semirings",
    "pcgcd.constraints",
    "pcgcd.decoding",
    "pcgcd.learning",
    "pcgcd.engine",
    "pcgcd.errors",
    "pcgcd.hmm",
    "pcgcd.integrations.genlm",
    "pcgcd.integrations.transformers",
    "pcgcd.integrations.vllm",
    "pcgcd.lm",
    "pcgcd.testing",
    "pcgcd.viz",
)
SHOWN = {
    name
    for page in (DOCS / "reference").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}


def _is_shown(part: str, name: str) -> bool:
    """Whether a page shows the name itself, or a module that defines or exports it."""
    if part in SHOWN or any(shown.endswith(f".{name}") for shown in SHOWN):
        return True
    value: Any = getattr(import_module(part), name)
    if not hasattr(value, "__qualname__"):
        return True  # a constant, which its module's page shows where it is described
    return value.__module__ in SHOWN or any(
        name in getattr(import_module(shown), "__all__", ())
        for shown in SHOWN
        if value.__module__.startswith(f"{shown}.")
    )


@pytest.mark.parametrize("part", PARTS)
def test_every_public_name_is_in_the_reference(part: str) -> None:
    names = import_module(part).__all__
    assert names
    missing = [name for name in names if not _is_shown(part, name)]
    assert not missing, f"no page of docs/reference shows {missing} of {part}"


def test_every_page_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r": ([\w/-]+\.md)$", settings, re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("results/") or page.count("/") == 1}
    pages |= {f"tutorials/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(listed) == pages
    assert len(listed) == len(pages)

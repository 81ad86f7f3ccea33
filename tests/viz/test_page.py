"""The page of pictures shows what its code saves."""

from __future__ import annotations

import re
from pathlib import Path

from tests.blocks import python_blocks

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pictures.md").read_text(encoding="utf-8")
SAVED = [
    name for block in python_blocks(PAGE) for name in re.findall(r'"(\w+\.svg)"\)', block.code)
]


def test_every_picture_of_the_page_is_saved_by_a_block_before_it() -> None:
    assert re.findall(r"\(images/(\w+\.svg)\)", PAGE) == SAVED


def test_every_kind_of_figure_is_on_the_page() -> None:
    from pcgcd import viz

    kinds = {name for name in viz.__all__ if name.startswith("figure_")} - {"figure_overview"}
    assert kinds == set(re.findall(r"\b(figure_\w+)\(", PAGE))


def test_the_images_are_there() -> None:
    names = [*SAVED, "architecture.svg", "architecture.png", "hero.png"]
    assert [name for name in names if not (DOCS / "images" / name).exists()] == []

"""The README's code runs as it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blocks import python_blocks, run_block

README = Path(__file__).parent.parent / "README.md"
BLOCKS = python_blocks(README.read_text(encoding="utf-8"))


def test_the_readme_opens_with_the_two_commands() -> None:
    head = README.read_text(encoding="utf-8")[:300]
    assert "make demo" in head
    assert "make test" in head


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_of_the_readme_runs(number: int) -> None:
    run_block(BLOCKS[number], f"README block {number}", {})

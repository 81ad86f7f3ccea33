"""The README's code runs as it is printed, and prints what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.blocks import python_blocks, run_block

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_the_readme_opens_with_the_two_commands() -> None:
    head = TEXT[:300]
    assert "make demo" in head
    assert "make test" in head


def test_code_of_the_readme_runs_in_order() -> None:
    names: dict[str, Any] = {}
    for number, block in enumerate(python_blocks(TEXT)):
        run_block(block, f"README block {number}", names)


def test_an_output_that_differs_from_the_one_shown_fails() -> None:
    [block] = python_blocks("```python\nprint(1, 'second')\n```\n\n```text\n1 ...\n```\n")
    run_block(block, "right", {})
    with pytest.raises(pytest.fail.Exception, match="but prints"):
        run_block(block._replace(output="2 ...\n"), "wrong", {})

"""The README's code runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pcgcd.lm.default import packaged_file

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_readme_opens_with_the_two_commands() -> None:
    head = README.read_text()[:300]
    assert "make demo" in head
    assert "make test" in head


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_of_the_readme_runs(number: int) -> None:
    if "default_model" in BLOCKS[number] and packaged_file() is None:
        pytest.skip("the default model is not installed")
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})

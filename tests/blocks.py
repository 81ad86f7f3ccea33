"""Python code inside Markdown files: how tests find it and run it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pcgcd.lm.default import packaged_file

__all__ = ["python_blocks", "run_block"]

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def python_blocks(text: str) -> list[str]:
    """The code of the blocks that open with nothing but "python". Those with a title do not run."""
    return _BLOCK.findall(text)


def run_block(code: str, name: str, names: dict[str, Any]) -> None:
    """Run a block with some names, and skip the test where it needs a model that is not there."""
    if "default_model" in code and packaged_file() is None:
        pytest.skip("the default model is not installed")
    exec(compile(code, name, "exec", dont_inherit=True), names)

"""Python code inside Markdown files: how tests find it, run it and check the output that is shown.

A block that opens with ``text`` and follows a block of code is what that code prints, with ``...``
for what differs from machine to machine.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from io import StringIO
from typing import Any, NamedTuple

import pytest

from pcgcd.lm.default import packaged_file

__all__ = ["Block", "python_blocks", "run_block"]

_BLOCK = re.compile(
    r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """Code, and the output that the page shows below it, if it does."""

    code: str
    output: str


def python_blocks(text: str) -> list[Block]:
    """The blocks that open with nothing but "python". Those with a title do not run."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def run_block(block: Block, name: str, names: dict[str, Any]) -> None:
    """Run a block with some names, and compare what it prints with what is shown.

    The test is skipped where the block needs a model, or pyjuice, that is not there.
    """
    if "default_model" in block.code and packaged_file() is None:
        pytest.skip("the default model is not installed")
    if "import pyjuice" in block.code:
        pytest.importorskip("pyjuice")
    with redirect_stdout(StringIO()) as printed:
        exec(compile(block.code, name, "exec", dont_inherit=True), names)
    got = printed.getvalue()
    if block.output and not OutputChecker().check_output(block.output, got, ELLIPSIS):
        pytest.fail(f"{name} shows\n{block.output}\nbut prints\n{got}", pytrace=False)

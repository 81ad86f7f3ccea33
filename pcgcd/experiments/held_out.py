"""Which examples no HMM was distilled on: those that ``pcgcd experiment prompts`` leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pcgcd.experiments.tasks import Part, query_prompts, schema_prompts, tool_prompts
from pcgcd.learning import Source

T = TypeVar("T")
Prompts = Callable[[Path, Part], list[Source]]

# The files that each kind of prompts is read from.
_FILES: dict[Prompts, tuple[str, ...]] = {
    tool_prompts: ("bfcl/simple_python.jsonl", "bfcl/multiple.jsonl", "bfcl/live_simple.jsonl"),
    schema_prompts: ("json_schema/jsonschemabench.jsonl",),
    query_prompts: ("spider/dev.jsonl", "spider/tables.json"),
}


def held_out(
    folder: Path, kind: Prompts, examples: Sequence[T], asked: Callable[[T], str]
) -> list[T]:
    """Return the examples whose question ends no training prompt.

    Args:
        folder: The data folder. Without the files of these prompts, no HMM can have seen any.
        kind: What makes the prompts.
        examples: The examples.
        asked: The text of an example with which its training prompt would end.
    """
    seen = _training(folder, kind)
    return [example for example in examples if not seen.endswith(asked(example))]


def trained_on(
    folder: Path, kind: Prompts, examples: Sequence[T], asked: Callable[[T], str]
) -> list[T]:
    """Return the other examples: those that :func:`held_out` leaves out."""
    seen = _training(folder, kind)
    return [example for example in examples if seen.endswith(asked(example))]


class _Endings:
    """The training prompts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)

    def endswith(self, text: str) -> bool:
        return any(known.endswith(text) for known in self._texts)


@cache
def _training(folder: Path, kind: Prompts) -> _Endings:
    if not all((folder / file).is_file() for file in _FILES[kind]):
        return _Endings(())
    prompts: list[Any] = [source.prompt for source in kind(folder, "train")]
    return _Endings([str(prompt[-1]["content"]) for prompt in prompts])

"""The Berkeley Function-Calling Leaderboard: questions, functions and accepted arguments.

Its answers are in the rows themselves (``ground_truth``), or, as published, in a file of the same
name in the folder ``possible_answer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.data.files import entries, read_rows


@dataclass(frozen=True)
class CallExample:
    """A question that is answered by calls of functions.

    Attributes:
        name: What it is called.
        question: The messages of the user.
        tools: The functions: name, description and parameters.
        answers: For each call that is wanted, the function's name and the accepted values of each
            argument. An empty text among them means that the argument may be left out.
    """

    name: str
    question: Sequence[Mapping[str, str]]
    tools: Sequence[Mapping[str, Any]]
    answers: Sequence[tuple[str, Mapping[str, Sequence[Any]]]]


def read_bfcl(path: Path) -> list[CallExample]:
    """Return the rows of a file whose question is one turn.

    Raises:
        InvalidParameterError: The file, or its answers, cannot be read.
    """
    rows = read_rows(path)
    if rows and "ground_truth" not in rows[0]:
        answers = {
            row.get("id"): row.get("ground_truth")
            for row in read_rows(path.parent / "possible_answer" / path.name)
        }
        rows = [{**row, "ground_truth": answers.get(row.get("id"))} for row in rows]
    found = []
    for row in rows:
        name, turns, tools, truth = entries(
            row, ("id", "question", "function", "ground_truth"), path
        )
        if truth is None:
            raise InvalidParameterError(f"{path.name} has no answer to the question {name!r}")
        if len(turns) == 1:
            calls = [next(iter(call.items())) for call in truth]
            found.append(CallExample(str(name), turns[0], tools, calls))
    return found

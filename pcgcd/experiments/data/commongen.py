"""CommonGen: sets of concepts and sentences that people wrote with them.

Three layouts are in use: ``concepts`` and ``references``; the original ``concept_set`` ("a#b#c")
and ``scene``; and one row for each sentence, ``concept_set_idx``, ``concepts`` and ``target``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.data.files import read_rows


@dataclass(frozen=True)
class Concepts:
    """Words to write a sentence with.

    Attributes:
        words: The concepts.
        references: Sentences of people.
    """

    words: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called: the words."""
        return " ".join(self.words)


def read_commongen(path: Path) -> list[Concepts]:
    """Return the sets of a file, each once, with all its references.

    Raises:
        InvalidParameterError: The file cannot be read, or is of another layout.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for row in read_rows(path):
        words, references = _read(row, path)
        found.setdefault(words, []).extend(references)
    return [Concepts(words, tuple(references)) for words, references in found.items()]


def _read(row: dict[str, Any], path: Path) -> tuple[tuple[str, ...], list[str]]:
    if "concepts" in row and "references" in row:
        return tuple(row["concepts"]), list(row["references"])
    if "concept_set" in row and "scene" in row:
        return tuple(row["concept_set"].split("#")), list(row["scene"])
    if "concepts" in row and "target" in row:
        return tuple(row["concepts"]), [row["target"]] if row["target"] else []
    raise InvalidParameterError(
        f"a row of {path.name} must have concepts and references, concept_set and scene, or "
        f"concepts and target, but has {', '.join(row)}"
    )

"""JSONSchemaBench: schemas with instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcgcd.experiments.data.files import entries, read_rows


@dataclass(frozen=True)
class SchemaExample:
    """A schema.

    Attributes:
        name: What it is called.
        schema: The schema.
        valid: Instances that satisfy it.
    """

    name: str
    schema: Any
    valid: Sequence[Any]


def read_json_schemas(path: Path) -> list[SchemaExample]:
    """Return all schemas of a file.

    Raises:
        InvalidParameterError: The file cannot be read.
    """
    found = []
    for row in read_rows(path):
        name, schema, valid = entries(row, ("id", "schema", "valid"), path)
        found.append(SchemaExample(str(name), schema, valid))
    return found

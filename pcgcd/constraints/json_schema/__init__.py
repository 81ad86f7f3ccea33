"""JSON Schema (draft 2020-12) as a constraint; see :func:`json_schema`."""

from pcgcd.constraints.json_schema.schema import json_schema

__all__ = ["json_schema"]

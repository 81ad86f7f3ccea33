"""Regular expressions."""

from __future__ import annotations

from pcgcd.constraints.regex.regex import regex

__all__ = ["regex"]

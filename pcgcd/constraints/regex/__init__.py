"""Regular expressions."""

from pcgcd.constraints.regex.regex import regex

__all__ = ["regex"]

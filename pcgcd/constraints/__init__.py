"""What people write: constraints on texts, as values that compose and compile."""

from __future__ import annotations

from pcgcd.constraints.asking import constraint_of, of_response_format, of_tool_choice
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.grammar import grammar
from pcgcd.constraints.json_schema import json_schema
from pcgcd.constraints.keywords import keywords
from pcgcd.constraints.regex import regex
from pcgcd.constraints.simple import any_text, choice, length, literal, not_containing
from pcgcd.constraints.sql import sql
from pcgcd.constraints.tools import Call, function_call, openai_tools

__all__ = [
    "Call",
    "Constraint",
    "any_text",
    "choice",
    "constraint_of",
    "function_call",
    "grammar",
    "json_schema",
    "keywords",
    "length",
    "literal",
    "not_containing",
    "of_response_format",
    "of_tool_choice",
    "openai_tools",
    "regex",
    "sql",
]

"""The options that name a constraint, shared by the commands that need one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.constraints import Constraint


def add_constraint_options(parser: argparse.ArgumentParser) -> None:
    """Exactly one of them has to be given."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--json-schema", type=Path, metavar="FILE", help="a JSON schema")
    add(
        "--tools",
        type=Path,
        metavar="FILE",
        help="a JSON list of tools, as of OpenAI, Anthropic or MCP",
    )
    add("--regex", metavar="PATTERN", help="a regular expression, matched whole")
    add("--keywords", metavar="A,B,...", help="words that must all appear")
    add("--sql", type=Path, metavar="DATABASE", help="an SQLite database")
    add("--grammar", type=Path, metavar="FILE", help="a grammar in Lark's notation")
    parser.add_argument(
        "--style", choices=["json", "python"], default="json", help="of tool calls (%(default)s)"
    )


def read_constraint(arguments: argparse.Namespace) -> Constraint:
    """The constraint that the options name."""
    from pcgcd import constraints

    if arguments.json_schema is not None:
        return constraints.json_schema(_read_json(arguments.json_schema))
    if arguments.tools is not None:
        return constraints.function_call(read_tools(arguments.tools), style=arguments.style)
    if arguments.regex is not None:
        return constraints.regex(arguments.regex)
    if arguments.keywords is not None:
        words = [word.strip() for word in arguments.keywords.split(",")]
        return constraints.keywords(words)
    if arguments.sql is not None:
        return constraints.sql(arguments.sql)
    return constraints.grammar(arguments.grammar.read_text(encoding="utf-8"))


def read_tools(path: Path) -> Any:
    """The tools of a file, as they are described there."""
    return _read_json(path)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameterError(f"{path} is not valid JSON: {error}") from error

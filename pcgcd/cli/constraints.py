"""The options that name a constraint, shared by the commands that need one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcgcd.cli.sources import Source, grammar_source, json_source
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.constraints import Constraint

_JSON = ("state_limit", "max_length", "max_depth", "whitespace", "relax")
# The limits that go with each constraint: arguments of its function in Python.
_LIMITS: dict[str, tuple[str, ...]] = {
    "json_schema": (*_JSON, "open_objects"),
    "tools": _JSON,
    "regex": (),
    "keywords": ("state_limit",),
    "sql": ("state_limit", "max_depth"),
    "grammar": ("max_depth",),
}


def add_constraint_options(parser: argparse.ArgumentParser) -> None:
    """Add what names a constraint, of which exactly one has to be given, and its limits."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add(
        "--json-schema",
        type=json_source("--json-schema"),
        metavar="SCHEMA",
        help="a JSON schema: a file, - for standard input, or the JSON itself",
    )
    add(
        "--tools",
        type=json_source("--tools"),
        metavar="TOOLS",
        help="a JSON list of tools, as of OpenAI, Anthropic or MCP: a file, - or the JSON itself",
    )
    add("--regex", metavar="PATTERN", help="a regular expression, matched whole")
    add("--keywords", metavar="A,B,...", help="words that must all appear")
    add("--sql", type=Path, metavar="DATABASE", help="an SQLite database")
    add(
        "--grammar",
        type=grammar_source("--grammar"),
        metavar="GRAMMAR",
        help="a grammar in Lark's notation: a file, - or the grammar itself",
    )
    parser.add_argument(
        "--style", choices=["json", "python"], default="json", help="of tool calls (%(default)s)"
    )
    add = parser.add_argument_group("limits of the constraint").add_argument
    add("--state-limit", type=int, help="states of its automaton, at most" + _of("state_limit"))
    add("--max-length", type=int, help="characters of a string, at most" + _of("max_length"))
    add("--max-depth", type=int, help="how deep it may be nested" + _of("max_depth"))
    add(
        "--whitespace",
        choices=["compact", "bounded", "free"],
        help="white space between the parts of JSON" + _of("whitespace"),
    )
    add(
        "--relax",
        action="append",
        metavar="KEYWORD",
        help="accept more than a keyword says that cannot be honoured; repeat" + _of("relax"),
    )
    add(
        "--open-objects",
        action="store_const",
        const=True,
        help="objects may have other properties too" + _of("open_objects"),
    )


def read_constraint(arguments: argparse.Namespace) -> Constraint:
    """The constraint that the options name."""
    from pcgcd import constraints

    [name] = [name for name in _LIMITS if getattr(arguments, name) is not None]
    given: Any = getattr(arguments, name)
    limits = _limits(arguments, name)
    if name == "json_schema":
        return constraints.json_schema(given.json, **limits)
    if name == "tools":
        return constraints.function_call(given.json, style=arguments.style, **limits)
    if name == "regex":
        return constraints.regex(given)
    if name == "keywords":
        return constraints.keywords([word.strip() for word in given.split(",")], **limits)
    if name == "sql":
        return constraints.sql(given, **limits)
    return constraints.grammar(given.text, **limits)


def sources(arguments: argparse.Namespace) -> list[Source]:
    """The options that may read standard input."""
    return [value for value in vars(arguments).values() if isinstance(value, Source)]


def _limits(arguments: argparse.Namespace, constraint: str) -> dict[str, Any]:
    """The limits that were given, by their names in Python."""
    names = dict.fromkeys(name for names in _LIMITS.values() for name in names)
    found = {name: getattr(arguments, name) for name in names}
    found = {name: value for name, value in found.items() if value is not None}
    for name in found:
        if name not in _LIMITS[constraint]:
            raise InvalidParameterError(
                f"{_option(name)} goes with {_owners(name)}, not with {_option(constraint)}; leave "
                "it out"
            )
    return found


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _owners(limit: str) -> str:
    return ", ".join(_option(name) for name, limits in _LIMITS.items() if limit in limits)


def _of(limit: str) -> str:
    """Whose limit it is, for the help."""
    return f" ({_owners(limit)})"

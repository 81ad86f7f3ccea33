"""``pcgcd mask``: which tokens may follow a text."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pcgcd.cli.compile import read_vocabulary
from pcgcd.cli.constraints import add_constraint_options, read_constraint
from pcgcd.errors import EmptyLanguageError, InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add_constraint_options(parser)
    add = parser.add_argument
    add("--prefix", default="", metavar="TEXT", help="the text so far")
    add("--budget", type=int, help="how many tokens may still come; without it, any number (LCD)")
    add("--model", help="a tokenizer's folder or hub id; without it, tokens are single bytes")
    add("--limit", type=int, default=50, help="list at most so many tokens (%(default)s)")
    add("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    """Print the tokens."""
    constraint = read_constraint(arguments)
    vocabulary = read_vocabulary(arguments.model)
    automaton = constraint.compile(vocabulary)
    states = automaton.start_states
    for token in vocabulary.greedy(arguments.prefix):
        states = automaton.advance(states, token)
    if not states:
        raise InvalidParameterError(
            f"no text of the constraint begins with {arguments.prefix!r}, so nothing may follow"
        )
    shortest = min(int(automaton.distance_to_accept[state]) for state in states)
    if arguments.budget is not None and arguments.budget < max(shortest, 1):
        raise EmptyLanguageError(
            f"after {arguments.prefix!r} the text cannot be finished within {arguments.budget} "
            f"tokens; the smallest budget that works is {max(shortest, 1)}",
            length=arguments.budget,
            shortest_length=max(shortest, 1),
        )
    allowed = automaton.mask(states, arguments.budget).nonzero()[0].tolist()
    facts: dict[str, Any] = {
        "prefix": arguments.prefix,
        "complete": shortest == 0,
        "shortest_completion": shortest,
        "allowed": len(allowed),
        "tokens": [
            {"id": token, "text": _text(token, vocabulary)} for token in allowed[: arguments.limit]
        ],
    }
    if arguments.json:
        print(json.dumps(facts))
    else:
        _print_table(facts)


def _text(token: int, vocabulary: Vocabulary) -> str | None:
    if token in vocabulary.eos_ids:
        return None
    return (vocabulary.token_bytes[token] or b"").decode("utf-8", "backslashreplace")


def _tokens(count: int) -> str:
    return f"{count:,} token{'s' * (count != 1)}"


def _print_table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{_tokens(facts['allowed'])} may follow {facts['prefix']!r}"))
    table.add_column("id", justify="right")
    table.add_column("token")
    for row in facts["tokens"]:
        text = "end of text" if row["text"] is None else repr(row["text"])
        table.add_row(str(row["id"]), Text(text))
    console = Console()
    console.print(table)
    if len(facts["tokens"]) < facts["allowed"]:
        console.print(f"and {facts['allowed'] - len(facts['tokens'])} more")
    complete, shortest = "is" if facts["complete"] else "is not", facts["shortest_completion"]
    line = f"the text {complete} complete; the shortest completion has {_tokens(shortest)}"
    console.print(line, soft_wrap=True)

"""``pcgcd compile``: how large a constraint is as an automaton, and how long it takes."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcgcd.basics.packages import package
from pcgcd.cli.constraints import add_constraint_options, read_constraint
from pcgcd.errors import EmptyLanguageError, InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add_constraint_options(parser)
    add = parser.add_argument
    add("--model", help="a tokenizer's folder or hub id; without it, tokens are single bytes")
    add("--cache", type=Path, help="folder in which compiled automata are kept")
    add(
        "--picture",
        type=Path,
        help="draw the automaton over bytes to this file, simplified if large",
    )
    add("--json", action="store_true", help="print one JSON object")


def read_vocabulary(model: str | None) -> Vocabulary:
    """The vocabulary of a tokenizer; without one, the 256 bytes and an end-of-text token."""
    from pcgcd.automata import Vocabulary

    if model is None:
        return Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), None], eos_ids=256)
    transformers = package("transformers", "reading a tokenizer")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise InvalidParameterError(
            f"no tokenizer could be read from {model!r}: {str(error).splitlines()[0]}"
        ) from error
    return Vocabulary.from_tokenizer(tokenizer)


def run(arguments: argparse.Namespace) -> None:
    """Compile and print."""
    vocabulary = read_vocabulary(arguments.model)
    start = time.perf_counter()
    constraint = read_constraint(arguments)
    byte_automaton = constraint.automaton
    built = time.perf_counter()
    automaton = constraint.compile(vocabulary, cache=arguments.cache)
    lifted = time.perf_counter()
    shortest = automaton.shortest_length()
    if shortest is None:
        raise EmptyLanguageError(f"no text satisfies {constraint.description}")
    facts: dict[str, Any] = {
        "constraint": constraint.description,
        "byte_states": byte_automaton.num_states,
        "byte_edges": byte_automaton.num_edges,
        "states": automaton.num_states,
        "edges": automaton.num_edges,
        "labels": automaton.labels.num_labels,
        "classes": automaton.labels.num_classes,
        "vocab_size": automaton.vocab_size,
        "deterministic": automaton.is_deterministic,
        "shortest_length": shortest,
        "seconds": round(lifted - start, 6),
        "seconds_bytes": round(built - start, 6),
        "seconds_tokens": round(lifted - built, 6),
        "dropped": list(constraint.dropped),
    }
    if arguments.picture is not None:
        from pcgcd import viz

        viz.save(viz.figure_constraint(byte_automaton), arguments.picture)
    if arguments.json:
        print(json.dumps(facts))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), Text(str(value), overflow="fold"))
    Console().print(table)

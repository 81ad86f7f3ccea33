"""The command line of ``pcgcd``: demo, compile, generate, mask, distill, experiment, warm-up.

What a command needs is imported when the command runs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pcgcd import __version__
from pcgcd.cli import compile as compile_
from pcgcd.cli import demo, distill, experiment, generate, mask, warm_up
from pcgcd.cli.machine import collect_rarely, share_machine
from pcgcd.cli.parsing import Parser
from pcgcd.cli.sentences import as_options
from pcgcd.errors import PcgcdError

_FAILURE = 2
_COMMANDS = (
    ("demo", demo, "function calls and sentences of the default model, constrained in four ways"),
    ("compile", compile_, "turn a constraint into a token automaton and report its size"),
    ("generate", generate, "generate texts that satisfy a constraint within a budget"),
    ("mask", mask, "list the tokens that may follow a text"),
    ("distill", distill, "make an HMM from samples of a language model"),
    ("experiment", experiment, "repeat a table or figure of the paper"),
    ("warm-up", warm_up, "compile all loops once, so that later runs start at once"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: The arguments; those of the process without it.

    Returns:
        0, or 2 after an error of ours or of a file, which is one sentence on the error stream.
        Other errors are not hidden.
    """
    arguments = make_parser().parse_args(argv)
    share_machine()
    collect_rarely()
    try:
        with _warnings_as_sentences(arguments):
            arguments.run(arguments)
    except PcgcdError as error:
        return _fail(as_options(str(error), vars(arguments)))
    except OSError as error:
        return _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
    return 0


def _fail(sentence: str) -> int:
    _say(sentence)
    return _FAILURE


def _say(sentence: str) -> None:
    print(f"pcgcd: {' '.join(sentence.split())}", file=sys.stderr)


@contextmanager
def _warnings_as_sentences(arguments: argparse.Namespace) -> Iterator[None]:
    """Show the library's warnings as its errors are shown, without a place in its source."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__ == PcgcdError.__module__:
                _say(as_options(str(message), vars(arguments)))
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="pcgcd", description="Constrained generation with probabilistic circuits.")
    parser.add_argument("--version", action="version", version=f"pcgcd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    for name, command, summary in _COMMANDS:
        options = commands.add_parser(name, help=summary)
        command.add_options(options)
        options.set_defaults(run=command.run)
    return parser

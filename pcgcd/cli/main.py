"""The command line of ``pcgcd``: demo, compile, generate, mask, distill, experiment.

What a command needs is imported when the command runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pcgcd import __version__
from pcgcd.cli import compile as compile_
from pcgcd.cli import demo, distill, experiment, generate, mask
from pcgcd.errors import PcgcdError

_FAILURE = 2
_COMMANDS = (
    ("demo", demo, "function calls and sentences of the default model, constrained in four ways"),
    ("compile", compile_, "turn a constraint into a token automaton and tell its size"),
    ("generate", generate, "generate texts that satisfy a constraint within a budget"),
    ("mask", mask, "tell which tokens may follow a text"),
    ("distill", distill, "make an HMM from samples of a language model"),
    ("experiment", experiment, "repeat a table or figure of the paper"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: The arguments; those of the process without it.

    Returns:
        0, or 2 after an error of ours or of a file, which is one sentence on the error stream.
        Other errors are not hidden.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except PcgcdError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
    return 0


def _fail(sentence: str) -> int:
    print(f"pcgcd: {' '.join(sentence.split())}", file=sys.stderr)
    return _FAILURE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pcgcd", description="Constrained generation with probabilistic circuits."
    )
    parser.add_argument("--version", action="version", version=f"pcgcd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    for name, command, summary in _COMMANDS:
        options = commands.add_parser(name, help=summary)
        command.add_options(options)
        options.set_defaults(run=command.run)
    return parser

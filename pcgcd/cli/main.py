"""The command line of ``pcgcd``: demo, compile, generate, mask, distill, experiment, warm-up.

What a command needs is imported when the command runs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence

from pcgcd import __version__
from pcgcd.cli import compile as compile_
from pcgcd.cli import demo, distill, experiment, generate, mask, warm_up
from pcgcd.cli.machine import share_machine
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
    arguments = _parser().parse_args(argv)
    share_machine()
    try:
        arguments.run(arguments)
    except PcgcdError as error:
        return _fail(_as_options(str(error), vars(arguments)))
    except OSError as error:
        return _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
    return 0


def _as_options(sentence: str, options: Collection[str]) -> str:
    """A sentence of the library's with the options of the command instead of arguments in Python.

    >>> _as_options('give hmm=, or use method="gcd", not w=1; strict=False', ["hmm", "method", "w"])
    'give --hmm, or use --method gcd, not --w 1; strict=False'
    """

    def option(match: re.Match[str]) -> str:
        if match[1] not in options:
            return match[0]
        value = (match[2] or "").strip("\"'")
        return f"--{match[1].replace('_', '-')}" + (f" {value}" if value else "")

    return re.sub(r"\b([a-z_]+)=(\"[^\"]*\"|'[^']*'|[\w.]+)?", option, sentence)


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

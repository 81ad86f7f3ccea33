"""The command line: ``pcgcd demo``, ``pcgcd --version``.

What a command needs is imported when the command runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pcgcd import __version__
from pcgcd.errors import PcgcdError

__all__ = ["main"]

_FAILURE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: The arguments; those of the process without it.

    Returns:
        0, or 2 after an error, which is one sentence on the error stream.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except PcgcdError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot write to {error.filename or arguments.out}: {error.strerror}")
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
    demo = commands.add_parser("demo", help="show what the library does, in a few seconds")
    demo.add_argument(
        "--out", type=Path, default=Path("demo_output"), help="folder of the picture (%(default)s)"
    )
    demo.add_argument("--seed", type=int, default=0, help="decides the samples (%(default)s)")
    demo.set_defaults(run=_demo)
    return parser


def _demo(arguments: argparse.Namespace) -> None:
    from pcgcd import demo

    demo.main(arguments.out, arguments.seed)

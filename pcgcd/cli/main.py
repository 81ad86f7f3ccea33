"""The command line of ``pcgcd``: demo, generate, mask, compile, distill, experiment.

What a command needs is imported when the command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pcgcd import __version__
from pcgcd.cli import distill, experiment, generate, mask
from pcgcd.cli.constraints import add_constraint_options
from pcgcd.cli.exits import exit_code

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: The arguments; those of the process without it.

    Returns:
        0, or 2 after an error, which is one sentence on the error stream.
    """
    arguments = _parser().parse_args(argv)
    return exit_code(lambda: arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pcgcd", description="Constrained generation with probabilistic circuits."
    )
    parser.add_argument("--version", action="version", version=f"pcgcd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)

    demo = commands.add_parser(
        "demo", help="function calls and sentences of the default model, constrained in four ways"
    )
    demo.add_argument(
        "--exact", action="store_true", help="a world so small that it needs no language model"
    )
    demo.add_argument(
        "--out", type=Path, default=Path("demo_output"), help="folder of the picture (%(default)s)"
    )
    demo.add_argument("--seed", type=int, default=0, help="decides the samples (%(default)s)")
    demo.add_argument("--particles", type=int, default=8, help="texts of each kind (%(default)s)")
    demo.add_argument("--model", help="a model's folder or hub id; without it, the default model")
    demo.add_argument("--hmm", help="an HMM's folder or hub id; without it, the default one")
    demo.set_defaults(run=_demo)

    compile_ = commands.add_parser(
        "compile", help="turn a constraint into a token automaton and tell its size"
    )
    add_constraint_options(compile_)
    compile_.add_argument(
        "--model", help="a tokenizer's folder or hub id; without it, tokens are single bytes"
    )
    compile_.add_argument("--cache", type=Path, help="folder in which compiled automata are kept")
    compile_.add_argument("--picture", type=Path, help="draw the automaton over bytes to this file")
    compile_.add_argument("--json", action="store_true", help="print one JSON object")
    compile_.set_defaults(run=_compile)

    generate_ = commands.add_parser(
        "generate", help="generate texts that satisfy a constraint within a budget"
    )
    generate.add_options(generate_)
    generate_.set_defaults(run=generate.run)

    mask_ = commands.add_parser("mask", help="tell which tokens may follow a text")
    mask.add_options(mask_)
    mask_.set_defaults(run=mask.run)

    distill_ = commands.add_parser("distill", help="make an HMM from samples of a language model")
    distill.add_options(distill_)
    distill_.set_defaults(run=distill.run)

    experiment_ = commands.add_parser("experiment", help="repeat a table or figure of the paper")
    experiment.add_options(experiment_)
    experiment_.set_defaults(run=experiment.run)
    return parser


def _demo(arguments: argparse.Namespace) -> None:
    if arguments.exact:
        from pcgcd.demo import exact

        exact.main(arguments.out, arguments.seed)
        return
    from pcgcd.demo import generation

    generation.main(
        arguments.out,
        arguments.seed,
        particles=arguments.particles,
        model=arguments.model,
        hmm=arguments.hmm,
    )


def _compile(arguments: argparse.Namespace) -> None:
    from pcgcd.cli.compile import run

    run(arguments)

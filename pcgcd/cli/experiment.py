"""``pcgcd experiment``: tables and figures that can be made again."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")

    nfa_dfa = names.add_parser("nfa-dfa", help="how much smaller automata with choices are")
    _add_out(nfa_dfa)

    guidance = names.add_parser(
        "guidance", help="GCD, P-GCD and the twisted proposal with equally many particles"
    )
    _add_out(guidance)
    guidance.add_argument("--model", help="a model's folder or hub id; else the default model")
    guidance.add_argument("--hmm", help="an HMM's folder or hub id; else the default HMM")
    guidance.add_argument("--prompts", type=int, default=40, help="of each task (%(default)s)")
    guidance.add_argument(
        "--particles", type=int, nargs="+", default=[8], help="numbers of particles (8)"
    )
    guidance.add_argument("--seed", type=int, default=0, help="(%(default)s)")

    prompts = names.add_parser(
        "prompts", help="write the prompts that the default HMM is distilled on"
    )
    _add_out(prompts)


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("experiments_output"), help="folder (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the experiment of that name."""
    if arguments.name == "guidance":
        from pcgcd.experiments import guidance

        guidance.main(
            arguments.out,
            model=arguments.model,
            hmm=arguments.hmm,
            prompts=arguments.prompts,
            particles=arguments.particles,
            seed=arguments.seed,
        )
    elif arguments.name == "prompts":
        from pcgcd.experiments import tasks

        tasks.main(arguments.out)
    else:
        from pcgcd.experiments import nfa_dfa

        nfa_dfa.main(arguments.out)

"""``pcgcd experiment``: tables and figures that can be made again."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")

    for name, summary in (
        ("nfa-dfa", "how much smaller automata with choices are"),
        ("guidance", "GCD, P-GCD and the twisted proposal with equally many particles"),
        ("prompts", "write the prompts that the default HMM is distilled on"),
    ):
        add = names.add_parser(name, help=summary).add_argument
        add("--out", type=Path, default="experiments_output", help="folder (%(default)s)")
        if name == "guidance":
            add("--model", help="a model's folder, hub id or GGUF file; else the default model")
            add("--hmm", help="an HMM's folder or hub id; else the default HMM")
            add("--prompts", type=int, default=40, help="of each task (%(default)s)")
            add("--particles", type=int, nargs="+", default=[8], help="numbers of particles (8)")
            add("--seed", type=int, default=0, help="(%(default)s)")


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

"""``pcgcd demo``: what constraints do to the default model, or to a world that needs none."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add = parser.add_argument
    add("--exact", action="store_true", help="a world so small that it needs no language model")
    add("--out", type=Path, default="demo_output", help="folder of the picture (%(default)s)")
    add("--seed", type=int, default=0, help="decides the samples (%(default)s)")
    add("--particles", type=int, default=8, help="texts of each kind (%(default)s)")
    add("--model", help="a model's folder, hub id or GGUF file; without it, the default model")
    add("--hmm", help="an HMM's folder or hub id; without it, the default one")


def run(arguments: argparse.Namespace) -> None:
    """Run the demo and print it."""
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

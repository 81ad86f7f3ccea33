"""``pcgcd distill``: an HMM from samples of a language model."""

from __future__ import annotations

import argparse

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    from pcgcd.distillation.options import add_options as add

    add(parser)


def run(arguments: argparse.Namespace) -> None:
    """Distil."""
    from pcgcd.distillation.options import run as run_here
    from pcgcd.distillation.processes import together

    with together():
        run_here(arguments)

"""Distillation as a module, for several processes.

torchrun --nproc-per-node 2 -m pcgcd.distillation --prompts prompts.jsonl --out hmm
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pcgcd.distillation.options import add_options, run
from pcgcd.distillation.processes import together
from pcgcd.exits import exit_code

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Distil and return an exit code: 0, or 2 after an error, which is one sentence."""
    parser = argparse.ArgumentParser(
        prog="python -m pcgcd.distillation", description="Distil an HMM from a language model."
    )
    add_options(parser)
    arguments = parser.parse_args(argv)

    def command() -> None:
        with together():
            run(arguments)

    return exit_code(command)


if __name__ == "__main__":
    sys.exit(main())

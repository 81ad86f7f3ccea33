"""Distillation as a module, for several processes.

torchrun --nproc-per-node 2 -m pcgcd.distillation --prompts prompts.jsonl --out hmm
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pcgcd.distillation.options import add_options, run
from pcgcd.distillation.processes import together
from pcgcd.errors import PcgcdError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Distil and return an exit code: 0, or 2 after an error, which is one sentence."""
    parser = argparse.ArgumentParser(
        prog="python -m pcgcd.distillation", description="Distil an HMM from a language model."
    )
    add_options(parser)
    arguments = parser.parse_args(argv)
    try:
        with together():
            run(arguments)
    except PcgcdError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
    return 0


def _fail(sentence: str) -> int:
    print(f"pcgcd: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

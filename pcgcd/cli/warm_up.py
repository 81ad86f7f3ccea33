"""``pcgcd warm-up``: compile all loops once, into numba's cache; for images and first uses."""

from __future__ import annotations

import argparse
import time


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    parser.description = (
        "Compile all loops into numba's cache (NUMBA_CACHE_DIR, or beside the package), so that "
        "later runs start at once."
    )


def run(arguments: argparse.Namespace) -> None:
    """Compile by doing a little of everything."""
    del arguments
    from pcgcd.decoding.warming import compile_all_loops

    start = time.process_time()
    compile_all_loops()
    print(f"compiled in {time.process_time() - start:.0f} CPU seconds")

"""Run the benchmarks: ``python benchmarks/run.py [--only NAME] [--quick]``.

A full run writes its numbers and figures to docs/results, and makes docs/benchmarks.md from them;
a quick one only prints.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import tables
from common import RESULTS
from rich.console import Console

BENCHMARKS = (
    "product_build",
    "product",
    "decoding",
    "lm_engines",
    "em",
    "engines",
    "json_schema_suite",
    "sql_coverage",
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=BENCHMARKS, help="run one of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing is written")
    parser.add_argument("--out", type=Path, help="folder of the results (docs/results)")
    parser.add_argument("--peer-python", help="a Python that has the peers (this one)")
    arguments = parser.parse_args(argv)
    folder = arguments.out or (None if arguments.quick else RESULTS)
    console = Console()
    for name in BENCHMARKS:
        if arguments.only not in (None, name):
            continue
        console.rule(name)
        benchmark = importlib.import_module(name)
        results = benchmark.main(quick=arguments.quick, peer_python=arguments.peer_python)
        for item in benchmark.tables(results):
            console.print(item)
        for path in benchmark.save(results, folder) if folder else ():
            console.print(f"written: {path.name}")
    return tables.main([]) if folder == RESULTS else 0


if __name__ == "__main__":
    sys.exit(main())

"""What benchmarks of distillation start from: samples, and the prompts that they answer."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import torch
from common import RESULTS

from pcgcd.learning.distillation.prompts import read_prompts
from pcgcd.learning.distillation.shards import SampleSet
from pcgcd.lm import LanguageModel, default_model


class Given(NamedTuple):
    """What a command line names."""

    lm: LanguageModel
    samples: SampleSet
    prompts: list[tuple[int, ...]]  # of each sample
    out: Path


def given_samples(argv: list[str] | None, description: str, *, partial: bool = False) -> Given:
    """Read ``--samples FOLDER --prompts FILE [--out FOLDER]``.

    Args:
        argv: The arguments; None for those of the process.
        description: What the benchmark is about.
        partial: Whether samples may be missing.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    lm, sources = default_model(), read_prompts(arguments.prompts)
    samples = SampleSet.load(arguments.samples, partial=partial)
    numbers = samples.prompts.tolist()
    ids = {n: lm.encode(sources[n].prompt) for n in sorted(set(numbers))}
    return Given(lm, samples, [ids[n] for n in numbers], arguments.out)

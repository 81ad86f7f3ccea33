"""Distillation under another name.

torchrun --nproc-per-node 2 -m pcgcd.hmm.distill --prompts prompts.jsonl --out hmm

The package :mod:`pcgcd.distillation` stands above this one, so it is started, not imported.
"""

from __future__ import annotations

import runpy

__all__: list[str] = []

if __name__ == "__main__":
    runpy.run_module("pcgcd.distillation", run_name="__main__", alter_sys=True)

"""Distillation: from a language model to an HMM that guides it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcgcd.distillation.pipeline import Distilled, distill
    from pcgcd.distillation.prompts import Source, read_prompts
    from pcgcd.distillation.sampling import sample
    from pcgcd.distillation.settings import Fitting, Sampling, Start
    from pcgcd.distillation.shards import SampleSet
    from pcgcd.distillation.starts import initialise

__all__ = [
    "Distilled",
    "Fitting",
    "SampleSet",
    "Sampling",
    "Source",
    "Start",
    "distill",
    "initialise",
    "read_prompts",
    "sample",
]

# Imported when they are used: the command line only wants the options.
_MODULES = {
    "starts": ("initialise",),
    "pipeline": ("Distilled", "distill"),
    "settings": ("Fitting", "Sampling", "Start"),
    "prompts": ("Source", "read_prompts"),
    "sampling": ("sample",),
    "shards": ("SampleSet",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"pcgcd.distillation.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

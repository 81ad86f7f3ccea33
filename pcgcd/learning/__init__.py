"""Learning HMMs: expectation-maximisation, and distillation from a language model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcgcd.learning.distillation.pipeline import Distilled, distill
    from pcgcd.learning.distillation.prompts import Source, read_prompts
    from pcgcd.learning.distillation.sampling import sample
    from pcgcd.learning.distillation.settings import Fitting, Sampling, Start
    from pcgcd.learning.distillation.shards import SampleSet
    from pcgcd.learning.distillation.starts import initialise
    from pcgcd.learning.em.fit import fit

__all__ = [
    "Distilled",
    "Fitting",
    "SampleSet",
    "Sampling",
    "Source",
    "Start",
    "distill",
    "fit",
    "initialise",
    "read_prompts",
    "sample",
]

# Imported when they are used: EM needs no language model.
_MODULES = {
    "distillation.starts": ("initialise",),
    "distillation.pipeline": ("Distilled", "distill"),
    "distillation.settings": ("Fitting", "Sampling", "Start"),
    "distillation.prompts": ("Source", "read_prompts"),
    "distillation.sampling": ("sample",),
    "distillation.shards": ("SampleSet",),
    "em.fit": ("fit",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

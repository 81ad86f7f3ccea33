"""Language models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pcgcd.lm.base import LanguageModel, LMSession, PrefixSession, Prompt, SharedSession
from pcgcd.lm.hmm import HMMLanguageModel
from pcgcd.lm.table import TableLM

if TYPE_CHECKING:
    from pcgcd.lm.default import default_model, load_model
    from pcgcd.lm.llamacpp import LlamaCpp
    from pcgcd.lm.transformers_lm import TransformersLM
    from pcgcd.lm.vllm_lm import VLLM

__all__ = [
    "VLLM",
    "HMMLanguageModel",
    "LMSession",
    "LanguageModel",
    "LlamaCpp",
    "PrefixSession",
    "Prompt",
    "SharedSession",
    "TableLM",
    "TransformersLM",
    "default_model",
    "load_model",
]

# These need packages that take seconds to import, or are not there.
_LATER = {
    "LlamaCpp": "llamacpp",
    "VLLM": "vllm_lm",
    "TransformersLM": "transformers_lm",
    "default_model": "default",
    "load_model": "default",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)

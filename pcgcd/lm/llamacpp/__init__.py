"""Language models in GGUF files, computed by llama.cpp."""

from pcgcd.lm.llamacpp.model import LlamaCpp

__all__ = ["LlamaCpp"]

"""The tokens of a language model."""

from __future__ import annotations

from pcgcd.automata.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]

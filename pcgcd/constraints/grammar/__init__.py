"""Context-free grammars in Lark's notation."""

from __future__ import annotations

from pcgcd.constraints.grammar.grammar import grammar

__all__ = ["grammar"]

"""Context-free grammars in Lark's notation."""

from pcgcd.constraints.grammar.grammar import grammar

__all__ = ["grammar"]

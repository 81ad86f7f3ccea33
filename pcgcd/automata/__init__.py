"""Finite automata."""

from __future__ import annotations

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.labels import Labels

__all__ = ["FiniteAutomaton", "Labels"]

"""From automata over bytes to automata over tokens."""

from __future__ import annotations

from pcgcd.automata.lifting.from_bytes import ByteTable, lift

__all__ = ["ByteTable", "lift"]

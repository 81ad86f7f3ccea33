"""How large automata may become where nobody says otherwise."""

from __future__ import annotations

__all__ = ["STATE_LIMIT"]

STATE_LIMIT = 200_000

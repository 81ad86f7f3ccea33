"""Numbers that bound automata, and the one that stands for no bound."""

from __future__ import annotations

# How large automata may become where nobody says otherwise.
STATE_LIMIT = 250_000
# More steps than any way has, and far from overflow when something is added: there is no way.
NEVER = 1 << 62

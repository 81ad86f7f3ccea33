"""Which tokens may come next: packed masks, from a token automaton or straight from bytes."""

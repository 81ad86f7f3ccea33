"""What the decoding benchmark measures on: a constraint, and a stand-in for a language model.

The stand-in costs nothing: it looks up a row for the automaton's state. Nine tenths of its
probability are on tokens that the constraint allows, as with a model that has been told what to
write, so that no method has to search for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from product_workload import read_vocabulary

from pcgcd import FiniteAutomaton, Vocabulary, constraints

PARTICLES = 16
ESS_THRESHOLD = 0.5
BUDGET = 64
FOLLOWS = 0.9
SPREAD = 2.0
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9 ,.'-]*$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 199},
        "member": {"type": "boolean"},
    },
    "required": ["name", "age", "member"],
    "additionalProperties": False,
}
# The same language, for those who have no schemas.
PATTERN = (
    r'\{"name":"[A-Za-z0-9 ,.\'\-]*","age":(-?0|[1-9][0-9]?|1[0-9][0-9])(\.0)?,'
    r'"member":(true|false)\}'
)


def load(vocabulary_path: str) -> tuple[Vocabulary, FiniteAutomaton]:
    """The vocabulary, and the constraint over its tokens."""
    tokens, eos = read_vocabulary(vocabulary_path)
    vocabulary = Vocabulary.from_bytes(tokens, eos_ids=eos)
    constraint = constraints.json_schema(SCHEMA, whitespace="compact")
    if not constraint.automaton.is_equivalent(constraints.regex(PATTERN).automaton):
        raise RuntimeError("the schema and the pattern differ")
    return vocabulary, constraint.compile(vocabulary)


class StandIn:
    """Next-token log-probabilities by the state of the automaton, (S + 1, V); the last: none."""

    def __init__(self, fa: FiniteAutomaton) -> None:
        """Make the rows."""
        generator = torch.Generator().manual_seed(0)
        noise = SPREAD * torch.randn(fa.num_states + 1, fa.vocab_size, generator=generator)
        probabilities = torch.softmax(noise, -1)
        for state in range(fa.num_states):
            allowed = torch.from_numpy(np.array(fa.mask((state,))))
            inside = torch.softmax(torch.where(allowed, noise[state], -torch.inf), -1)
            if allowed.any():
                probabilities[state] = FOLLOWS * inside + (1 - FOLLOWS) * probabilities[state]
        self.fa, self.rows = fa, probabilities.log()
        self._places: dict[tuple[int, ...], tuple[int, ...]] = {(): fa.start_states}

    def place(self, tokens: tuple[int, ...]) -> int:
        """The row of a prefix."""
        live = self._live(tokens)
        return live[0] if live else self.fa.num_states

    def _live(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        found = self._places.get(tokens)
        if found is None:
            before = self._live(tokens[:-1])
            found = self.fa.advance(before, tokens[-1]) if before else ()
            self._places[tokens] = found
        return found

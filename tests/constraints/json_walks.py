"""Random texts of a constraint, for tests of soundness."""

from __future__ import annotations

import random

import numpy as np

from pcgcd.constraints.base import Constraint


def random_text(constraint: Constraint, seed: int, length: int = 40) -> bytes:
    """A random walk through the automaton that heads for an end once it is long."""
    fa, rng = constraint.automaton, random.Random(seed)
    distance = np.asarray(fa.distance_to_accept)
    far = fa.num_states + 1
    starts = np.flatnonzero(fa.initial_mask & (distance < far))
    state = int(rng.choice(starts.tolist()))
    text = bytearray()
    while True:
        edges = np.flatnonzero((fa.source == state) & (distance[fa.target] < far))
        late = len(text) >= length
        if fa.accepting_mask[state] and (late or not len(edges) or rng.random() < 0.3):
            return bytes(text)
        if late:
            nearest = distance[fa.target[edges]].min()
            edges = edges[distance[fa.target[edges]] == nearest]
        edge = int(rng.choice(edges.tolist()))
        allowed = fa.labels.label_class[fa.label[edge]][fa.labels.token_class]
        choices = np.flatnonzero(allowed).tolist()
        plain = [byte for byte in choices if 0x20 <= byte < 0x7F]
        text.append(rng.choice(plain if plain and rng.random() < 0.9 else choices))
        state = int(fa.target[edge])

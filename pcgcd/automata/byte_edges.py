"""Automata over bytes from edges whose sets are 256 bits, for constructions with many edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pcgcd.automata.arrays import frozen, indicator
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.labels import Labels


def byte_automaton(
    num_states: int,
    edges: Iterable[tuple[int, int, int]],
    accepting: Iterable[int],
    *,
    initial: int = 0,
) -> FiniteAutomaton:
    """An automaton from (source, target, mask) triples: bit b of a mask stands for byte b.

    Edges between the same two states are joined. Each distinct set is looked at once, so this is
    much faster than :meth:`FiniteAutomaton.from_edges`; nothing is checked.

    Args:
        num_states: States are numbered 0..num_states-1.
        edges: The edges; their masks are not empty.
        accepting: The accepting states.
        initial: The initial state.

    >>> digit = sum(1 << byte for byte in b"0123456789")
    >>> byte_automaton(2, [(0, 1, digit), (1, 1, digit)], [1]).accepts(b"2026")
    True
    """
    joined: dict[tuple[int, int], int] = {}
    for source, target, mask in edges:
        key = (source, target)
        joined[key] = joined.get(key, 0) | mask
    number = {mask: i for i, mask in enumerate(dict.fromkeys(joined.values()))}
    _, labels = Labels.from_token_sets([_members(mask) for mask in number], 256)
    pairs = np.array(list(joined), dtype=np.int64).reshape(-1, 2)
    return FiniteAutomaton(
        num_states=num_states,
        source=frozen(pairs[:, 0]),
        target=frozen(pairs[:, 1]),
        label=frozen([number[mask] for mask in joined.values()], np.int64),
        labels=labels,
        initial_mask=indicator(initial, num_states),
        accepting_mask=indicator(list(accepting), num_states),
    )


def _members(mask: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    bits = np.frombuffer(mask.to_bytes(32, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))

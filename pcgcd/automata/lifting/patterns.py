"""What the states of an automaton do on bytes, but for where they go: patterns.

Walks of different automata are compared by the names of patterns, which say what bytes go together
and nothing about classes or labels.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from pcgcd.automata.kernels.edges import intern
from pcgcd.automata.kernels.tables import index_moves
from pcgcd.automata.kernels.walks import Moves

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_WORDS = 4  # of a name
_POSITIVE = 0x7FFFFFFF


def make_moves(
    source: Array,
    target: Array,
    label: Array,
    label_class: Array,
    byte_class: Array,
    num_states: int,
    *,
    is_shared: bool,
) -> Moves:
    """Return the table of an automaton over bytes, from its edges.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        label_class: Which classes are in each label, (L, C).
        byte_class: The class of each byte, (256,).
        num_states: The number of states.
        is_shared: Whether other automata may have the same names of patterns.
    """
    _, first_byte = intern(byte_class[:, None].astype(np.int64))
    pattern, num_slots, kind, start, targets, several, first = index_moves(
        source, target, label, label_class, byte_class[first_byte].astype(np.int64), num_states
    )
    by_byte = pattern[:, byte_class]
    size = np.stack([num_slots, (by_byte >= 0).sum(axis=1)], axis=1).astype(np.int32)
    if is_shared:
        name = names(by_byte)
    else:
        name = np.zeros((len(pattern), _WORDS), dtype=np.int32)
        name[:, 0] = np.arange(1, len(pattern) + 1)
    owner = np.repeat(np.arange(num_states, dtype=np.int32), size[kind, 0])
    own = np.flatnonzero(targets == owner)  # the slots by which a state stays
    states = owner[own]
    pairs, which = np.unique(
        kind[states].astype(np.int64) << 9 | (own - start[states]), return_inverse=True
    )
    loops = np.zeros((num_states, 4), dtype=np.uint64)
    loops[states] = _as_bits(by_byte[pairs >> 9] == (pairs & 511)[:, None])[which]
    return Moves(
        pattern, size, name, kind, start, targets, several, first, loops, byte_class.copy()
    )


def names(by_byte: Array) -> Array:
    """The names of patterns, given the slot of each byte, (P, 256); none is zero."""
    rows = np.ascontiguousarray(by_byte, dtype=np.int16)
    found = b"".join([blake2b(row, digest_size=4 * _WORDS).digest() for row in rows])
    result = np.frombuffer(found, dtype=np.int32).reshape(-1, _WORDS) & _POSITIVE
    result[:, 0] |= 1
    return result


def slots_of(rows: Array) -> tuple[Array, Array, Array]:
    """The patterns of states, given their targets for each class of bytes, (n, C).

    The classes must come by their first byte.

    Returns:
        The slot of each class, or -1, (n, C); the first cell of each slot, in order; and how many
        slots each state has, (n,).
    """
    leads = rows >= 0
    first = (rows[:, :, None] == rows[:, None, :]).argmax(axis=2)  # the first equal cell
    begins = leads & (first == np.arange(rows.shape[1]))
    number = np.cumsum(begins, axis=1, dtype=np.int16) - np.int16(1)
    pattern = np.where(leads, np.take_along_axis(number, first, axis=1), np.int16(-1))
    return pattern, np.flatnonzero(begins), begins.sum(axis=1)


def _as_bits(members: Array) -> Array:
    """Sets of bytes as four words, given which bytes they have, (n, 256)."""
    packed = np.packbits(members, axis=1, bitorder="little")
    return packed.view(np.uint64).reshape(len(members), 4)

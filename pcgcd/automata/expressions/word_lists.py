"""Long lists of texts: a trie over sorted arrays, then its minimal automaton."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pcgcd.automata.expressions import NOTHING, Embedded, Expression, literal, union
from pcgcd.automata.graphs import Graph, pack

_FEW = 32


def word_list(words: Iterable[bytes]) -> Expression:
    """Any one of some byte strings. The time grows with their bytes, not with their number squared.

    >>> word_list([b"ab", b"a", b"ab"]) == union(literal("ab"), literal("a"))
    True
    """
    distinct = sorted(set(words))
    if len(distinct) <= _FEW:
        return union(*map(literal, distinct)) if distinct else NOTHING
    return Embedded(_trie(distinct).refined().automaton())


def _trie(words: list[bytes]) -> Graph:
    """A node for each distinct prefix, numbered by the first word (in order) that has it."""
    lengths = np.array([len(word) for word in words])
    width = int(lengths.max())
    flat = np.frombuffer(b"".join(word.ljust(width, b"\0") for word in words), dtype=np.uint8)
    table = flat.reshape(len(words), width)
    inside = np.arange(width) < lengths[:, None]
    # Column d of a row begins a new node unless the row before has the same first d + 1 bytes.
    same = (table[1:] == table[:-1]) & inside[1:] & inside[:-1]
    shared = np.zeros((len(words), width), dtype=np.bool_)
    shared[1:] = np.logical_and.accumulate(same, axis=1)
    new = inside & ~shared
    number = np.where(new, np.cumsum(new.reshape(-1)).reshape(new.shape), 0)
    # Numbers grow, so the node of a shared prefix is the largest one so far in its column.
    node = np.maximum.accumulate(number, axis=0)
    before = np.concatenate([np.zeros((len(words), 1), dtype=np.int64), node[:, :-1]], axis=1)
    num_states = int(new.sum()) + 1
    accepting = np.zeros(num_states, dtype=np.bool_)
    last = np.maximum(lengths - 1, 0)
    accepting[np.where(lengths > 0, node[np.arange(len(words)), last], 0)] = True
    every = np.eye(256, dtype=np.bool_)
    return Graph(
        num_states,
        before[new],
        number[new],
        table[new].astype(np.int64),
        pack(every),
        256,
        np.arange(256),
        np.arange(num_states) == 0,
        accepting,
    )

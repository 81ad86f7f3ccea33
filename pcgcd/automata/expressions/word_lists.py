"""Lists of texts, and what is left without them: a trie over sorted arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
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


def all_but(automaton: FiniteAutomaton, words: Iterable[bytes]) -> Expression:
    """The texts of a deterministic automaton over bytes without some of them.

    A node of the words' trie does what the state does that the automaton is in, but for the bytes
    that lead to other nodes. So the time grows with the bytes of the words, and no complement has
    to be made.

    >>> from pcgcd.automata.expressions.compilation import compile_expression
    >>> letters = compile_expression(
    ...     literal("a") | literal("b") | literal("ab"), deterministic=True
    ... )
    >>> left = compile_expression(all_but(letters, [b"a", b"abc"]))
    >>> [text for text in (b"a", b"b", b"ab", b"abc") if left.accepts(text)]
    [b'b', b'ab']
    """
    distinct = sorted(set(words))
    if not distinct:
        return Embedded(automaton)
    trie, masks = _trie(distinct), automaton.labels.masks
    out: dict[int, list[tuple[int, int]]] = {}
    arrays = (automaton.source, automaton.target, automaton.label)
    for source, target, label in zip(*(array.tolist() for array in arrays)):
        out.setdefault(source, []).append((target, masks[label]))
    nodes = trie.num_states
    state = [int(np.flatnonzero(automaton.initial_mask)[0])] + [-1] * (nodes - 1)
    taken = [0] * nodes
    found: list[tuple[int, int, int]] = []  # with the labels as bits
    # Parents come before their children.
    for node, child, byte in zip(trie.source.tolist(), trie.target.tolist(), trie.label.tolist()):
        ways = (target for target, mask in out.get(state[node], ()) if mask >> byte & 1)
        state[child] = next(ways, -1)
        taken[node] |= 1 << byte
        found.append((node, child, 1 << byte))
    for node, here in enumerate(state):
        left = ((target, mask & ~taken[node]) for target, mask in out.get(here, ()))
        found += [(node, nodes + target, mask) for target, mask in left if mask]
    for here, ways_on in out.items():
        found += [(nodes + here, nodes + target, mask) for target, mask in ways_on]
    number = {mask: i for i, mask in enumerate(dict.fromkeys(mask for *_, mask in found))}
    edges = np.array([(a, b, number[mask]) for a, b, mask in found], dtype=np.int64)
    source, target, label = edges.T.copy()
    sets = b"".join(mask.to_bytes(32, "little") for mask in number)
    accepting = np.append(automaton.accepting_mask, False)[state] & ~trie.accepting
    graph = Graph(
        nodes + automaton.num_states,
        source,
        target,
        label,
        np.frombuffer(sets, dtype=np.int64).reshape(-1, 4),
        256,
        np.arange(256),
        np.arange(nodes + automaton.num_states) == 0,
        np.concatenate([accepting, automaton.accepting_mask]),
    )
    return Embedded(graph.automaton())


def _trie(words: list[bytes]) -> Graph:
    """A node for each distinct prefix, numbered by the first word (in order) that has it."""
    lengths = np.array([len(word) for word in words])
    width = max(1, int(lengths.max()))
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

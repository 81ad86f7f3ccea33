"""Lists of texts, and what is left without them: a trie over sorted arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import NOTHING, Embedded, Expression, literal, union
from pcgcd.automata.graphs import Graph, pack, unpack
from pcgcd.basics.keeping import kept_with

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
    trie, whole = _trie(distinct), Graph.of(automaton)
    steps = kept_with(automaton, "_steps", lambda: _steps(automaton))
    nodes = trie.num_states
    state = [int(np.flatnonzero(automaton.initial_mask)[0])] + [-1] * (nodes - 1)
    # Parents come before their children.
    for node, child, byte in zip(trie.source.tolist(), trie.target.tolist(), trie.label.tolist()):
        state[child] = steps[state[node]][byte]
    taken = np.zeros((nodes, 256), dtype=np.bool_)
    taken[trie.source, trie.label] = True
    by_byte = pack(unpack(whole.sets, whole.num_classes)[:, whole.token_class])
    # The edges of the state that each node is in, without the bytes that lead to other nodes.
    offsets = np.searchsorted(whole.source, np.arange(automaton.num_states + 1))
    here = np.array(state)
    number = np.where(here < 0, 0, offsets[here + 1] - offsets[here])
    node = np.repeat(np.arange(nodes), number)
    edge = np.arange(len(node)) + np.repeat(offsets[here] - np.cumsum(number) + number, number)
    sets = by_byte[whole.label[edge]] & ~pack(taken)[node]
    source = np.concatenate([trie.source, node, whole.source + nodes])
    accepting = np.append(automaton.accepting_mask, False)[state] & ~trie.accepting
    graph = Graph(
        nodes + automaton.num_states,
        source,
        np.concatenate([trie.target, whole.target[edge] + nodes, whole.target + nodes]),
        np.arange(len(source)),
        np.concatenate([trie.sets[trie.label], sets, by_byte[whole.label]]),
        256,
        np.arange(256),
        np.arange(nodes + automaton.num_states) == 0,
        np.concatenate([accepting, automaton.accepting_mask]),
    )
    return Embedded(graph.automaton())


def _steps(automaton: FiniteAutomaton) -> list[list[int]]:
    """The state after each byte from each state, -1 for none; the last row is that of none."""
    result = np.full((automaton.num_states + 1, 256), -1)
    members = automaton.labels.label_class[:, automaton.labels.token_class]
    edge, byte = np.nonzero(members[automaton.label])
    result[automaton.source[edge], byte] = automaton.target[edge]
    return result.tolist()


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

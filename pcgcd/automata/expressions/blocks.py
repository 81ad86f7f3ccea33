"""Blocks: automata that are letters of others, and what these are with the blocks written out.

A block enters an automaton as one edge. Its texts are not empty and none begins another, so that
the automaton which has the block in place of that edge is deterministic if both are and if no other
way on from the edge's source begins with a byte that the block begins with. Constructions on the
small automaton therefore hold for the large one, whatever the size of the blocks; :func:`expand`
makes the large one at the end, by copying arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.arrays import joined
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import Block
from pcgcd.automata.graphs import Graph, pack, unpack
from pcgcd.automata.kernels.edges import intern
from pcgcd.automata.kernels.jit import Bits, Indices, Mask
from pcgcd.automata.kernels.meeting import clashing
from pcgcd.automata.kernels.outlines import first_bytes, num_copied
from pcgcd.basics.keeping import kept_with

_KEPT = 16
_MOST_KNOWN = 20_000  # states of blocks that are kept while others are written out

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"


class Entrances(NamedTuple):
    """Edges of blocks: their numbers, (N,), and which blocks they are chosen for, (N, blocks)."""

    edges: Indices
    blocks: Mask


def make_block(graph: Graph, inside: tuple[Block, ...]) -> Block | None:
    """A trim automaton over bytes and blocks as a block, or None if it cannot be one."""
    is_block, first = first_bytes(
        graph.source,
        graph.label,
        graph.sets,
        graph.token_class,
        _beginnings(inside),
        graph.initial,
        graph.accepting,
    )
    if not is_block:
        return None
    bits = int.from_bytes(first.tobytes(), "little")
    return Block(graph, inside, bits, expanded_size(graph, inside))


def expanded_size(graph: Graph, inside: tuple[Block, ...]) -> int:
    """The number of states that there are when all blocks are written out."""
    if not inside:
        return graph.num_states
    inner = np.array([_num_inner(each) for each in inside])
    letters = graph.token_class[256:]
    copied = num_copied(graph.target, graph.label, graph.sets, letters, inner, graph.num_states)
    return graph.num_states + int(copied)


def clashes(
    subsets: Graph, first: Indices, members: Indices, graph: Graph, inside: tuple[Block, ...]
) -> Entrances:
    """The edges of blocks that meet another way on which begins with the same bytes.

    Args:
        subsets: The subset construction of the automaton.
        first: Where the members of each of its states begin.
        members: The states of the automaton that are members.
        graph: The automaton.
        inside: The blocks that are letters of both.

    Returns:
        Which edges of the automaton are to be opened.
    """
    return Entrances(
        *clashing(
            (subsets.source, subsets.label, subsets.sets),
            (first, members),
            (graph.source, graph.label, graph.sets),
            graph.num_states,
            graph.token_class,
            _beginnings(inside),
        )
    )


def opened(
    graph: Graph, inside: tuple[Block, ...], chosen: Entrances
) -> tuple[Graph, tuple[Block, ...]]:
    """The same automaton with some edges of blocks as what the blocks are made of."""
    letters = list(inside)
    number = {id(block): k for k, block in enumerate(letters)}
    for k in np.flatnonzero(chosen.blocks.any(axis=0)).tolist():
        for block in inside[k].inside:
            if id(block) not in number:
                number[id(block)] = len(letters)
                letters.append(block)

    def shallow(block: Block) -> _Inner:
        members = _members(block.graph)
        wide = np.zeros((len(members), 256 + len(letters)), dtype=np.bool_)
        wide[:, :256] = members[:, :256]
        for k, inner in enumerate(block.inside):
            wide[:, 256 + number[id(inner)]] = members[:, 256 + k]
        return _Inner.of(block.graph, wide)

    return _substituted(graph, inside, chosen, len(letters), shallow), tuple(letters)


def expand(graph: Graph, inside: tuple[Block, ...]) -> Graph:
    """The automaton over bytes: each edge of a block as a copy of the block's automaton.

    Edges of one block to one target share the inner states of the copy.
    """
    return _expanded(graph, inside, {})


def _expanded(graph: Graph, inside: tuple[Block, ...], known: dict[int, _Inner]) -> Graph:
    """Expand, given what is known of blocks, by id; large ones are used once, and not kept."""
    if not inside:
        return graph
    letters = _letters(graph)
    edges = _edges_with(graph, np.any(letters, axis=1))
    chosen = Entrances(edges, letters[graph.label[edges]])

    def inner(block: Block) -> _Inner:
        found = known.get(id(block))
        if found is None:
            whole = _expanded(block.graph, block.inside, known)
            found = _Inner.of(whole, _members(whole))
            if found.num_states <= _MOST_KNOWN:
                known[id(block)] = found
        return found

    return _substituted(graph, inside, chosen, 0, inner)


def inner_numbers(graph: Graph) -> Indices:
    """Number each state of a block in its copies; -1 for the start and the end."""
    is_inner = ~graph.accepting & ~_only_starts(graph)
    return np.where(is_inner, np.cumsum(is_inner) - 1, -1)


@lru_cache(maxsize=_KEPT)
def written_out(block: Block) -> FiniteAutomaton:
    """The automaton of a block over bytes."""
    return expand(block.graph, block.inside).automaton()


# -- inside -----------------------------------------------------------------------------------


class _Edges(NamedTuple):
    """Edges in 32 bits, since there may be many."""

    source: Numbers
    target: Numbers  # -1: the end of the block
    label: Numbers

    def ending(self, ends: Indices, base: Indices) -> Indices:
        """The targets in copies that end, and whose states begin, at given numbers."""
        inside = self.target + base[:, None]
        return np.where(self.target < 0, ends[:, None], inside).ravel()


class _Inner(NamedTuple):
    """The automaton of a block as it is copied: inner states, and the edges that enter them."""

    num_states: int
    edges: _Edges
    entering: _Edges
    members: Mask  # of the labels, over bytes and letters

    @classmethod
    def of(cls, graph: Graph, members: Mask) -> _Inner:
        number = inner_numbers(graph).astype(np.int32)
        is_inner = number >= 0

        def edges(chosen: Mask) -> _Edges:
            return _Edges(
                number[graph.source[chosen]],
                number[graph.target[chosen]],
                graph.label[chosen].astype(np.int32),
            )

        inner, entering = is_inner[graph.source], graph.initial[graph.source]
        return cls(int(is_inner.sum()), edges(inner), edges(entering), members)


def _substituted(
    graph: Graph,
    inside: Sequence[Block],
    chosen: Entrances,
    num_letters: int,
    inner_of: Callable[[Block], _Inner],
) -> Graph:
    """Replace edges of blocks by copies; labels are over the bytes and some letters then."""
    edges, blocks = chosen
    old = _members(graph)
    kept = min(old.shape[1], 256 + num_letters)
    # What is left of a label depends on what is chosen of it: few pairs, however many edges.
    pair, first = intern(np.column_stack([graph.label[edges], pack(blocks)]))
    left = np.zeros((len(old) + len(first), 256 + num_letters), dtype=np.bool_)
    left[: len(old), :kept] = old[:, :kept]
    left[len(old) :, :kept] = old[graph.label[edges[first]], :kept]
    left[len(old) :, 256:kept] &= ~blocks[first, : kept - 256]
    number = graph.label.copy()
    number[edges] = len(old) + pair
    alive = np.any(left, axis=1)[number]
    count = graph.num_states
    source, target = [graph.source[alive]], [graph.target[alive]]
    label, members = [number[alive]], [left]
    num_sets = len(left)
    for k in np.flatnonzero(blocks.any(axis=0)).tolist():
        inner, entering = inner_of(inside[k]), edges[blocks[:, k]]
        ends, which = np.unique(graph.target[entering], return_inverse=True)
        base = count + inner.num_states * np.arange(len(ends))
        entries = np.repeat(graph.source[entering], len(inner.entering.label))
        source += [(inner.edges.source + base[:, None]).ravel(), entries]
        target += [inner.edges.ending(ends, base), inner.entering.ending(ends[which], base[which])]
        for inner_edges, copies in ((inner.edges, len(ends)), (inner.entering, len(which))):
            label.append(np.tile(inner_edges.label + np.int32(num_sets), copies))
        members.append(inner.members)
        num_sets += len(inner.members)
        count += inner.num_states * len(ends)
    number, first = intern(pack(np.concatenate(members)))
    more = np.zeros(count - graph.num_states, dtype=np.bool_)
    return Graph(
        count,
        joined(source),
        joined(target),
        number[joined(label)],
        pack(np.concatenate(members)[first]),
        256 + num_letters,
        np.arange(256 + num_letters),
        np.concatenate([graph.initial, more]),
        np.concatenate([graph.accepting, more]),
    )


def _members(graph: Graph) -> Mask:
    """The bytes and blocks of each label, (L, 256 + blocks)."""
    return unpack(graph.sets, graph.num_classes)[:, graph.token_class]


def _letters(graph: Graph) -> Mask:
    """The blocks of each label, (L, blocks)."""
    return unpack(graph.sets, graph.num_classes)[:, graph.token_class[256:]]


def _only_starts(graph: Graph) -> Mask:
    """The initial states that no edge enters: a copy does not need them."""
    entered = np.zeros(graph.num_states, dtype=np.bool_)
    entered[graph.target] = True
    return graph.initial & ~entered


def _num_inner(block: Block) -> int:
    return kept_with(
        block, "_num_inner", lambda: block.num_states - 1 - int(_only_starts(block.graph).sum())
    )


def _beginnings(blocks: Sequence[Block]) -> Bits:
    """The bytes that the texts of blocks begin with, as bits, (blocks, 4)."""
    bits = b"".join([block.first.to_bytes(32, "little") for block in blocks])
    return np.frombuffer(bits, dtype=np.int64).reshape(-1, 4)


def _edges_with(graph: Graph, labels: Mask) -> Indices:
    """The edges that have one of some labels."""
    return np.flatnonzero(labels[graph.label])

"""Byte automata whose blocks are written out where they are entered.

An expression compiles to a small automaton with blocks as letters (see
:mod:`pcgcd.automata.expressions.blocks`). What a walk needs of the large automaton, in which each
edge of a block is a copy of the block's own automaton, is only the copies that it enters. States
are numbered copy by copy; the transitions of a copy are written when a walk first meets one of its
states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.arrays import frozen
from pcgcd.automata.expressions.blocks import expanded_size, inner_numbers
from pcgcd.automata.graphs import unpack
from pcgcd.automata.kernels.edges import group
from pcgcd.automata.kernels.searches import cheapest
from pcgcd.automata.kernels.tables import index_moves, self_loops
from pcgcd.automata.kernels.walks import EMPTY, Moves
from pcgcd.automata.lifting.from_bytes import ByteTable
from pcgcd.automata.limits import NEVER
from pcgcd.basics.keeping import kept_with

if TYPE_CHECKING:
    from pcgcd.automata.expressions import Block
    from pcgcd.automata.graphs import Graph
    from pcgcd.automata.vocabulary import Vocabulary

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_END = -2  # in a part: the end of the block
_UNWRITTEN = -2  # in a table: the first cell with several targets, of which there are none


class _Way(NamedTuple):
    """An edge of a block: from a state (None: from the start), through the block, to a state."""

    source: int | None
    block: Block
    target: int


class _Part(NamedTuple):
    """An automaton with blocks as letters, as it is copied.

    Attributes:
        delta: The target of each of its inner states and each byte, EMPTY or _END, (S, 256).
        loops: The bytes on which each state only stays, (S, 4).
        entry: The targets of its start, (256,).
        ways: The blocks that are letters of it.
        distance: The least number of bytes from each inner state to the end, (S,).
        length: The least number of bytes of a text.
        used: The bytes that occur in texts, (256,).
    """

    delta: Array
    loops: Array
    entry: Array
    ways: tuple[_Way, ...]
    distance: Array
    length: int
    used: Array


def _part_of(block: Block) -> _Part | None:
    """Return the part of a block, made once; None if it is not deterministic."""
    return kept_with(block, "_part", lambda: _part(block.graph, block.inside, is_block=True))


def _part(graph: Graph, inside: tuple[Block, ...], *, is_block: bool) -> _Part | None:
    inner = [_part_of(block) for block in inside]
    if any(part is None for part in inner) or graph.initial.sum() != 1:
        return None
    parts = [part for part in inner if part is not None]
    label_class = frozen(unpack(graph.sets, graph.num_classes))
    by_class, several, _ = index_moves(
        graph.source, graph.target, graph.label, label_class, graph.num_states
    )
    if len(several):
        return None
    number = inner_numbers(graph) if is_block else np.arange(graph.num_states)
    number = np.where(number < 0, _END, number)
    moves = np.where(by_class >= 0, number[by_class], EMPTY).astype(np.int32)
    moves = moves[:, graph.token_class]  # (states, 256 + blocks)
    [start] = np.flatnonzero(graph.initial).tolist()
    is_inner = number >= 0
    ways = []
    for k, block in enumerate(inside):
        column = moves[:, 256 + k]
        for state in np.flatnonzero(column != EMPTY).tolist():
            if is_inner[state]:
                ways.append(_Way(int(number[state]), block, int(column[state])))
            if state == start and is_block:
                ways.append(_Way(None, block, int(column[state])))
    lengths = np.full(graph.num_classes, NEVER, dtype=np.int64)
    np.minimum.at(lengths, graph.token_class, [1] * 256 + [part.length for part in parts])
    cost = np.where(label_class, lengths, NEVER).min(axis=1, initial=NEVER)
    order, offsets = group(np.array(graph.target), graph.num_states)
    distance = cheapest(
        offsets, graph.source[order], cost[graph.label[order]], np.array(graph.accepting)
    )
    used = label_class.any(axis=0)[graph.token_class[:256]]
    for part in parts:
        used |= part.used
    delta = np.ascontiguousarray(moves[is_inner, :256])
    return _Part(
        delta,
        self_loops(delta, frozen(np.arange(256))),
        moves[start, :256],
        tuple(ways),
        distance[is_inner],
        int(distance[start]),
        used,
    )


class _Copy(NamedTuple):
    """A part in a table: where its states begin, and the state at its end."""

    part: _Part
    base: int
    end: int


@dataclass(frozen=True, eq=False, kw_only=True)
class UnfoldingTable(ByteTable):
    """A table of all states that there may be, in which copies of blocks are written when needed.

    Attributes:
        copies: The copies so far.
        owner: The copy that each state belongs to, (S,).
        is_written: Whether the transitions of each copy are written.
        known: The copy of each block with each end.
    """

    copies: list[_Copy]
    owner: Array
    is_written: list[bool]
    known: dict[tuple[int, int], int]

    @classmethod
    def unfold(
        cls, graph: Graph, inside: tuple[Block, ...], vocabulary: Vocabulary
    ) -> UnfoldingTable | None:
        """Make the table of an automaton with blocks as letters.

        None if it is not deterministic, or if it has bytes that are no tokens by themselves: then
        what can be spelled is not known before all of it is written.
        """
        part = _part(graph, inside, is_block=False)
        if part is None or (part.used & ~vocabulary.single_bytes).any():
            return None
        size = expanded_size(graph, inside)
        table = cls(
            Moves(
                np.empty((size, 256), dtype=np.int32),
                np.zeros(0, dtype=np.int32),
                np.zeros(2, dtype=np.int64),
                np.zeros((size, 4), dtype=np.uint64),
                np.arange(256),
            ),
            np.full(size, NEVER, dtype=np.int64),
            True,
            copies=[],
            owner=np.zeros(size, dtype=np.int32),
            is_written=[],
            known={},
        )
        table._place(part, 0, -1)
        return table

    @property
    def num_states(self) -> int:
        return self.copies[-1].base + len(self.copies[-1].part.delta)

    def complete(self, state: int) -> bool:
        """Write the transitions of the copy that a state belongs to; False if they are written."""
        number = int(self.owner[state])
        if self.is_written[number]:
            return False
        self._write(number)
        return True

    def complete_all(self) -> None:
        """Write everything."""
        number = 0
        while number < len(self.copies):  # more are added while these are written
            if not self.is_written[number]:
                self._write(number)
            number += 1

    def _write(self, number: int) -> None:
        self.is_written[number] = True
        part, base, end = self.copies[number]
        stop = base + len(part.delta)
        rows = np.where(part.delta >= 0, part.delta + base, part.delta)
        rows[part.delta == _END] = end
        self.moves.delta[base:stop] = rows
        self.moves.loops[base:stop] = part.loops
        for way in part.ways:
            if way.source is not None:
                self._enter(base + way.source, way.block, _target(way, base, end))

    def _enter(self, source: int, block: Block, end: int) -> None:
        """Write the ways from a state into a block."""
        part = _part_of(block)
        assert part is not None
        key = (id(block), end)
        if key not in self.known:
            self.known[key] = len(self.copies)
            self._place(part, self.num_states, end)
        base = self.copies[self.known[key]].base
        row, entry = self.moves.delta[source], part.entry
        row[entry >= 0] = entry[entry >= 0] + base
        row[entry == _END] = end
        for way in part.ways:
            if way.source is None:
                self._enter(source, way.block, _target(way, base, end))

    def _place(self, part: _Part, base: int, end: int) -> None:
        """Number the states of a copy."""
        stop = base + len(part.delta)
        self.moves.delta[base:stop] = _UNWRITTEN
        self.distance[base:stop] = part.distance + (self.distance[end] if end >= 0 else 0)
        self.owner[base:stop] = len(self.copies)
        self.copies.append(_Copy(part, base, end))
        self.is_written.append(False)


def _target(way: _Way, base: int, end: int) -> int:
    return end if way.target == _END else base + way.target

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

_MOST_STATES = 100_000  # a kilobyte each, once they are written
_END = -2  # in a part: the end of the block
_UNWRITTEN = -2  # in a table: the first cell with several targets, of which there are none


class _Part(NamedTuple):
    """An automaton with blocks as letters, as it is copied.

    Attributes:
        delta: The target of each inner state and class of bytes, EMPTY or _END, (S, C).
        byte_class: The class of each byte, (256,).
        loops: The bytes on which each state only stays, (S, 4).
        entry: The targets of its start, (256,).
        ways: The edges of blocks: from a state (None: from the start), through a part, to a state.
        distance: The least number of bytes from each inner state to the end, (S,).
        length: The least number of bytes of a text.
        used: The bytes that occur in texts, (256,).
    """

    delta: Array
    byte_class: Array
    loops: Array
    entry: Array
    ways: tuple[tuple[int | None, _Part, int], ...]
    distance: Array
    length: int
    used: Array


def _part_of(block: Block) -> _Part | None:
    """Return the part of a block, made once; None if it is not deterministic."""
    return kept_with(block, "_part", lambda: _part(block.graph, block.inside, is_block=True))


def _part(graph: Graph, inside: tuple[Block, ...], *, is_block: bool) -> _Part | None:
    parts = [part for part in map(_part_of, inside) if part is not None]
    if len(parts) < len(inside) or graph.initial.sum() != 1:
        return None
    label_class = frozen(unpack(graph.sets, graph.num_classes))
    by_class, several, _ = index_moves(
        graph.source, graph.target, graph.label, label_class, graph.num_states
    )
    if len(several):
        return None
    number = inner_numbers(graph) if is_block else np.arange(graph.num_states)
    number = np.where(number < 0, _END, number)
    moves = np.where(by_class >= 0, number[by_class], EMPTY).astype(np.int32)
    byte_class = frozen(graph.token_class[:256].copy())
    [start] = np.flatnonzero(graph.initial).tolist()
    is_inner = number >= 0
    ways: list[tuple[int | None, _Part, int]] = []
    for k, part in enumerate(parts):
        column = moves[:, graph.token_class[256 + k]]
        for state in np.flatnonzero(column != EMPTY).tolist():
            if is_inner[state]:
                ways.append((int(number[state]), part, int(column[state])))
            if state == start and is_block:
                ways.append((None, part, int(column[state])))
    lengths = np.full(graph.num_classes, NEVER, dtype=np.int64)
    np.minimum.at(lengths, graph.token_class, [1] * 256 + [part.length for part in parts])
    cost = np.where(label_class, lengths, NEVER).min(axis=1, initial=NEVER)
    order, offsets = group(np.array(graph.target), graph.num_states)
    distance = cheapest(
        offsets, graph.source[order], cost[graph.label[order]], np.array(graph.accepting)
    )
    used = label_class.any(axis=0)[byte_class]
    for part in parts:
        used |= part.used
    delta = moves[is_inner]
    return _Part(
        delta,
        byte_class,
        self_loops(delta, byte_class),
        moves[start, byte_class],
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
        known: The copy of each part with each end.
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

        None if it is not deterministic, if all of it would take much room, or if it has bytes that
        are no tokens by themselves: then what can be spelled is not known before it is written.
        """
        size = expanded_size(graph, inside)
        part = _part(graph, inside, is_block=False) if size <= _MOST_STATES else None
        if part is None or (part.used & ~vocabulary.single_bytes).any():
            return None
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
        part, base, end = self.copies[number]
        rows = np.where(part.delta >= 0, part.delta + base, part.delta)
        rows[part.delta == _END] = end
        rows = rows[:, part.byte_class]
        for source, inner, target in part.ways:
            if source is not None:
                self._enter(rows[source], inner, end if target == _END else base + target)
        # Whoever reads without a lock sees all or nothing of a row.
        self.moves.loops[base : base + len(rows)] = part.loops
        self.moves.delta[base : base + len(rows)] = rows
        self.is_written[number] = True

    def _enter(self, row: Array, part: _Part, end: int) -> None:
        """Write the ways into a part to the row of a state."""
        key = (id(part), end)
        if key not in self.known:
            self.known[key] = len(self.copies)
            self._place(part, self.num_states, end)
        base = self.copies[self.known[key]].base
        entry = part.entry
        row[entry >= 0] = entry[entry >= 0] + base
        row[entry == _END] = end
        for start, inner, target in part.ways:
            if start is None:
                self._enter(row, inner, end if target == _END else base + target)

    def _place(self, part: _Part, base: int, end: int) -> None:
        """Number the states of a copy."""
        stop = base + len(part.delta)
        self.moves.delta[base:stop] = _UNWRITTEN
        self.distance[base:stop] = part.distance + (self.distance[end] if end >= 0 else 0)
        self.owner[base:stop] = len(self.copies)
        self.copies.append(_Copy(part, base, end))
        self.is_written.append(False)

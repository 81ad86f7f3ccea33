"""Byte automata whose blocks are written out where they are entered.

An expression compiles to a small automaton with blocks as letters (see
:mod:`pcgcd.automata.expressions.blocks`). What a walk needs of the large automaton, in which each
edge of a block is a copy of the block's own automaton, is only the copies that it enters. States
are numbered copy by copy; the transitions of a copy are written when a walk first meets one of its
states, those of a large one only around this state.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import itemgetter
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
_AT_ONCE = 512  # states that are written together


class _Part(NamedTuple):
    """An automaton with blocks as letters, as it is copied.

    Attributes:
        delta: The target of each inner state and class of bytes, EMPTY or _END, (S, C).
        byte_class: The class of each byte, (256,).
        loops: The bytes on which each state only stays, (S, 4).
        entry: The targets of its start, (256,).
        ways: The edges of blocks: from a state (-1: from the start), through a part, to a state.
            They are sorted.
        distance: The least number of bytes from each inner state to the end, (S,).
        length: The least number of bytes of a text.
        used: The bytes that occur in texts, (256,).
    """

    delta: Array
    byte_class: Array
    loops: Array
    entry: Array
    ways: tuple[tuple[int, _Part, int], ...]
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
    number = np.where(number < 0, _END, number).astype(np.int32)
    moves = number[by_class]
    moves[by_class < 0] = EMPTY
    byte_class = frozen(graph.token_class[:256].copy())
    [start] = np.flatnonzero(graph.initial).tolist()
    is_inner = number >= 0
    ways: list[tuple[int, _Part, int]] = []
    for k, part in enumerate(parts):
        column = moves[:, graph.token_class[256 + k]]
        for state in np.flatnonzero(column != EMPTY).tolist():
            if is_inner[state]:
                ways.append((int(number[state]), part, int(column[state])))
            if state == start and is_block:
                ways.append((-1, part, int(column[state])))
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
        tuple(sorted(ways, key=itemgetter(0))),
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
        is_written: Whether the transitions of each state are written, (S,).
        is_marked: Whether those that are not are marked as such, for each so many states at once.
        known: The copy of each part with each end.
    """

    copies: list[_Copy]
    owner: Array
    is_written: Array
    is_marked: Array
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
            is_written=np.zeros(size, dtype=np.bool_),
            is_marked=np.zeros(size // _AT_ONCE + 1, dtype=np.bool_),
            known={},
        )
        table._place(part, 0, -1)
        table._mark(np.flatnonzero(graph.initial))
        return table

    @property
    def num_states(self) -> int:
        return self.copies[-1].base + len(self.copies[-1].part.delta)

    def complete(self, state: int) -> bool:
        """Write the transitions of a state, and those around it; False if they are written."""
        if self.is_written[state]:
            return False
        self._write(state)
        return True

    def complete_all(self) -> None:
        """Write everything."""
        number = 0
        while number < len(self.copies):  # more are added while these are written
            part, base, _ = self.copies[number]
            for state in range(base, base + len(part.delta), _AT_ONCE):
                self.complete(state)
            number += 1

    def _write(self, state: int) -> None:
        """Write the transitions of some states of one copy."""
        part, base, end = self.copies[int(self.owner[state])]
        first = (state - base) // _AT_ONCE * _AT_ONCE
        delta = part.delta[first : first + _AT_ONCE]
        rows = np.where(delta >= 0, delta + base, delta)
        rows[delta == _END] = end
        self._mark(rows)
        rows = rows[:, part.byte_class]
        begin = bisect_left(part.ways, first, key=itemgetter(0))
        for source, inner, target in part.ways[begin:]:
            if source >= first + len(rows):
                break
            self._enter(rows[source - first], inner, end if target == _END else base + target)
        chosen = slice(base + first, base + first + len(rows))
        # Whoever reads without a lock sees all or nothing of a row.
        self.moves.loops[chosen] = part.loops[first : first + len(rows)]
        self.moves.delta[chosen] = rows
        self.is_written[chosen] = True

    def _mark(self, states: Array) -> None:
        """Let the transitions of states, and of those around them, say that they are not written.

        Pages of memory that are never needed are never touched in this way.
        """
        is_met = np.bincount(states[states >= 0] // _AT_ONCE, minlength=len(self.is_marked)) > 0
        for number in np.flatnonzero(is_met & ~self.is_marked).tolist():
            chosen = slice(number * _AT_ONCE, (number + 1) * _AT_ONCE)
            self.moves.delta[chosen][~self.is_written[chosen]] = _UNWRITTEN
            self.is_marked[number] = True

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
        self._mark(row)
        for start, inner, target in part.ways:
            if start >= 0:
                break
            self._enter(row, inner, end if target == _END else base + target)

    def _place(self, part: _Part, base: int, end: int) -> None:
        """Number the states of a copy."""
        stop = base + len(part.delta)
        self.distance[base:stop] = part.distance + (self.distance[end] if end >= 0 else 0)
        self.owner[base:stop] = len(self.copies)
        self.copies.append(_Copy(part, base, end))

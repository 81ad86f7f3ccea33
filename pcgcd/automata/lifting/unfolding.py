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
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from pcgcd.automata.arrays import frozen
from pcgcd.automata.expressions.blocks import expanded_size, inner_numbers
from pcgcd.automata.graphs import unpack
from pcgcd.automata.kernels.edges import group, intern
from pcgcd.automata.kernels.meeting import begun_twice
from pcgcd.automata.kernels.searches import cheapest
from pcgcd.automata.kernels.tables import self_loops, write_moves
from pcgcd.automata.kernels.walks import EMPTY, Moves
from pcgcd.automata.lifting.from_bytes import ByteTable
from pcgcd.automata.lifting.patterns import names, slots_of
from pcgcd.automata.limits import NEVER
from pcgcd.basics.keeping import kept_with

if TYPE_CHECKING:
    from pcgcd.automata.expressions import Block
    from pcgcd.automata.graphs import Graph
    from pcgcd.automata.vocabulary import Vocabulary

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_MOST_STATES = 200_000  # a few hundred bytes each, once they are written
_END = -2  # in a part: the end of the block
_UNWRITTEN = -2  # in a table: the only slot, with several targets, of which there are none
_AT_ONCE = 64  # states that are written together
_LARGE = 1 << 16  # bytes of a part


class _Entry(NamedTuple):
    """How a part is entered: the targets of each byte, (256,), and the edges of blocks."""

    targets: Array
    ways: tuple[tuple[_Part, int], ...]


class _Rows(NamedTuple):
    """The transitions of a part, as they are copied.

    Attributes:
        delta: The target of each inner state and class of bytes, EMPTY or _END, (S, C).
        loops: The bytes on which each state only stays, (S, 4).
        ways: The edges of blocks: from a state, through a part, to a state. They are sorted.
    """

    delta: Array
    loops: Array
    ways: tuple[tuple[int, _Part, int], ...]


@dataclass(frozen=True, eq=False)
class _Part:
    """An automaton with blocks as letters. What is copied of it is made when a copy needs it.

    Attributes:
        parts: The parts of the blocks inside.
        graph: The automaton itself.
        number: The number of each of its states in copies, or _END.
        start: The initial state.
        distance: The least number of bytes from each inner state to the end, (S,).
        length: The least number of bytes of a text.
        used: The bytes that occur in texts, (256,).
    """

    parts: tuple[_Part, ...]
    graph: Graph
    number: Array
    start: int
    distance: Array
    length: int
    used: Array

    @property
    def size(self) -> int:
        """How many bytes the transitions take."""
        return 4 * self.graph.num_states * self.graph.num_classes

    @cached_property
    def moves(self) -> Array:
        """The target of each state and class, EMPTY or _END, as copies number states."""
        graph = self.graph
        by_class = write_moves(
            graph.source,
            graph.target,
            graph.label,
            frozen(unpack(graph.sets, graph.num_classes)),
            graph.num_states,
        )
        # The last entry is that of EMPTY.
        result: Array = np.append(self.number, EMPTY).astype(np.int32)[by_class]
        return result

    @cached_property
    def byte_class(self) -> Array:
        """The class of each byte, (256,)."""
        result: Array = frozen(self.graph.token_class[:256])
        return result

    @cached_property
    def entry(self) -> _Entry:
        """The ways out of the start of a block."""
        row = self.moves[self.start]
        ends = row[self.graph.token_class[256:]].tolist()
        ways = tuple(way for way in zip(self.parts, ends) if way[1] != EMPTY)
        return _Entry(row[self.byte_class], ways)

    @cached_property
    def rows(self) -> _Rows:
        """The transitions of the inner states."""
        delta = self.moves[self.number >= 0]
        ways: list[tuple[int, _Part, int]] = []
        for part, letter in zip(self.parts, self.graph.token_class[256:].tolist()):
            states = np.flatnonzero(delta[:, letter] != EMPTY)
            ends = delta[states, letter]
            ways += [(state, part, end) for state, end in zip(states.tolist(), ends.tolist())]
        loops = self_loops(delta, self.byte_class)
        return _Rows(delta, loops, tuple(sorted(ways, key=itemgetter(0))))


def _part_of(block: Block) -> _Part | None:
    """Return the part of a block; None if it is not deterministic.

    It is made once; if it is large, once for as long as a table has it.
    """
    known: _Part | None = _LARGE_PARTS.get(block)
    if known is None and "_part" not in vars(block):
        known = _part(block.graph, block.inside, is_block=True)
        if known is None or known.size <= _LARGE:
            return kept_with(block, "_part", lambda: known)
        _LARGE_PARTS[block] = known
    return known or vars(block)["_part"]


# Blocks are kept for other schemas that have the same ones; what is large is not.
_LARGE_PARTS: WeakValueDictionary[Block, _Part] = WeakValueDictionary()


def _part(graph: Graph, inside: tuple[Block, ...], *, is_block: bool) -> _Part | None:
    # Before the tables of what is inside are made, which may be large.
    if graph.initial.sum() != 1 or _has_choices(graph):
        return None
    parts = tuple(part for part in map(_part_of, inside) if part is not None)
    if len(parts) < len(inside):
        return None
    label_class = unpack(graph.sets, graph.num_classes)
    number = inner_numbers(graph) if is_block else np.arange(graph.num_states)
    number = np.where(number >= 0, number, _END)
    lengths = np.full(graph.num_classes, NEVER, dtype=np.int64)
    if parts:
        np.minimum.at(lengths, graph.token_class[256:], [part.length for part in parts])
    lengths[graph.token_class[:256]] = 1  # no text of a block is empty
    cost = np.where(label_class, lengths, NEVER).min(axis=1, initial=NEVER)
    order, offsets = group(np.array(graph.target), graph.num_states)
    distance = cheapest(
        offsets, graph.source[order], cost[graph.label[order]], np.array(graph.accepting)
    )
    used: Array = np.any(label_class, axis=0)[graph.token_class[:256]]
    for part in parts:
        used |= part.used
    [start] = np.flatnonzero(graph.initial).tolist()
    length = int(distance[start])
    distance = distance[number >= 0]
    return _Part(parts, graph, number, start, distance, length, used)


def _has_choices(graph: Graph) -> bool:
    """Return whether some edges from one state share a byte or a block."""
    none = np.zeros_like(graph.sets)
    return bool(begun_twice(graph.source, graph.label, graph.sets, none, graph.num_states).any())


def _within(part: _Part) -> list[_Part]:
    """Return a part and all parts inside of it, each once."""
    found = {id(part): part}
    waiting = [part]
    while waiting:
        for inner in waiting.pop().parts:
            if id(inner) not in found:
                found[id(inner)] = inner
                waiting.append(inner)
    return list(found.values())


class _Plan(NamedTuple):
    """How rows of targets by class are written by slot: the same for all copies of some states.

    Attributes:
        kind: The pattern of each state, (n,).
        cells: Which cells of the rows are the targets of slots, in order.
        start: Where the targets of each state begin among these, (n,).
    """

    kind: Array
    cells: Array
    start: Array


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
        known: The copy of each part with each end.
        samples: The first byte of each class of bytes; the classes come in their order.
        patterns: The number of each pattern so far, by its slots.
        plans: How states of each part are written, by the first of them.
        used: How many targets are written, (1,).
    """

    copies: list[_Copy]
    owner: Array
    is_written: Array
    known: dict[tuple[int, int], int]
    samples: Array
    patterns: dict[bytes, int]
    plans: dict[tuple[int, int], _Plan]
    used: Array

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
        # The bytes that no part of it tells apart.
        parts = _within(part)
        byte_class, samples = intern(np.stack([each.byte_class for each in parts], axis=1))
        most = 1 + sum(len(each.distance) for each in parts)  # patterns
        # Memory that is never needed is never touched: of what is not written, only zeros are read.
        table = cls(
            Moves(
                pattern=np.empty((most, len(samples)), dtype=np.int16),
                size=np.empty((most, 2), dtype=np.int32),
                name=np.empty((most, 4), dtype=np.int32),
                kind=np.zeros(size, dtype=np.int32),
                start=np.zeros(size, dtype=np.int32),
                targets=np.empty(1 + size * len(samples), dtype=np.int32),
                several=np.zeros(0, dtype=np.int32),
                first=np.zeros(2, dtype=np.int64),
                loops=np.zeros((size, 4), dtype=np.uint64),
                byte_class=byte_class,
            ),
            np.full(size, NEVER, dtype=np.int64),
            True,
            copies=[],
            owner=np.zeros(size, dtype=np.int32),
            is_written=np.zeros(size, dtype=np.bool_),
            known={},
            samples=samples,
            patterns={},
            plans={},
            used=np.ones(1, dtype=np.int64),
        )
        table.moves.pattern[0], table.moves.name[0] = 0, 0
        table.moves.size[0], table.moves.targets[0] = (1, 256), _UNWRITTEN
        table._place(part, 0, -1)
        return table

    @property
    def num_states(self) -> int:
        return self.copies[-1].base + len(self.copies[-1].part.distance)

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
            for state in range(base, base + len(part.distance), _AT_ONCE):
                self.complete(state)
            number += 1

    def _write(self, state: int) -> None:
        """Write the transitions of some states of one copy."""
        part, base, end = self.copies[int(self.owner[state])]
        delta, loops, ways = part.rows
        first = (state - base) // _AT_ONCE * _AT_ONCE
        delta = delta[first : first + _AT_ONCE]
        rows = np.where(delta >= 0, delta + base, delta)
        rows[delta == _END] = end
        rows = rows[:, part.byte_class[self.samples]]
        begin = bisect_left(ways, first, key=itemgetter(0))
        for source, inner, target in ways[begin:]:
            if source >= first + len(rows):
                break
            self._enter(rows[source - first], inner, end if target == _END else base + target)
        key = (id(part), first)
        plan = self.plans.get(key) or self.plans.setdefault(key, self._plan(rows))
        chosen = slice(base + first, base + first + len(rows))
        used = int(self.used[0])
        self.used[0] = used + len(plan.cells)
        # Whoever reads without a lock sees all or nothing of a state: its pattern comes last.
        self.moves.targets[used : used + len(plan.cells)] = rows.ravel()[plan.cells]
        self.moves.start[chosen] = plan.start + used
        self.moves.loops[chosen] = loops[first : first + len(rows)]
        self.moves.kind[chosen] = plan.kind
        self.is_written[chosen] = True

    def _plan(self, rows: Array) -> _Plan:
        """Find the patterns of rows of targets, and number those that are new."""
        pattern, cells, counts = slots_of(rows)
        texts = [row.tobytes() for row in pattern]
        new = {text: i for i, text in enumerate(texts) if text not in self.patterns}
        if new:
            chosen, first = list(new.values()), len(self.patterns) + 1
            numbers = slice(first, first + len(new))
            by_byte = pattern[chosen][:, self.moves.byte_class]
            self.moves.pattern[numbers] = pattern[chosen]
            self.moves.size[numbers, 0] = counts[chosen]
            self.moves.size[numbers, 1] = (by_byte >= 0).sum(axis=1)
            self.moves.name[numbers] = names(by_byte)
            self.patterns.update(zip(new, range(first, first + len(new))))
        kind = np.array([self.patterns[text] for text in texts], dtype=np.int32)
        return _Plan(kind, cells, np.cumsum(counts) - counts)

    def _enter(self, row: Array, part: _Part, end: int) -> None:
        """Write the ways into a part to the row of a state."""
        key = (id(part), end)
        if key not in self.known:
            self.known[key] = len(self.copies)
            self._place(part, self.num_states, end)
        base = self.copies[self.known[key]].base
        targets, ways = part.entry
        entry = targets[self.samples]
        row[entry >= 0] = entry[entry >= 0] + base
        row[entry == _END] = end
        for inner, target in ways:
            self._enter(row, inner, end if target == _END else base + target)

    def _place(self, part: _Part, base: int, end: int) -> None:
        """Number the states of a copy."""
        stop = base + len(part.distance)
        self.distance[base:stop] = part.distance + (self.distance[end] if end >= 0 else 0)
        self.owner[base:stop] = len(self.copies)
        self.copies.append(_Copy(part, base, end))

"""Thompson's construction: expressions as automata with empty moves.

K. Thompson, "Regular expression search algorithm" (CACM, 1968): one small rule for each kind of
expression, which puts a fragment of automaton between an entry and an exit. Where this departs:

- The rules do not make an entry and an exit of their own, but are given them. Invariant: a rule
  adds edges that leave its entry and enter its exit, never the other way round, so fragments that
  share entries and exits do not mix.
- An edge carries a set of bytes, so classes of characters need no unions.
- A counted repeat is a chain of copies, members in any order are a lattice of them. A fragment that
  comes again is copied as a block of arrays.
- Intersections and complements have no rule: their automata are built before, and embedded.
- A block is a letter: one edge, however large it is.

The tree is walked with a stack of our own, since it may be deep. The time is linear in the number
of states and edges added.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.empty_moves import orders, without_empty_moves
from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    AnyOrder,
    Block,
    ByteSet,
    Concatenation,
    Embedded,
    Expression,
    InOrder,
    Literal,
    Repeat,
    Union,
)
from pcgcd.automata.expressions.blocks import written_out
from pcgcd.automata.graphs import Graph, too_large
from pcgcd.automata.kernels.classes import classes_of_labels
from pcgcd.automata.kernels.edges import moved

_WORTH_COPYING = 24
_SINGLE_BYTES = {1 << byte: byte for byte in range(256)}

Task: TypeAlias = "Callable[[], None]"
_Placing: TypeAlias = "tuple[Expression, int, int, bool]"


def post_order(expression: Expression) -> list[Expression]:
    """All sub-expressions, each object once, after those it is made of."""
    result: list[Expression] = []
    seen: set[int] = set()
    stack = [(expression, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            result.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            if node.children:
                stack.append((node, True))
                stack += [(child, False) for child in node.children if id(child) not in seen]
            else:
                result.append(node)
    return result


def states_inside(node: Expression, inside: dict[int, int]) -> int:
    """How many states the rules add for an expression, given the numbers of its parts by id."""
    if isinstance(node, Literal):
        return max(0, len(node.text) - 1)
    if isinstance(node, Concatenation):
        return len(node.parts) - 1 + sum(inside[id(part)] for part in node.parts)
    if isinstance(node, Union):
        return sum(inside[id(option)] for option in node.options)
    if isinstance(node, Repeat):
        return 1 + node.copies * (1 + inside[id(node.body)])
    if isinstance(node, AnyOrder):
        half = 1 << (len(node.members) - 1)
        bodies = sum(inside[id(member.body)] for member in node.members)
        return half * (4 + bodies + 2 * inside[id(node.separator)])
    if isinstance(node, InOrder):
        count = len(node.members) + 1
        parts = sum(inside[id(part)] for part in node.children)
        return 2 * count + parts + (count - 1) * inside[id(node.separator)]
    if isinstance(node, Embedded):
        return node.automaton.num_states
    return 0


# -- the rules --------------------------------------------------------------------------------


class _Fragment(NamedTuple):
    """What an expression has added between an entry and an exit."""

    entry: int
    exit: int
    states: slice
    edges: slice
    empty: slice


class _Construction:
    """The states and edges so far; states 0 and 1 are the entry and the exit of the whole."""

    def __init__(
        self, built: dict[int, FiniteAutomaton], state_limit: int, with_letters: bool
    ) -> None:
        self.built, self.state_limit, self.with_letters = built, state_limit, with_letters
        self.letters: dict[Block, int] = {}
        self.count = 2
        self.source = array("q")
        self.target = array("q")
        self.label = array("q")
        self.empty_source = array("q")
        self.empty_target = array("q")
        # Labels 0..255 are single bytes, the others are numbered as they come.
        self.masks = _SINGLE_BYTES.copy()
        self.fragments: dict[tuple[int, bool], _Fragment] = {}
        self.stack: list[_Placing | Task] = []

    def run(self, expression: Expression) -> None:
        self.place(expression, 0, 1)
        while self.stack:
            item = self.stack.pop()
            if isinstance(item, tuple):
                self.open(*item)
            else:
                item()

    def new_states(self, count: int) -> int:
        first = self.count
        self.count += count
        if self.count > self.state_limit:
            raise too_large("the automaton of this expression", self.state_limit)
        return first

    def empty_move(self, source: int, target: int) -> None:
        self.empty_source.append(source)
        self.empty_target.append(target)

    def edge(self, source: int, target: int, mask: int) -> None:
        self.source.append(source)
        self.target.append(target)
        self.label.append(self.number(mask))

    def number(self, mask: int) -> int:
        return self.masks.setdefault(mask, len(self.masks))

    def place(self, expression: Expression, entry: int, exit_: int, nonempty: bool = False) -> None:
        """Between two states; ``nonempty`` leaves out the empty string of what was built before."""
        if isinstance(expression, Literal):
            self.place_literal(expression.text, entry, exit_)
        elif isinstance(expression, ByteSet):
            if expression.mask:
                self.edge(entry, exit_, expression.mask)
        elif isinstance(expression, Block) and self.with_letters:
            letter = 256 + self.letters.setdefault(expression, len(self.letters))
            self.edge(entry, exit_, 1 << letter)
        else:
            self.stack.append((expression, entry, exit_, nonempty))

    def open(self, expression: Expression, entry: int, exit_: int, nonempty: bool) -> None:
        """Place what an expression is made of."""
        if expression.size > _WORTH_COPYING and entry != exit_:
            fragment = self.fragments.get((id(expression), nonempty))
            if fragment is not None:
                self.copy(fragment, [entry], [exit_])
                return
            self.stack.append(self.remember(expression, entry, exit_, nonempty))
        built = self.built.get(id(expression))
        if built is not None:
            self.place_automaton(built, entry, exit_, nonempty)
        elif isinstance(expression, Concatenation):
            states = self.chain(len(expression.parts), entry, exit_)
            for part, first, last in zip(expression.parts, states, states[1:]):
                self.place(part, first, last)
        elif isinstance(expression, Union):
            for option in expression.options:
                self.place(option, entry, exit_)
        elif isinstance(expression, Repeat):
            self.place_repeat(expression, entry, exit_)
        elif isinstance(expression, AnyOrder):
            self.place_any_order(expression, entry, exit_)
        elif isinstance(expression, InOrder):
            self.place_in_order(expression, entry, exit_)
        elif isinstance(expression, Block):
            self.place_automaton(written_out(expression), entry, exit_, False)
        elif isinstance(expression, Embedded):
            self.place_automaton(expression.automaton, entry, exit_, False)

    def chain(self, length: int, entry: int, exit_: int) -> list[int]:
        first = self.new_states(length - 1)
        return [entry, *range(first, first + length - 1), exit_]

    def remember(self, expression: Expression, entry: int, exit_: int, nonempty: bool) -> Task:
        states, edges, empty = self.count, len(self.source), len(self.empty_source)

        def task() -> None:
            self.fragments[id(expression), nonempty] = _Fragment(
                entry,
                exit_,
                slice(states, self.count),
                slice(edges, len(self.source)),
                slice(empty, len(self.empty_source)),
            )

        return task

    def copy(self, fragment: _Fragment, entries: Sequence[int], exits: Sequence[int]) -> None:
        """The same again between other states, once for each pair of them."""
        states = fragment.states
        size = states.stop - states.start
        first = self.new_states(size * len(entries))
        outer = _array([fragment.entry, fragment.exit, states.start, size])
        begin, end = _array(entries), _array(exits)

        def append_moved(to: array[int], part: slice) -> None:
            if part.start < part.stop:
                to.frombytes(moved(_array(to[part]), outer, first, begin, end).tobytes())

        append_moved(self.source, fragment.edges)
        append_moved(self.target, fragment.edges)
        self.label += self.label[fragment.edges] * len(entries)
        append_moved(self.empty_source, fragment.empty)
        append_moved(self.empty_target, fragment.empty)

    def place_often(
        self,
        body: Expression,
        entries: Sequence[int],
        exits: Sequence[int],
        nonempty: bool = False,
    ) -> None:
        """The body between each pair of states."""
        if isinstance(body, ByteSet):
            if body.mask:
                self.source.extend(entries)
                self.target.extend(exits)
                self.label.extend([self.number(body.mask)] * len(entries))
            return
        self.stack.append(partial(self.place_copies, body, entries, exits, nonempty))

    def place_copies(
        self, body: Expression, entries: Sequence[int], exits: Sequence[int], nonempty: bool
    ) -> None:
        if len(entries) > 1:
            remember = self.remember(body, entries[0], exits[0], nonempty)

            def task() -> None:
                remember()
                self.copy(self.fragments[id(body), nonempty], entries[1:], exits[1:])

            self.stack.append(task)
        self.place(body, entries[0], exits[0], nonempty)

    def place_literal(self, text: bytes, entry: int, exit_: int) -> None:
        if not text:
            self.empty_move(entry, exit_)
            return
        first = self.new_states(len(text) - 1)
        inner = range(first, self.count)
        self.source.append(entry)
        self.source.extend(inner)
        self.target.extend(inner)
        self.target.append(exit_)
        self.label.extend(text)

    def place_repeat(self, expression: Repeat, entry: int, exit_: int) -> None:
        body, least, most = expression.body, expression.least, expression.most
        while isinstance(body, Repeat) and (body.least, body.most) == (0, 1):
            body, least = body.body, 0  # (x?){m,n} = x{0,n}
        built = self.built.get(id(body))
        nonempty = built is not None and bool((built.initial_mask & built.accepting_mask).any())
        if nonempty:
            least = 0  # as above: without it, empty moves would lead past any number of copies
        if most == 1:
            if least == 0:
                self.empty_move(entry, exit_)
            self.place(body, entry, exit_, nonempty)
            return
        if most is not None:
            states = self.chain(most, entry, exit_)
            for state in states[least:-1]:
                self.empty_move(state, exit_)
            self.place_often(body, states[:-1], states[1:], nonempty)
            return
        loop = self.new_states(1)
        if least == 0:
            self.empty_move(entry, loop)
            self.place(body, loop, loop, nonempty)
        else:
            states = self.chain(least, entry, loop)
            if least == 1:
                states[0] = self.new_states(1)
                self.empty_move(entry, states[0])
            self.empty_move(loop, states[-2])
            self.place_often(body, states[:-1], states[1:])
        self.empty_move(loop, exit_)

    def place_any_order(self, expression: AnyOrder, entry: int, exit_: int) -> None:
        members = expression.members
        choice = orders([m.required for m in members], expression.least, expression.most)
        count = 1 << len(members)
        hub = self.new_states(count) + np.arange(count)
        ready = hub
        if expression.separator != EMPTY_STRING:
            ready = self.new_states(count) + np.arange(count)
            if len(choice.open):
                entries, exits = hub[choice.open], ready[choice.open]
                self.place_often(expression.separator, entries.tolist(), exits.tolist())
            self.empty_move(int(hub[0]), int(ready[0]))
        self.empty_move(entry, int(hub[0]))
        for state in hub[choice.final].tolist():
            self.empty_move(state, exit_)
        for i, (member, before) in enumerate(zip(members, choice.before)):
            if len(before):
                entries, exits = ready[before], hub[before | 1 << i]
                self.place_often(member.body, entries.tolist(), exits.tolist())

    def place_in_order(self, expression: InOrder, entry: int, exit_: int) -> None:
        """State i of ``before`` is before any member from i on, state i of ``after`` after i."""
        members, size = expression.members, len(expression.members)
        tail: list[Expression] = [] if expression.tail == NOTHING else [expression.tail]
        before = self.new_states(size + 1)
        after = self.new_states(size + 1)
        needed = max((i for i, member in enumerate(members) if member.required), default=-1)
        self.empty_move(entry, before)
        if needed < 0:
            self.empty_move(entry, exit_)
        for i, member in enumerate(members):
            if not member.required:
                self.empty_move(before + i, before + i + 1)
        for i, body in enumerate([*(member.body for member in members), *tail]):
            self.place(body, before + i, after + i)
            if i >= needed:
                self.empty_move(after + i, exit_)
        count = size + 1 if tail else size - 1
        if count > 0:
            exits = [before + min(i + 1, size) for i in range(count)]
            self.place_often(expression.separator, range(after, after + count), exits)

    def place_automaton(self, fa: FiniteAutomaton, entry: int, exit_: int, nonempty: bool) -> None:
        first = self.new_states(fa.num_states)
        label = _array(list(map(self.number, fa.labels.masks)))[fa.label]
        self.source.frombytes((fa.source + first).tobytes())
        self.target.frombytes((fa.target + first).tobytes())
        self.label.frombytes(label.tobytes())
        if nonempty:
            starting = np.flatnonzero(fa.initial_mask[fa.source])
            self.source.extend([entry] * len(starting))
            self.target.frombytes((fa.target[starting] + first).tobytes())
            self.label.frombytes(label[starting].tobytes())
        else:
            for state in np.flatnonzero(fa.initial_mask).tolist():
                self.empty_move(entry, first + state)
        for state in np.flatnonzero(fa.accepting_mask).tolist():
            self.empty_move(first + state, exit_)


def construct(
    expression: Expression,
    built: dict[int, FiniteAutomaton],
    state_limit: int,
    with_letters: bool,
) -> tuple[Graph, tuple[Block, ...]]:
    """The trim automaton of an expression, without empty moves, and the blocks in it.

    Args:
        expression: What to build.
        built: The automata of those of its parts that were built by themselves, by id: all
            intersections and complements, and others.
        state_limit: How many states it may have before empty moves are removed.
        with_letters: Whether blocks are letters, from 256 on in the order in which they are
            returned; otherwise they are written out.
    """
    construction = _Construction(built, state_limit, with_letters)
    construction.run(expression)
    num_tokens = 256 + len(construction.letters)
    width = 8 * -(-num_tokens // 64)
    masks = islice(construction.masks, len(_SINGLE_BYTES), None)
    bits = b"".join([mask.to_bytes(width, "little") for mask in masks])
    rows = np.frombuffer(bits, dtype=np.int64).reshape(-1, width // 8).copy()
    label, sets, num_classes, token_class = classes_of_labels(
        _array(construction.label), rows, num_tokens
    )
    ends = np.zeros((2, construction.count), dtype=np.bool_)
    ends[0, 0] = ends[1, 1] = True
    graph = without_empty_moves(
        (_array(construction.empty_source), _array(construction.empty_target)),
        (_array(construction.source), _array(construction.target), label),
        (sets, num_classes, token_class),
        ends[0],
        ends[1],
    )
    return graph, tuple(construction.letters)


def _array(values: array[int] | Sequence[int]) -> Any:
    return np.array(values, dtype=np.int64)

"""Masks straight from a byte automaton: each state is lifted when it is first met."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.kernels.bits import set_intervals
from pcgcd.automata.kernels.lazy_masks import NO_TEMPLATE, new_names, write_narrow, write_wide
from pcgcd.automata.kernels.tables import steps_to_accept
from pcgcd.automata.kernels.templates import LOCAL_LIMIT
from pcgcd.automata.kernels.walks import EMPTY, Output, new_output
from pcgcd.automata.lifting import ByteTable
from pcgcd.automata.limits import NEVER
from pcgcd.automata.masks.bits import Words
from pcgcd.automata.masks.state_sets import (
    CACHE_BYTES,
    Array,
    PrefixMasks,
    States,
    plain_states,
)
from pcgcd.automata.vocabulary import Vocabulary

_INTERVALS = 1 << 13
_PACKED = 64  # labels of templates


class _Row(NamedTuple):
    """What a state allows."""

    words: Words  # all tokens, and EOS if the state accepts, packed
    enough: int  # a budget at which the mask is ``words``, for certain


class _Edges(NamedTuple):
    """The edges over tokens that leave a state."""

    target: Array
    first: Array  # where each edge's intervals begin
    bounds: Array  # of intervals of ranks


class TokenMasks(PrefixMasks):
    """The masks of ``lift(byte_automaton, vocabulary)``, without lifting what is never visited.

    States are those of the byte automaton; one more stands for the end of the text. Without a
    budget, and with one that is ample, a mask needs no other states than those it is asked for. A
    budget is ample if every token allowed could be followed by the shortest rest spelled byte by
    byte. With a tighter one the exact distances are needed, and the first such mask walks from all
    states once (:attr:`distance`).

    >>> from pcgcd.automata.masks.bits import unpack
    >>> ab = FiniteAutomaton.from_edges(
    ...     num_states=3,
    ...     vocab_size=256,
    ...     initial=0,
    ...     accepting={2},
    ...     edges=[(0, 1, b"a"), (1, 2, b"b")],
    ... )
    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3)
    >>> lazy = TokenMasks(ab, vocabulary)
    >>> unpack(lazy.mask(lazy.start()), 4)
    array([ True, False,  True, False])
    >>> unpack(lazy.mask(lazy.start(), remaining=1), 4)
    array([False, False,  True, False])
    """

    def __init__(self, byte_automaton: FiniteAutomaton, vocabulary: Vocabulary) -> None:
        super().__init__(byte_automaton.num_states + 1, vocabulary.logits_size)
        self.vocabulary = vocabulary
        self._table = ByteTable.of(byte_automaton, vocabulary)
        self._accepting = byte_automaton.accepting_mask
        self._end = byte_automaton.num_states
        self._rows: dict[int, _Row] = {}
        self._edges: dict[int, _Edges] = {}
        self._lock = threading.Lock()
        self._names = new_names(byte_automaton.num_states, LOCAL_LIMIT)
        self._recent = np.full(256, -1, dtype=np.int64)
        self._room = _INTERVALS
        self._out = self._new_output()
        alive = byte_automaton.initial_mask & (self._table.distance < NEVER)
        self._initial = np.flatnonzero(alive)

    @cached_property
    def _spells_all(self) -> bool:
        """Whether whatever can still be spelled can be spelled byte by byte."""
        missing = self.vocabulary.used_bytes & ~self.vocabulary.single_bytes
        moves = self._table.moves
        return not (moves.delta[:, moves.byte_class[missing]] != EMPTY).any()

    @cached_property
    def distance(self) -> Array:
        """The least number of tokens from each state, and from the end, to acceptance, or NEVER."""
        _, source, target, *_ = self._table.walk(self._initial, self.vocabulary, follow=True)
        result: Array = steps_to_accept(source, target, np.append(self._accepting, True))
        return result

    def start(self) -> tuple[int, ...]:
        if self._spells_all:
            return tuple(self._initial.tolist())
        return tuple(self._initial[self.distance[self._initial] < NEVER].tolist())

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        current = set(plain_states(states))
        if current and not 0 <= min(current) <= max(current) <= self._end:
            raise self._wrong_states(states)
        self._check_token(token)
        if token in self.vocabulary.eos_ids:
            ends = any(state == self._end or self._accepting[state] for state in current)
            return (self._end,) if ends else ()
        text = self.vocabulary.token_bytes[token] if token < self.vocabulary.size else None
        if not text:
            return ()
        moves = self._table.moves
        current.discard(self._end)
        for byte in text:
            found: set[int] = set()
            for state in current:
                cell = int(moves.delta[state, moves.byte_class[byte]])
                if cell >= 0:
                    found.add(cell)
                elif cell != EMPTY:
                    first, last = moves.first[-2 - cell], moves.first[-1 - cell]
                    found.update(moves.several[first:last].tolist())
            current = found
        if not self._spells_all:
            current = {state for state in current if self.distance[state] < NEVER}
        return tuple(sorted(current))

    def _threshold(self, members: tuple[int, ...], budget: int) -> int:
        enough = max((self._row(state).enough for state in members), default=0)
        return min(max(int(budget), 0), enough)

    def _write(self, out: Words, members: tuple[int, ...], budget: int) -> None:
        if len(members) == 1:
            row = self._row(members[0])
            out[...] = row.words if budget >= row.enough else self._within(members[0], budget)
            return
        out[...] = 0
        for state in members:
            row = self._row(state)
            out |= row.words if budget >= row.enough else self._within(state, budget)

    def _write_all(self, out: Words, members: Array, first: Array, budgets: Array) -> None:
        states, starts = members.tolist(), first.tolist()
        for k, budget in enumerate(budgets.tolist()):
            self._write(out[k], tuple(states[starts[k] : starts[k + 1]]), budget)

    def _row(self, state: int) -> _Row:
        row = self._rows.get(state)
        if row is None:
            if not 0 <= state <= self._end:
                raise self._wrong_states(state)
            if len(self._rows) * 4 * self.num_words > CACHE_BYTES:
                self._rows.clear()
            row = self._rows[state] = self._make_row(state)
        return row

    def _make_row(self, state: int) -> _Row:
        words = np.zeros(self.num_words, dtype=np.uint32)
        enough = 1
        if state < self._end:
            distance = self._table.distance if self._spells_all else self.distance
            with self._lock:
                enough = self._write_state(words, state, distance)
        if state == self._end or self._accepting[state]:
            self._add_eos(words)
        words.flags.writeable = False
        return _Row(words, enough)

    def _write_state(self, words: Words, state: int, distance: Array) -> int:
        trie, moves = self.vocabulary.trie, self._table.moves
        store = self._table.store(self.vocabulary)
        any_width = False
        while True:
            given = (distance, trie.token, trie.nodes, moves, self._out)
            enough = write_narrow(words, state, any_width, *given)
            for is_last in (False, True) if enough == NO_TEMPLATE else ():
                with store.borrowed() as box:
                    if box.packed is None:
                        rows = np.empty((_PACKED, self.num_words), dtype=np.uint32)
                        box.packed = np.full(_PACKED, -1, dtype=np.int64), rows
                    shared = (box.templates, self._names, self._recent, *box.packed)
                    enough = write_wide(words, state, *given, *shared)
                if enough != NO_TEMPLATE:
                    break
                if not is_last:
                    # A full walk leaves a template, unless there are too many.
                    self._table.walk(np.array([state]), self.vocabulary, follow=False)
            if enough >= 0:
                return int(enough)
            if enough == NO_TEMPLATE:
                any_width = True
            else:
                self._room *= 4
                self._out = self._new_output()

    def _new_output(self) -> Output:
        depth = self.vocabulary.trie.max_depth
        return cast(Output, new_output(self._end, depth, self._room, self._room))

    def _edges_of(self, state: int) -> _Edges:
        edges = self._edges.get(state)
        if edges is None:
            _, _, target, label, first, bounds = self._table.walk(
                np.array([state]), self.vocabulary, follow=False
            )
            useful = self.distance[target] < NEVER
            target, label = target[useful], label[useful]
            size = np.diff(first)[label]
            starts = np.zeros(len(label) + 1, dtype=np.int64)
            np.cumsum(size, out=starts[1:])
            gather = np.arange(starts[-1]) + np.repeat(first[label] - starts[:-1], size)
            edges = self._edges[state] = _Edges(target, starts, bounds[gather])
        return edges

    def _within(self, state: int, budget: int) -> Words:
        """The mask of a state with a budget that may be too small for some of its edges."""
        words = np.zeros(self.num_words, dtype=np.uint32)
        if budget < 1:
            return words
        token = self.vocabulary.trie.token
        edges = self._edges_of(state)
        for edge in np.flatnonzero(self.distance[edges.target] < budget):
            set_intervals(words, edges.bounds, edges.first[edge], edges.first[edge + 1], token)
        if self._accepting[state]:
            self._add_eos(words)
        return words

    def _add_eos(self, words: Words) -> None:
        for eos in self.vocabulary.eos_ids:
            words[eos >> 5] |= np.uint32(1) << np.uint32(eos & 31)

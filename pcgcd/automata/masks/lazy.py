"""Masks straight from a byte automaton: each state is lifted when it is first met."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from pcgcd.automata.arrays import Mask
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import Expression
from pcgcd.automata.expressions.compilation import compile_expression, compile_folded
from pcgcd.automata.kernels.bits import set_intervals
from pcgcd.automata.kernels.lazy_masks import NO_TEMPLATE, new_names, write_narrow, write_wide
from pcgcd.automata.kernels.tables import steps_to_accept
from pcgcd.automata.kernels.templates import LOCAL_LIMIT
from pcgcd.automata.kernels.walks import new_output
from pcgcd.automata.lifting import ByteTable
from pcgcd.automata.lifting.unfolding import UnfoldingTable
from pcgcd.automata.limits import NEVER, STATE_LIMIT
from pcgcd.automata.masks.bits import Words, listed
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

    def __init__(
        self,
        source: FiniteAutomaton | Expression,
        vocabulary: Vocabulary,
        *,
        state_limit: int = STATE_LIMIT,
    ) -> None:
        """Index the automaton; nothing is walked yet.

        Args:
            source: An automaton over bytes, or an expression, whose automaton is then written only
                where it is entered.
            vocabulary: The tokens.
            state_limit: How many states the automaton of an expression may have.

        Raises:
            AutomatonTooLargeError: It would have more.
        """
        self._table, initial, self._accepting = _table_of(source, vocabulary, state_limit)
        self._end = len(self._accepting)
        super().__init__(self._end + 1, vocabulary.logits_size)
        self.vocabulary = vocabulary
        self._made_from = source, state_limit
        self._rows: dict[int, _Row] = {}
        self._edges: dict[int, _Edges] = {}
        self._lock = threading.RLock()
        self._recent = np.full(256, -1, dtype=np.int64)
        self._room = _INTERVALS
        self._make_room()
        self._initial = np.flatnonzero(initial & (self._table.distance < NEVER))

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies anew."""
        source, state_limit = self._made_from
        return partial(TokenMasks, state_limit=state_limit), (source, self.vocabulary)

    @cached_property
    def _spells_all(self) -> bool:
        """Whether whatever can still be spelled can be spelled byte by byte."""
        if isinstance(self._table, UnfoldingTable):
            return True  # it is made for no other vocabulary
        missing = self.vocabulary.used_bytes & ~self.vocabulary.single_bytes
        moves = self._table.moves
        return not (moves.pattern[:, moves.byte_class[missing]] >= 0).any()

    @cached_property
    def distance(self) -> Array:
        """The least number of tokens from each state, and from the end, to acceptance, or NEVER."""
        with self._lock:
            self._table.complete_all()
        _, source, target, *_ = self._table.walk(self._initial, self.vocabulary, follow=True)
        result: Array = steps_to_accept(source, target, np.append(self._accepting, True))
        return result

    def start(self) -> tuple[int, ...]:
        if self._spells_all:
            return tuple(self._initial.tolist())
        return tuple(self._initial[self.distance[self._initial] < NEVER].tolist())

    def is_accepting(self, states: tuple[int, ...]) -> bool:
        """Return whether a prefix that leads to some states is a text as it stands."""
        return any(state == self._end or self._accepting[state] for state in states)

    def can_end(self, states: tuple[int, ...], remaining: int) -> bool:
        """Return whether a text can be finished from some states, in so many tokens at most."""
        if not states or remaining < 0:
            return False
        if self._spells_all and any(self._num_bytes(state) <= remaining for state in states):
            return True
        return bool(self.distance[list(states)].min() <= remaining)

    def shortest_length(self) -> int | None:
        """Return the least number of tokens of a text; None if there is none."""
        start = self.start()
        return int(self.distance[list(start)].min()) if start else None

    def accepts(self, tokens: Iterable[int]) -> bool:
        """Return whether the tokens spell a text, and nothing but EOS follows its end."""
        states = self.start()
        for token in tokens:
            states = self.advance(states, token)
        return self.is_accepting(states)

    def matches(self, text: bytes) -> bool:
        """Return whether the bytes are a text, whatever tokens spell it."""
        return self.is_accepting(tuple(self._after(set(self._initial.tolist()), text)))

    def _after(self, states: set[int], text: bytes) -> set[int]:
        """Return the states after some more bytes."""
        for byte in text:
            states = {target for state in states for target in self._targets(state, byte)}
        return states

    def _targets(self, state: int, byte: int) -> list[int]:
        """Return the states after one more byte."""
        moves = self._table.moves
        cell = self._cell(state, byte)
        if cell is not None and cell < 0:
            with self._lock:
                self._table.complete(state)
            cell = self._cell(state, byte)
        if cell is None:
            return []
        if cell >= 0:
            return [cell]
        found: list[int] = moves.several[moves.first[-2 - cell] : moves.first[-1 - cell]].tolist()
        return found

    def _cell(self, state: int, byte: int) -> int | None:
        """Return what a state has for a byte: a state, -2 - k for several ones, or None."""
        moves = self._table.moves
        slot = moves.pattern[moves.kind[state], moves.byte_class[byte]]
        return None if slot < 0 else int(moves.targets[moves.start[state] + slot])

    def _num_bytes(self, state: int) -> int:
        return 0 if state == self._end else int(self._table.distance[state])

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        current = set(plain_states(states))
        if not all(map(self._is_known, current)):
            raise self._wrong_states(states)
        self._check_token(token)
        if token in self.vocabulary.eos_ids:
            return (self._end,) if self.is_accepting(tuple(current)) else ()
        text = self.vocabulary.token_bytes[token] if token < self.vocabulary.size else None
        if not text:
            return ()
        current = self._after(current - {self._end}, text)
        if not self._spells_all:
            current = {state for state in current if self.distance[state] < NEVER}
        return tuple(sorted(current))

    def followers(self, states: tuple[int, ...], limit: int) -> tuple[int, ...] | None:
        """Return the tokens allowed after some states, rising; None if they are more."""
        if sum(map(self._num_next_bytes, states)) > limit:
            return None  # without looking at the vocabulary
        tokens, _ = listed(self.mask(states)[None], self.vocab_size)
        return None if tokens.shape[1] > limit else tuple(tokens[0].tolist())

    def _num_next_bytes(self, state: int) -> int:
        if state == self._end:
            return 0
        with self._lock:
            self._table.complete(state)
        moves = self._table.moves
        return int(moves.size[moves.kind[state], 1])

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
            if not self._is_known(state):
                raise self._wrong_states(state)
            if len(self._rows) * 4 * self.num_words > CACHE_BYTES:
                self._rows.clear()
            row = self._rows[state] = self._make_row(state)
        return row

    def _is_known(self, state: int) -> bool:
        return 0 <= state < self._table.num_states or state == self._end

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
        self._table.complete(state)
        while True:
            if self._table.num_states > self._most_states:
                self._make_room()
            num_sets = int(self._out.counter[4])
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
            # Where nothing is written yet, a walk meets an empty set of targets.
            if self._out.counter[4] != num_sets and self._table.complete(int(self._out.pool[0])):
                continue
            if enough >= 0:
                return int(enough)
            if enough == NO_TEMPLATE:
                any_width = True
            else:
                self._room *= 4
                self._make_room()

    def _make_room(self) -> None:
        """Make room for walks among the states that there are so far, and as many more."""
        most, depth = min(self._end, 2 * self._table.num_states), self.vocabulary.trie.max_depth
        self._most_states = most
        self._names = new_names(most, LOCAL_LIMIT)
        self._out = new_output(most, depth, self._room, self._room)

    def _edges_of(self, state: int) -> _Edges:
        edges = self._edges.get(state)
        if edges is None:
            distance = self.distance
            _, _, target, label, first, bounds = self._table.walk(
                np.array([state]), self.vocabulary, follow=False
            )
            useful = distance[target] < NEVER
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


def _table_of(
    source: FiniteAutomaton | Expression, vocabulary: Vocabulary, state_limit: int
) -> tuple[ByteTable, Mask, Mask]:
    """Return the table of an automaton, which states it starts in, and which accept."""
    if isinstance(source, Expression):
        graph, inside = compile_folded(source, state_limit=state_limit)
        unfolding = UnfoldingTable.unfold(graph, inside, vocabulary)
        if unfolding is not None:
            more = (0, len(unfolding.distance) - graph.num_states)
            return unfolding, np.pad(graph.initial, more), np.pad(graph.accepting, more)
        source = compile_expression(source, state_limit=state_limit)
    return ByteTable.shared(source, vocabulary), source.initial_mask, source.accepting_mask

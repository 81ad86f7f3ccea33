"""Masks straight from a byte automaton: each state is lifted when it is first met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.bits import Words, num_words, set_intervals
from pcgcd.automata.lifting import ByteTable
from pcgcd.automata.lifting_tables import steps_to_accept
from pcgcd.automata.masks import CACHE_BYTES, States, plain_states
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.automata.walks import EMPTY
from pcgcd.errors import InvalidParameterError

__all__ = ["TokenMasks"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, eq=False)
class _Row:
    """The edges over tokens that leave a state.

    Attributes:
        words: All their tokens, and EOS if the state accepts, packed.
        enough: A budget at which the mask is ``words``, for certain.
        target: The target of each edge.
        first: Where each edge's intervals begin.
        bounds: The bounds of intervals of ranks.
    """

    words: Words
    enough: int
    target: Array
    first: Array
    bounds: Array


class TokenMasks:
    """The masks of ``lift(byte_automaton, vocabulary)``, without lifting what is never visited.

    States are those of the byte automaton; one more stands for the end of the text. Without a
    budget, and with one that is ample, a mask needs no other states than those it is asked for. A
    budget is ample if every token allowed could be followed by the shortest rest spelled byte by
    byte. With a tighter one the exact distances are needed, and the first such mask walks from all
    states once (:attr:`distance`).

    >>> from pcgcd.automata.bits import unpack
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
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.logits_size
        self.num_words = num_words(vocabulary.logits_size)
        self._table = ByteTable.of(byte_automaton, vocabulary)
        self._accepting = byte_automaton.accepting_mask
        self._end = byte_automaton.num_states
        self._rows: dict[int, _Row] = {}
        self._cache: dict[tuple[Any, int], Words] = {}
        alive = byte_automaton.initial_mask & (self._table.distance >= 0)
        self._initial = np.flatnonzero(alive)

    @cached_property
    def _spells_all(self) -> bool:
        """Whether whatever can still be spelled can be spelled byte by byte."""
        missing = self.vocabulary.used_bytes & ~self.vocabulary.single_bytes
        moves = self._table.moves
        return not (moves.delta[:, moves.byte_class[missing]] != EMPTY).any()

    @cached_property
    def distance(self) -> Array:
        """The least number of tokens from each state, and from the end, to acceptance, or -1."""
        _, source, target, *_ = self._table.walk(self._initial, self.vocabulary, follow=True)
        result: Array = steps_to_accept(source, target, np.append(self._accepting, True))
        return result

    def start(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""
        if self._spells_all:
            return tuple(self._initial.tolist())
        return tuple(self._initial[self.distance[self._initial] >= 0].tolist())

    def mask(self, states: States, remaining: int | None = None, out: Words | None = None) -> Words:
        """The tokens that may come next, (W,) packed; see :func:`pcgcd.automata.masks.mask`."""
        members = plain_states(states)
        rows = [self._row(state) for state in ((members,) if isinstance(members, int) else members)]
        enough = max((row.enough for row in rows), default=0)
        budget = enough if remaining is None or remaining >= enough else max(int(remaining), 0)
        key = (members, budget)
        words = self._cache.get(key)
        if words is None:
            words = np.zeros(self.num_words, dtype=np.uint32)
            for row in rows:
                words |= row.words if budget >= row.enough else self._within(row, budget)
            words.flags.writeable = False
            if len(self._cache) * 4 * self.num_words > CACHE_BYTES:
                self._cache.clear()
            self._cache[key] = words
        if out is None:
            return words
        out[...] = words
        return out

    def masks(
        self,
        states: Sequence[States] | Array,
        remaining: int | Sequence[int | None] | None = None,
        out: Words | None = None,
    ) -> Words:
        """The masks of k prefixes in one call, (k, W) packed."""
        if out is None:
            out = np.empty((len(states), self.num_words), dtype=np.uint32)
        budgets = (
            [remaining] * len(states)
            if remaining is None or isinstance(remaining, int | np.integer)
            else remaining
        )
        for row, (members, budget) in enumerate(zip(states, budgets, strict=True)):
            self.mask(members, budget, out[row])
        return out

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""
        members = plain_states(states)
        current = {members} if isinstance(members, int) else set(members)
        if token in self.vocabulary.eos_ids:
            ends = any(state == self._end or self._accepting[state] for state in current)
            return (self._end,) if ends else ()
        text = self.vocabulary.token_bytes[token] if 0 <= token < self.vocabulary.size else None
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
            current = {state for state in current if self.distance[state] >= 0}
        return tuple(sorted(current))

    def advance_all(
        self, states: Sequence[States] | Array, tokens: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """The states of k prefixes after one more token each."""
        return [
            self.advance(members, int(token)) for members, token in zip(states, tokens, strict=True)
        ]

    def _row(self, state: int) -> _Row:
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = self._make_row(state)
        return row

    def _make_row(self, state: int) -> _Row:
        if not 0 <= state <= self._end:
            raise InvalidParameterError(f"states must lie in 0..{self._end}, but {state} was given")
        words = np.zeros(self.num_words, dtype=np.uint32)
        nothing = np.zeros(0, dtype=np.int64)
        if state == self._end:
            self._add_eos(words)
            return _Row(words, 1, nothing, np.zeros(1, dtype=np.int64), nothing)
        _, _, target, label, first, bounds = self._table.walk(
            np.array([state]), self.vocabulary, follow=False
        )
        if not self._spells_all:
            useful = self.distance[target] >= 0
            target, label = target[useful], label[useful]
        size = np.diff(first)[label]
        starts = np.zeros(len(label) + 1, dtype=np.int64)
        np.cumsum(size, out=starts[1:])
        gather = np.arange(starts[-1]) + np.repeat(first[label] - starts[:-1], size)
        bounds = bounds[gather]
        set_intervals(words, bounds, 0, len(bounds), self.vocabulary.trie.token)
        if self._accepting[state]:
            self._add_eos(words)
        distance = self._table.distance if self._spells_all else self.distance
        enough = int(distance[target].max()) + 1 if len(target) else 1
        return _Row(words, enough, target, starts, bounds)

    def _within(self, row: _Row, budget: int) -> Words:
        """The mask of a row with a budget that may be too small for some of its edges."""
        words = np.zeros(self.num_words, dtype=np.uint32)
        if budget < 1:
            return words
        for edge in np.flatnonzero(self.distance[row.target] < budget):
            set_intervals(
                words,
                row.bounds,
                row.first[edge],
                row.first[edge + 1],
                self.vocabulary.trie.token,
            )
        eos = self.vocabulary.eos_ids[0]
        if row.words[eos >> 5] >> np.uint32(eos & 31) & np.uint32(1):
            self._add_eos(words)
        return words

    def _add_eos(self, words: Words) -> None:
        for eos in self.vocabulary.eos_ids:
            words[eos >> 5] |= np.uint32(1) << np.uint32(eos & 31)

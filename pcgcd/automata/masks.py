"""Which tokens may come next: packed masks of a token automaton.

A token is allowed if some state after it can still accept; with a budget, if it can accept within
the tokens that remain. That is one breadth-first search backwards, for every budget at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.bits import Words, num_words
from pcgcd.automata.kernels.jit import compiled
from pcgcd.automata.lifting_tables import steps_to_accept
from pcgcd.errors import InvalidParameterError

__all__ = ["CACHE_BYTES", "MaskTable", "States", "mask", "masks", "plain_states"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
States: TypeAlias = "int | Sequence[int] | np.ndarray[Any, Any]"

_FOREVER = np.iinfo(np.int64).max
CACHE_BYTES = 64 << 20


def mask(
    fa: FiniteAutomaton, states: States, remaining: int | None = None, out: Words | None = None
) -> Words:
    """The tokens that may come next in a state, or in a set of states, (W,) packed.

    Args:
        fa: A token automaton.
        states: A state, or the states of one prefix.
        remaining: How many tokens may still come, this one included; None: any number.
        out: Where to write the result; otherwise it is read-only and may be shared.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=3,
    ...     vocab_size=2,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 1, [0]), (0, 2, [1]), (2, 1, [1])],
    ... )
    >>> mask(fa, 0), mask(fa, 0, remaining=1)
    (array([3], dtype=uint32), array([1], dtype=uint32))
    """
    return MaskTable.of(fa).mask(states, remaining, out)


def masks(
    fa: FiniteAutomaton,
    states: Sequence[States] | Array,
    remaining: int | Sequence[int | None] | None = None,
    out: Words | None = None,
) -> Words:
    """The masks of k prefixes in one call, (k, W) packed; see :func:`mask`."""
    return MaskTable.of(fa).masks(states, remaining, out)


class MaskTable:
    """A token automaton, indexed so that a mask takes microseconds.

    Labels with many tokens are kept as packed bits, the others as lists; each state has its edges
    in the order in which shrinking budgets forbid them.

    Attributes:
        vocab_size: The number of tokens V.
        num_words: The width W of a mask.
        distance: The least number of tokens from each state to acceptance, or -1, (S,).
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        self.vocab_size = fa.vocab_size
        self.num_words = num_words(fa.vocab_size)
        self.distance = steps_to_accept(fa.source, fa.target, fa.accepting_mask)
        need = np.where(self.distance >= 0, self.distance + 1, _FOREVER)[fa.target]
        useful = np.flatnonzero(need < _FOREVER)
        order = useful[np.lexsort((need[useful], fa.source[useful]))]
        need, label = need[order], fa.label[order]
        self._label, self._target, self._labels = label, fa.target[order], fa.labels
        self._first = np.searchsorted(fa.source[order], np.arange(fa.num_states + 1))
        row, self._dense, first, self._sparse = _split(
            fa.labels.label_class, fa.labels.token_class, self.num_words
        )
        # Of each edge: the budget it needs, its row of bits or -1, and the ends of its list.
        self._edges = np.stack([need, row[label], first[label], first[label + 1]], axis=1)
        # After its last needed token a state's mask no longer depends on the budget.
        last = np.maximum(self._first[1:] - 1, 0)
        has_edges = self._first[1:] > self._first[:-1]
        most = np.zeros(fa.num_states, dtype=np.int64)
        most[has_edges] = need[last[has_edges]]
        self._most: list[int] = most.tolist()
        self._needs: dict[int, list[int]] = {}
        self._cache: dict[tuple[Any, int], Words] = {}
        self._start = tuple(np.flatnonzero(fa.initial_mask & (self.distance >= 0)).tolist())

    _tables: ClassVar[WeakKeyDictionary[FiniteAutomaton, MaskTable]] = WeakKeyDictionary()

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> MaskTable:
        """The table of an automaton, made once."""
        table = cls._tables.get(fa)
        if table is None:
            table = cls._tables[fa] = cls(fa)
        return table

    def start(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""
        return self._start

    def mask(self, states: States, remaining: int | None = None, out: Words | None = None) -> Words:
        """See :func:`mask`."""
        members = plain_states(states)
        if isinstance(members, tuple) and len(members) == 1:
            members = members[0]
        try:
            if isinstance(members, int):
                most = self._most[members]
            else:
                most = max((self._most[state] for state in members), default=0)
        except IndexError:
            raise self._wrong_states(states) from None
        budget = most
        if remaining is not None and remaining < most:
            budget = self._threshold(members, remaining)
        key = (members, budget)
        words = self._cache.get(key)
        if words is None:
            if (members if isinstance(members, int) else min(members, default=0)) < 0:
                raise self._wrong_states(states)
            words = self._fill(members, budget)
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
        """See :func:`masks`."""
        if out is None:
            out = np.empty((len(states), self.num_words), dtype=np.uint32)
        if remaining is None or isinstance(remaining, int | np.integer):
            for row, members in enumerate(states):
                self.mask(plain_states(members), remaining, out[row])
        else:
            for row, (members, budget) in enumerate(zip(states, remaining, strict=True)):
                self.mask(plain_states(members), budget, out[row])
        return out

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""
        members = plain_states(states)
        if not 0 <= token < self.vocab_size:
            return ()
        column = self._labels.token_class[token]
        found: set[int] = set()
        for state in (members,) if isinstance(members, int) else members:
            for edge in range(self._first[state], self._first[state + 1]):
                if self._labels.label_class[self._label[edge], column]:
                    found.add(int(self._target[edge]))
        return tuple(sorted(found))

    def advance_all(
        self, states: Sequence[States] | Array, tokens: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """The states of k prefixes after one more token each."""
        return [
            self.advance(members, int(token)) for members, token in zip(states, tokens, strict=True)
        ]

    def _threshold(self, members: int | tuple[int, ...], remaining: int) -> int:
        """The smallest budget with the same mask."""
        result = 0
        for state in (members,) if isinstance(members, int) else members:
            needs = self._needs.get(state)
            if needs is None:
                needs = self._edges[self._first[state] : self._first[state + 1], 0].tolist()
                self._needs[state] = needs
            count = bisect_right(needs, remaining)
            if count:
                result = max(result, needs[count - 1])
        return result

    def _fill(self, states: int | tuple[int, ...], budget: int) -> Words:
        words = np.zeros(self.num_words, dtype=np.uint32)
        for state in (states,) if isinstance(states, int) else states:
            _fill_state(
                words,
                state,
                budget,
                self._first,
                self._edges,
                self._dense,
                self._sparse,
            )
        words.flags.writeable = False
        return words

    def _wrong_states(self, states: Any) -> InvalidParameterError:
        return InvalidParameterError(
            f"states must lie in 0..{len(self._most) - 1}, but {states} was given"
        )


def plain_states(states: States) -> int | tuple[int, ...]:
    """States as something that can be looked up."""
    if isinstance(states, int | tuple):
        return states
    return tuple(np.atleast_1d(np.asarray(states, dtype=np.int64)).tolist())


@compiled
def _split(label_class: Any, token_class: Any, width: Any) -> Any:
    """Labels with at least as many tokens as words as rows of bits, the others as lists."""
    num_labels, num_classes = label_class.shape
    vocab_size = len(token_class)
    class_first = np.zeros(num_classes + 1, dtype=np.int64)
    for token in range(vocab_size):
        class_first[token_class[token] + 1] += 1
    for c in range(num_classes):
        class_first[c + 1] += class_first[c]
    place = np.empty(num_classes, dtype=np.int64)
    for c in range(num_classes):
        place[c] = class_first[c]
    member = np.empty(vocab_size, dtype=np.int32)
    for token in range(vocab_size):
        c = token_class[token]
        member[place[c]] = token
        place[c] += 1
    row = np.empty(num_labels, dtype=np.int64)
    first = np.zeros(num_labels + 1, dtype=np.int64)
    num_dense = 0
    for label in range(num_labels):
        size = 0
        for c in range(num_classes):
            if label_class[label, c]:
                size += class_first[c + 1] - class_first[c]
        row[label] = -1
        first[label + 1] = first[label] + size
        if size >= width:
            row[label] = num_dense
            num_dense += 1
            first[label + 1] = first[label]
    dense = np.zeros((num_dense, width), dtype=np.uint32)
    sparse = np.empty(first[num_labels], dtype=np.int32)
    for label in range(num_labels):
        count = first[label]
        for c in range(num_classes):
            if label_class[label, c]:
                for i in range(class_first[c], class_first[c + 1]):
                    token = member[i]
                    if row[label] < 0:
                        sparse[count] = token
                        count += 1
                    else:
                        bit = np.uint32(1) << np.uint32(token & 31)
                        dense[row[label], token >> 5] |= bit
    return row, dense, first, sparse


@compiled
def _fill_state(
    words: Any, state: Any, budget: Any, first: Any, edges: Any, dense: Any, sparse: Any
) -> None:
    """Add the tokens that a state allows within a budget."""
    for edge in range(first[state], first[state + 1]):
        if edges[edge, 0] > budget:
            return
        row = edges[edge, 1]
        if row >= 0:
            for w in range(len(words)):
                words[w] |= dense[row, w]
        else:
            for i in range(edges[edge, 2], edges[edge, 3]):
                token = sparse[i]
                words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)

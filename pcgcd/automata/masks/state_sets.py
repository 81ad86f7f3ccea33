"""Prefixes as sets of states, and what all ways to their masks share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np

from pcgcd.automata.limits import NEVER
from pcgcd.automata.masks.bits import Words, num_words
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
States: TypeAlias = "int | Sequence[int] | np.ndarray[Any, Any]"

CACHE_BYTES = 64 << 20


def plain_states(states: Any) -> tuple[int, ...]:
    """The states of one prefix: from a state, several, or an indicator (of numpy or torch).

    >>> plain_states(3), plain_states([0, 2]), plain_states(np.array([True, False, True]))
    ((3,), (0, 2), (0, 2))
    """
    if isinstance(states, tuple):
        return states
    if isinstance(states, int):
        return (states,)
    array = np.atleast_1d(
        np.asarray(sorted(states) if isinstance(states, set | frozenset) else states)
    )
    found = np.flatnonzero(array) if array.dtype == np.bool_ else array.astype(np.int64)
    return tuple(found.tolist())


def flat_states(states: Sequence[Any] | Array) -> tuple[Array, Array]:
    """The states of k prefixes one after another, and where those of each begin, (k + 1,).

    >>> flat_states([(4,), (), (1, 2)])
    (array([4, 1, 2]), array([0, 1, 1, 3]))
    """
    if isinstance(states, np.ndarray):
        if states.dtype == np.bool_ and states.ndim == 2:
            return np.nonzero(states)[1], np.append(0, np.cumsum(states.sum(1)))
        if states.dtype != np.bool_ and states.ndim == 1:
            return states.astype(np.int64), np.arange(len(states) + 1)
    sets = states
    if set(map(type, states)) != {tuple}:
        sets = [plain_states(members) for members in states]
    starts = np.array([0, *accumulate(map(len, sets))], dtype=np.int64)
    return np.array([*chain.from_iterable(sets)], dtype=np.int64), starts


def flat_budgets(remaining: int | Sequence[int | None] | None, count: int) -> Array:
    """The budgets of k prefixes, (k,); without one, more than any text needs."""
    if remaining is None or isinstance(remaining, int | np.integer):
        return np.full(count, NEVER if remaining is None else min(remaining, NEVER))
    if len(remaining) != count:
        raise InvalidParameterError(
            f"remaining must be one budget, or one for each of the {count} prefixes, but there are "
            f"{len(remaining)}"
        )
    budgets = [NEVER if budget is None else min(int(budget), NEVER) for budget in remaining]
    return np.array(budgets, dtype=np.int64)


class PrefixMasks(ABC):
    """The tokens that may come next in a set of states, for one prefix or for many.

    Attributes:
        num_states: The number of states.
        vocab_size: The number of tokens V.
        num_words: The width W of a mask.
    """

    def __init__(self, num_states: int, vocab_size: int) -> None:
        self.num_states, self.vocab_size = num_states, vocab_size
        self.num_words = num_words(vocab_size)
        self._shape = (self.num_words,)
        self._cache: dict[tuple[tuple[int, ...], int], Words] = {}

    def mask(self, states: States, remaining: int | None = None, out: Words | None = None) -> Words:
        """The tokens that may come next, (W,) packed.

        Args:
            states: A state, or the states of one prefix.
            remaining: How many tokens may still come, this one included; None: any number.
            out: Where to write the result; otherwise it is read-only and may be shared.
        """
        members = states if type(states) is tuple else plain_states(states)
        budget = NEVER if remaining is None or remaining > NEVER else remaining
        if out is not None:
            if out.shape != self._shape:
                raise _wrong_room(out, self._shape)
            self._write(out, members, budget)
            return out
        key = (members, self._threshold(members, budget))
        words = self._cache.get(key)
        if words is None:
            words = np.empty(self.num_words, dtype=np.uint32)
            self._write(words, members, budget)
            words.flags.writeable = False
            if len(self._cache) * words.nbytes > CACHE_BYTES:
                self._cache.clear()
            self._cache[key] = words
        return words

    def masks(
        self,
        states: Sequence[States] | Array,
        remaining: int | Sequence[int | None] | None = None,
        out: Words | None = None,
    ) -> Words:
        """The masks of k prefixes in one call, (k, W) packed."""
        if out is None:
            out = np.empty((len(states), self.num_words), dtype=np.uint32)
        elif out.shape != (len(states), self.num_words):
            raise _wrong_room(out, (len(states), self.num_words))
        self._write_all(out, *flat_states(states), flat_budgets(remaining, len(states)))
        return out

    @abstractmethod
    def start(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""

    @abstractmethod
    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""

    def advance_all(
        self, states: Sequence[States] | Array, tokens: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """The states of k prefixes after one more token each."""
        return [
            self.advance(members, int(token)) for members, token in zip(states, tokens, strict=True)
        ]

    @abstractmethod
    def _threshold(self, members: tuple[int, ...], budget: int) -> int:
        """A number that is the same only for budgets with the same mask."""

    @abstractmethod
    def _write(self, out: Words, members: tuple[int, ...], budget: int) -> None:
        """Write the mask of one prefix."""

    @abstractmethod
    def _write_all(self, out: Words, members: Array, first: Array, budgets: Array) -> None:
        """Write the masks of several prefixes, (k, W)."""

    def _check_token(self, token: int) -> None:
        if not 0 <= token < self.vocab_size:
            raise VocabularyMismatchError(
                f"tokens must lie in 0..{self.vocab_size - 1}, but {token} was given; was it made "
                f"for another vocabulary?"
            )

    def _wrong_states(self, states: Any) -> InvalidParameterError:
        return InvalidParameterError(
            f"states must lie in 0..{self.num_states - 1}, but {states} was given"
        )


def _wrong_room(out: Words, shape: tuple[int, ...]) -> VocabularyMismatchError:
    return VocabularyMismatchError(
        f"these masks have shape {shape}, but the array for them has {out.shape}; was it made for "
        f"another vocabulary?"
    )

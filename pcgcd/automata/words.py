"""The words of an automaton: the shortest, all in order, how many, and one at random."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, chain, count, islice
from typing import Any, TypeAlias

import numpy as np
import torch

from pcgcd.automata.algebra import determinize
from pcgcd.automata.arrays import Mask, indicator
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.graphs import Graph
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.running import Runner
from pcgcd.automata.weights import language_only
from pcgcd.errors import EmptyLanguageError, InvalidParameterError

Word: TypeAlias = "tuple[int, ...]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"


def shortest_word(fa: FiniteAutomaton) -> Word | None:
    """Find the first of the shortest words, in token order; None if there is no word at all."""
    if fa.is_empty():
        return None
    return next(_words_of_length(fa, int(fa.distance_to_accept[fa.initial_mask].min())))


def enumerate_words(
    fa: FiniteAutomaton, max_length: int | None = None, limit: int | None = None
) -> Iterator[Word]:
    """Yield the words, each once: by length, then in token order.

    Args:
        fa: The automaton.
        max_length: The greatest length; None: there is none, and an infinite language never ends.
        limit: After how many words to stop.
    """
    bounds = [bound for bound in (max_length, _longest_length(fa)) if bound is not None]
    lengths = range(min(bounds) + 1) if bounds else count()
    found = chain.from_iterable(_words_of_length(fa, length) for length in lengths)
    return islice(found, None if limit is None else max(limit, 0))


def _longest_length(fa: FiniteAutomaton) -> int | None:
    """The length of the longest word, -1 if there is none; None if there is no longest."""
    graph = Graph.of(fa).trimmed()
    if not graph.accepting.any():
        return -1
    alive, length = graph.accepting, 0
    while length < graph.num_states:
        before = indicator(graph.source[alive[graph.target]], graph.num_states)
        if not before.any():
            return length
        alive, length = before, length + 1
    return None


def _words_of_length(fa: FiniteAutomaton, length: int) -> Iterator[Word]:
    runner = Runner(fa)
    alive: list[Mask] = [fa.accepting_mask]  # alive[k]: the states with a word of length k
    for _ in range(length):
        alive.append(indicator(fa.source[alive[-1][fa.target]], fa.num_states))
    if not alive[length][runner.members[0]].any():
        return
    token_class = fa.labels.token_class

    @cache
    def tokens(current: int) -> list[int]:
        found: list[int] = np.flatnonzero(np.isin(token_class, runner.classes(current))).tolist()
        return found

    if not length:
        yield ()
        return
    word: list[int] = []
    sets = [0]
    choices = [iter(tokens(0))]
    while choices:
        token = next(choices[-1], None)
        if token is None:
            choices.pop()
            sets.pop()
            if word:
                word.pop()
            continue
        following = runner.step(sets[-1], int(token_class[token]))
        left = length - len(sets)
        if not alive[left][runner.members[following]].any():
            continue
        if not left:
            yield (*word, token)
            continue
        word.append(token)
        sets.append(following)
        choices.append(iter(tokens(following)))


# -- counting ---------------------------------------------------------------------------------


class _Counter:
    """How many words of each length lead from each state of a deterministic automaton."""

    def __init__(self, fa: FiniteAutomaton, state_limit: int) -> None:
        language_only("counting words", fa)
        fa = fa if fa.is_deterministic else determinize(fa, state_limit=state_limit)
        self.labels = fa.labels
        self.offsets, self.target, self.label = Graph.of(fa).adjacency()
        sizes = np.bincount(fa.labels.token_class, minlength=fa.labels.num_classes)
        self.choices = (fa.labels.label_class @ sizes)[self.label].astype(object)
        self.start = int(np.flatnonzero(fa.initial_mask)[0])
        self.counts: list[Counts] = [fa.accepting_mask.astype(np.int64).astype(object)]

    def more(self, counts: Counts) -> Counts:
        """The counts for words that are longer by one."""
        new: Counts = np.zeros_like(counts)
        if len(self.target):
            leaving = np.flatnonzero(np.diff(self.offsets))
            terms = self.choices * counts[self.target]
            new[leaving] = np.add.reduceat(terms, self.offsets[leaving])
        return new

    def words(self, length: int) -> int:
        """The number of words of a length; the counts for all states are kept."""
        while len(self.counts) <= length:
            self.counts.append(self.more(self.counts[-1]))
        return int(self.counts[length][self.start])

    def word(self, length: int, index: int) -> Word:
        """The word of a length with a number from 0 on."""
        word: list[int] = []
        state = self.start
        for left in range(length - 1, -1, -1):
            for e in range(self.offsets[state], self.offsets[state + 1]):
                after = int(self.counts[left][self.target[e]])
                block = int(self.choices[e]) * after
                if index < block:
                    break
                index -= block
            tokens = self.labels.tokens(self.label[e])
            word.append(int(tokens[index // after]))
            index %= after
            state = int(self.target[e])
        return tuple(word)


def count_words(fa: FiniteAutomaton, length: int, *, state_limit: int = STATE_LIMIT) -> int:
    """Count the different words of a length, exactly."""
    _check_length("length", length)
    counter = _Counter(fa, state_limit)
    counts = counter.counts[0]
    for _ in range(length):
        counts = counter.more(counts)
    return int(counts[counter.start])


def random_word(
    fa: FiniteAutomaton,
    *,
    length: int | None = None,
    max_length: int | None = None,
    generator: torch.Generator | int,
    state_limit: int = STATE_LIMIT,
) -> Word:
    """Draw a word; all words of the length, or up to the greatest length, are equally likely.

    Args:
        fa: The automaton.
        length: The length of the word.
        max_length: Or the greatest length.
        generator: Where randomness comes from, or a seed.
        state_limit: How many states the deterministic automaton may have.

    Raises:
        EmptyLanguageError: There is no such word.
    """
    if (length is None) == (max_length is None):
        raise InvalidParameterError("give length or max_length, one of the two")
    if length is not None:
        lengths = [_check_length("length", length)]
    else:
        lengths = list(range(_check_length("max_length", max_length or 0) + 1))
    counter = _Counter(fa, state_limit)
    numbers = [counter.words(n) for n in lengths]
    total = sum(numbers)
    if not total:
        shortest = shortest_word(fa)
        advice = "it accepts no word at all, so its constraints contradict each other"
        if shortest is not None:
            advice = f"its shortest word has length {len(shortest)}"
        raise EmptyLanguageError(
            f"the automaton accepts no word of length {'' if length is not None else '0 to '}"
            f"{lengths[-1]}; {advice}",
            length=lengths[-1],
            shortest_length=None if shortest is None else len(shortest),
        )
    index = _below(total, generator)
    ends = list(accumulate(numbers))
    which = bisect_right(ends, index)
    return counter.word(lengths[which], index - ends[which] + numbers[which])


def _below(total: int, generator: torch.Generator | int) -> int:
    """A uniform integer in 0..total-1, by rejection."""
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    chunks = -(-total.bit_length() // 32)
    surplus = 32 * chunks - total.bit_length()
    while True:
        value = 0
        for part in torch.randint(
            2**32, (chunks,), generator=generator, device=generator.device
        ).tolist():
            value = value << 32 | part
        if value >> surplus < total:
            return value >> surplus


def _check_length(name: str, length: int) -> int:
    if length < 0:
        raise InvalidParameterError(f"{name} must not be negative, but it is {length}")
    return length

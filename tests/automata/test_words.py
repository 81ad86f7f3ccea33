"""Words: in order, counted, at random, shortest; against all words written out."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import FiniteAutomaton
from pcgcd.automata.limits import NEVER
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError
from tests.automata.languages import LENGTH, VOCAB_SIZE, WORDS, automata, language
from tests.automata.test_algebra import chain, last_but

common = settings(max_examples=100, deadline=None)


@common
@given(fa=automata())
def test_accepts_is_the_language(fa: FiniteAutomaton) -> None:
    assert {word for word in WORDS if fa.accepts(word)} == language(fa)
    assert not fa.accepts([VOCAB_SIZE])
    assert not fa.accepts([-1])


def test_accepts_reads_bytes_lists_and_tensors() -> None:
    fa = chain(set(b"ab"), set(b"c"), vocab_size=256)
    assert fa.accepts(b"ac")
    assert fa.accepts(bytearray(b"bc"))
    assert fa.accepts([97, 99])
    assert fa.accepts(torch.tensor([98, 99]))
    assert not fa.accepts(b"")
    assert not fa.accepts(b"acc")


@common
@given(fa=automata(), limit=st.none() | st.integers(0, 10))
def test_words_come_once_by_length_and_token(fa: FiniteAutomaton, limit: int | None) -> None:
    expected = sorted(language(fa), key=lambda word: (len(word), word))[:limit]
    assert list(fa.enumerate_words(LENGTH, limit)) == expected


def test_a_finite_language_ends_without_a_length() -> None:
    fa = chain({0, 1}, {2}).union(chain({2}))
    assert list(fa.enumerate_words()) == [(2,), (0, 2), (1, 2)]
    assert list(fa.intersection(chain({0})).enumerate_words()) == []
    endless = fa.star().enumerate_words()
    assert [next(endless) for _ in range(3)] == [(), (2,), (0, 2)]


def test_words_far_away_are_found_without_trying_all_others() -> None:
    wide = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=50,
        initial=0,
        accepting=[2],
        edges=[(0, 0, range(50)), (0, 1, [7]), (1, 2, [8])],
    )
    needle = wide.intersection(chain(*[{0}] * 38, {7}, {8}, vocab_size=50))
    assert list(needle.enumerate_words(60)) == [(*[0] * 38, 7, 8)]


@common
@given(fa=automata())
def test_counts_are_the_numbers_of_different_words(fa: FiniteAutomaton) -> None:
    lengths = Counter(len(word) for word in language(fa))
    assert [fa.count_words(n) for n in range(LENGTH + 1)] == [lengths[n] for n in range(LENGTH + 1)]


def test_counts_are_exact_beyond_machine_numbers() -> None:
    everything = chain(set(range(200)), vocab_size=256).star()
    assert everything.count_words(100) == 200**100
    assert last_but(10).count_words(300) == 2**299


@common
@given(fa=automata(), seed=st.integers(0, 2**30))
def test_a_random_word_is_a_word(fa: FiniteAutomaton, seed: int) -> None:
    if fa.is_empty() or not language(fa):
        return
    word = fa.random_word(max_length=LENGTH, generator=seed)
    assert word in language(fa)
    assert fa.random_word(max_length=LENGTH, generator=seed) == word
    assert len(fa.random_word(length=len(word), generator=seed)) == len(word)


def test_random_words_are_uniform_also_where_words_have_several_paths() -> None:
    one_path, two_paths = chain({0}, {0, 1, 2}), chain({1})
    fa = algebra_union(one_path, two_paths, two_paths)
    generator = torch.Generator().manual_seed(0)
    draws = Counter(fa.random_word(max_length=3, generator=generator) for _ in range(4000))
    assert set(draws) == {(1,), (0, 0), (0, 1), (0, 2)}
    # 1000 expected of each; the standard deviation is 27.
    assert all(abs(number - 1000) < 5 * 27.4 for number in draws.values())


def algebra_union(*parts: FiniteAutomaton) -> FiniteAutomaton:
    """A union that keeps its ambiguity."""
    return parts[0].union(*parts[1:])


def test_a_long_random_word() -> None:
    fa = last_but(5)
    word = fa.random_word(length=400, generator=3)
    assert len(word) == 400
    assert fa.accepts(word)


@common
@given(fa=automata())
def test_the_shortest_word_is_the_first(fa: FiniteAutomaton) -> None:
    first = next(fa.enumerate_words(fa.num_states), None)
    assert fa.shortest_word() == first
    nonempty = [len(word) for word in fa.enumerate_words(fa.num_states + 1) if word]
    assert fa.shortest_length() == (min(nonempty) if nonempty else None)


@common
@given(fa=automata())
def test_distances_are_those_of_the_shortest_words(fa: FiniteAutomaton) -> None:
    for state in range(fa.num_states):
        alone = FiniteAutomaton.from_edges(
            num_states=fa.num_states,
            vocab_size=fa.vocab_size,
            initial=state,
            accepting=[s for s in range(fa.num_states) if fa.accepting_mask[s]],
            edges=[
                (s, t, fa.labels.tokens(label))
                for s, t, label in zip(fa.source, fa.target, fa.label)
            ],
        )
        lengths = [len(word) for word in language(alone)]  # S <= LENGTH: the shortest is there
        expected = min(lengths) if lengths else NEVER
        assert fa.distance_to_accept[state] == expected


def test_what_cannot_be_drawn_gets_a_clear_error() -> None:
    fa = chain({0}, {1}, {2})
    with pytest.raises(EmptyLanguageError, match="shortest word has length 3") as error:
        fa.random_word(length=2, generator=0)
    assert (error.value.length, error.value.shortest_length) == (2, 3)
    with pytest.raises(EmptyLanguageError, match="contradict each other"):
        fa.intersection(chain({0})).random_word(max_length=5, generator=0)
    with pytest.raises(InvalidParameterError, match="one of the two"):
        fa.random_word(generator=0)
    with pytest.raises(InvalidParameterError, match="must not be negative"):
        fa.count_words(-1)
    with pytest.raises(AutomatonTooLargeError):
        last_but(40).count_words(50, state_limit=1000)

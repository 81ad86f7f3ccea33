"""Preferences: against weights written down for every short text."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import FiniteAutomaton
from pcgcd.automata import Vocabulary, compile_expression, length_preference, lift, preferring
from pcgcd.automata import expressions as ex
from pcgcd.errors import (
    AutomatonTooLargeError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from tests.automata.languages import WORDS, automata, language
from tests.automata.test_algebra import chain, last_but

VOCABULARY = Vocabulary.from_bytes([b"a", b"b", b"ab", None, None], eos_ids=[3, 4])


def weight(fa: FiniteAutomaton, word: tuple[int, ...]) -> float:
    return math.exp(fa.log_weight(word))


@pytest.mark.parametrize("factor", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("ends", [(), (3,), (0, 3)])
def test_a_length_preference_weighs_the_tokens_before_the_end(
    factor: float, ends: tuple[int, ...]
) -> None:
    fa = length_preference(4, factor, eos_ids=ends)
    for length in range(5):
        for word in itertools.product(range(4), repeat=length):
            text = list(itertools.takewhile(lambda token: token not in ends, word))
            over = all(token in ends for token in word[len(text) :])
            assert weight(fa, word) == pytest.approx(factor ** len(text) if over else 0.0)
    assert fa.is_weighted
    assert fa.is_deterministic


def test_a_length_preference_knows_the_ends_of_a_vocabulary() -> None:
    fa = length_preference(VOCABULARY, 0.5)
    assert fa.vocab_size == 5
    assert weight(fa, (0, 1, 2, 3, 4)) == pytest.approx(0.125)
    assert weight(fa, (0, 3, 1)) == 0.0


@settings(max_examples=60, deadline=None)
@given(automata(), automata(), st.sampled_from([0.25, 1.0, 7.0]))
def test_preferred_texts_weigh_more_whatever_their_paths(
    allowed: FiniteAutomaton, preferred: FiniteAutomaton, factor: float
) -> None:
    fa = preferring(allowed, preferred, factor)
    may, liked = language(allowed), language(preferred)
    for word in WORDS:
        if word:  # a weight is paid with the first token
            expected = 0.0 if word not in may else factor if word in liked else 1.0
            assert weight(fa, word) == pytest.approx(expected), word
    assert fa.is_unambiguous


def test_preferred_texts_keep_their_padding() -> None:
    def lifted(expression: ex.Expression) -> FiniteAutomaton:
        return lift(compile_expression(expression), VOCABULARY)

    letters = ex.repeat(ex.byte_set(b"ab"), 0, None)
    fa = preferring(lifted(letters), lifted(ex.concatenation(letters, ex.literal("b"))), 5.0)
    text = {0: "a", 1: "b", 2: "ab"}
    for length in range(1, 5):
        for word in itertools.product(range(5), repeat=length):
            inside = list(itertools.takewhile(lambda token: token < 3, word))
            spelled = "".join(text[token] for token in inside)
            padded = all(token >= 3 for token in word[len(inside) :])
            expected = 0.0 if not padded else 5.0 if spelled.endswith("b") else 1.0
            assert weight(fa, word) == pytest.approx(expected), word


def test_preferences_with_mistakes() -> None:
    fa = chain({0}, {1})
    for wrong, message in ((0.0, "above zero"), (-1.0, "not negative"), (math.nan, "finite")):
        with pytest.raises(InvalidParameterError, match=message):
            preferring(fa, fa, wrong)
        with pytest.raises(InvalidParameterError, match=message):
            length_preference(4, wrong)
    with pytest.raises(VocabularyMismatchError, match="tokens must lie in"):
        length_preference(4, 2.0, eos_ids=[4])
    with pytest.raises(InvalidParameterError, match=r"preferring .* lose the weights"):
        preferring(fa, preferring(fa, fa, 2.0), 2.0)
    with pytest.raises(VocabularyMismatchError, match="one vocabulary"):
        preferring(fa, last_but(2), 2.0)
    with pytest.raises(AutomatonTooLargeError, match="over the limit of 3"):
        preferring(last_but(4), last_but(4), 2.0, state_limit=3)

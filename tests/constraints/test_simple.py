"""Small constraints, against what Python says about strings."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import HMM, Vocabulary
from pcgcd.constraints import Constraint, any_text, choice, length, literal, not_containing, regex
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError

SMALL = "abAé😀"
TEXTS = ["".join(letters) for n in range(4) for letters in product("abé", repeat=n)]


@given(st.text(max_size=8), st.text(max_size=8))
@settings(max_examples=100)
def test_a_literal_is_itself_only(text: str, other: str) -> None:
    assert literal(text).matches(text)
    assert literal(text).matches(other) == (text == other)


@given(st.lists(st.text(SMALL, max_size=3), min_size=1, max_size=6), st.text(SMALL, max_size=3))
@settings(max_examples=100)
def test_a_choice_is_membership(options: list[str], text: str) -> None:
    assert choice(options).matches(text) == (text in options)


def test_a_choice_takes_constraints_too() -> None:
    constraint = choice(["x", regex("a+"), literal("b") + "c"])
    assert [constraint.matches(text) for text in ("x", "aaa", "bc", "b", "")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@given(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 4)), st.text(max_size=9))
@settings(max_examples=100)
def test_any_text_and_length_count_characters(least: int, extra: int | None, text: str) -> None:
    most = None if extra is None else least + extra
    wanted = least <= len(text) <= (len(text) if most is None else most)
    assert any_text(least, most).matches(text) == wanted
    assert length(least, most).matches(text) == wanted


@given(st.integers(0, 12), st.integers(0, 12), st.text(max_size=9))
@settings(max_examples=100)
def test_length_counts_bytes(least: int, extra: int, text: str) -> None:
    wanted = least <= len(text.encode()) <= least + extra
    assert length(least, least + extra, unit="bytes").matches(text) == wanted


def test_a_choice_may_have_more_states() -> None:
    words = [f"{number:04}" for number in range(500)]
    with pytest.raises(AutomatonTooLargeError, match="larger state_limit"):
        choice(words, state_limit=100).matches("0000")
    assert choice(words, state_limit=5000).state_limit == 5000
    assert choice(words, state_limit=5000).matches("0499")
    assert not choice(words, state_limit=5000).matches("0500")
    large = Constraint(literal("a").expression, state_limit=10**6)
    assert choice(["b", large]).state_limit == 10**6
    assert choice(["b", large], state_limit=9).state_limit == 9
    small = Constraint(literal("a").expression, state_limit=9)
    assert choice(["b" * 99, small]).matches("b" * 99)
    for wrong in (0, "x", 2.5):
        with pytest.raises(InvalidParameterError, match="state_limit must be"):
            choice(words, state_limit=wrong)  # type: ignore[arg-type]


def test_any_text_is_valid_utf8() -> None:
    for constraint in (any_text(), length(0), length(0, unit="bytes"), not_containing("a")):
        for data in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80"):
            assert not constraint.matches(data)


def test_any_text_keeps_to_its_alphabet() -> None:
    constraint = any_text(1, 2, alphabet="aé")
    for text in TEXTS:
        assert constraint.matches(text) == (1 <= len(text) <= 2 and "b" not in text)


@given(
    st.lists(st.text("abé", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.text("abé", max_size=10), min_size=1, max_size=5),
)
@settings(max_examples=150)
def test_not_containing_is_not_in(forbidden: list[str], texts: list[str]) -> None:
    constraint = not_containing(*forbidden)
    for text in (*texts, "a".join(forbidden)):
        assert constraint.matches(text) == (not any(word in text for word in forbidden))


@given(st.text("aAkK\u212aſsß.", min_size=1, max_size=3), st.text("aAkK\u212aſsS.ßẞb", max_size=8))
@settings(max_examples=150)
def test_not_containing_in_any_case_is_not_found_by_search(forbidden: str, text: str) -> None:
    found = re.search(re.escape(forbidden), text, re.IGNORECASE) is not None
    assert not_containing(forbidden, ignore_case=True).matches(text) == (not found)


def test_they_compose() -> None:
    constraint = regex("[a-z ]*") & not_containing("bad", "worse") & length(3, 8)
    assert constraint.matches("good day")
    assert not constraint.matches("bad day")
    assert not constraint.matches("ok")


@pytest.mark.parametrize(
    "make",
    [
        lambda: literal(b"a"),
        lambda: literal("\ud800"),
        lambda: choice([]),
        lambda: choice("abc"),
        lambda: choice(3),
        lambda: choice([1]),
        lambda: any_text(-1),
        lambda: any_text(3, 2),
        lambda: any_text(1.5),
        lambda: any_text(True),
        lambda: any_text(alphabet=""),
        lambda: any_text(alphabet=5),
        lambda: not_containing(),
        lambda: not_containing("a", ""),
        lambda: not_containing(None),
        lambda: length(0, 3, unit="words"),
        lambda: length("a"),
    ],
)
def test_wrong_arguments_are_named(make: object) -> None:
    with pytest.raises(InvalidParameterError, match=r"\w"):
        make()  # type: ignore[operator]


def test_a_constraint_is_compiled_before_it_is_multiplied() -> None:
    hmm = HMM([1.0], [[1.0]], [[0.5, 0.25, 0.25]])
    for multiply in (lambda c: hmm * c, lambda c: c * hmm, lambda c: hmm.unroll(2) * c):
        with pytest.raises(InvalidParameterError, match=r"regex\('a'\).*\.compile\(lm\.vocab"):
            multiply(regex("a"))
    vocabulary = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
    constrained = hmm * regex("a").compile(vocabulary)
    assert constrained.log_partition(2).exp().item() == pytest.approx(0.125)


def test_a_vocabulary_that_spells_no_text_of_the_constraint_is_an_error() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", None], eos_ids=1)
    with pytest.raises(EmptyLanguageError, match="can be spelled with the tokens"):
        regex("é").compile(vocabulary)
    assert regex("é|a").compile(vocabulary).shortest_length() is not None

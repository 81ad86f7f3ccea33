"""Regular expressions mean what Python's re means by them."""

from __future__ import annotations

import re
import string
import sys
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata.expressions.utf8 import character_set, normalise_ranges
from pcgcd.constraints import regex
from pcgcd.constraints.regex.ecma_syntax import parse_ecma
from pcgcd.constraints.regex.python_syntax import MAX_DEPTH, MAX_LENGTH, parse_python
from pcgcd.constraints.regex.unicode_classes import category
from pcgcd.errors import (
    AutomatonTooLargeError,
    InvalidParameterError,
    PcgcdError,
    UnsupportedConstraintError,
)
from tests.automata.derivatives import matches

CHARACTERS = "aAbkKsSiI\u212aſßẞéÉ\n 1_-.İıβς٣Ⓐ\u0345😀"
# A pattern and a text that it may match.
LEAVES = [
    *[(re.escape(character), character) for character in CHARACTERS],
    (".", "b"),
    (".", "\n"),
    (r"\w", "é"),
    (r"\W", "-"),
    (r"\d", "٣"),
    (r"\D", "a"),
    (r"\s", "\n"),
    (r"\S", "k"),
    ("[ab]", "b"),
    ("[^a]", "\n"),
    ("[a-k]", "K"),
    ("[^\\w]", " "),
    ("[\\W_]", "_"),
    ("[i-ſ]", "k"),
    ("[^\u212a]", "k"),
    (r"\n", "\n"),
    (r"\x41", "A"),
    (r"\u00e9", "é"),
    (r"\U0001F600", "😀"),
    (r"\N{GREEK SMALL LETTER BETA}", "β"),
    (r"\101", "A"),
    ("(?#no)", ""),
    ("", ""),
]
ASSERTIONS = [("^", ""), ("$", ""), (r"\A", ""), (r"\Z", ""), (r"\b", ""), (r"\B", "")]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
FLAGS = [0, re.I, re.S, re.M, re.A, re.I | re.A, re.M | re.I, re.S | re.M]


def joined(pairs: list[tuple[str, str]]) -> tuple[str, str]:
    return "".join(pattern for pattern, _ in pairs), "".join(text for _, text in pairs)


def repeated(pair: tuple[str, str], repeat: str, count: int) -> tuple[str, str]:
    return f"(?:{pair[0]}){repeat}", pair[1] * count


def grown(
    inner: st.SearchStrategy[tuple[str, str]],
) -> st.SearchStrategy[tuple[str, str]]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(joined),
        st.tuples(inner, inner).map(lambda two: (f"(?:{two[0][0]}|{two[1][0]})", two[1][1])),
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}|{two[1][0]}|)", two[0][1])),
        st.builds(repeated, inner, st.sampled_from(REPEATS), st.integers(0, 3)),
        st.tuples(inner, st.sampled_from(["i", "s", "m", "-i", "a", "im-s", "u"])).map(
            lambda two: (f"(?{two[1]}:{two[0][0]})", two[0][1].swapcase())
        ),
    )


LEAF = st.one_of(st.sampled_from(LEAVES), st.sampled_from(LEAVES), st.sampled_from(ASSERTIONS))
PATTERNS = st.recursive(LEAF, grown, max_leaves=8)


def expected(pattern: str, flags: int, text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.fullmatch(pattern, text, flags) is not None


@given(
    pair=PATTERNS,
    flags=st.sampled_from(FLAGS),
    others=st.lists(st.text(CHARACTERS, max_size=5), max_size=4),
    extra=st.sampled_from(CHARACTERS),
    place=st.integers(0, 6),
)
@settings(max_examples=600)
def test_regex_equals_fullmatch(
    pair: tuple[str, str], flags: int, others: list[str], extra: str, place: int
) -> None:
    pattern, near = pair
    near = near[:10]
    try:
        re.compile(pattern, flags)
    except re.error:
        with pytest.raises(InvalidParameterError):
            regex(pattern, flags)
        return
    constraint = regex(pattern, flags)
    with_extra = near[:place] + extra + near[place:]
    cut = near[:place] + near[place + 1 :]
    for text in {near, with_extra, cut, near.swapcase(), near + "\n", "\n" + near, "", *others}:
        assert constraint.matches(text) == expected(pattern, flags, text), text


@given(st.text("ab01(?:)P<>=!#[]^-\\dwbAZnxuN{}*+?|.$,i& \n", max_size=12), st.sampled_from(FLAGS))
@settings(max_examples=600)
def test_what_is_broken_for_re_is_broken_here(pattern: str, flags: int) -> None:
    broken = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern, flags)
    except (re.error, OverflowError, ValueError) as error:
        broken = error
    try:
        regex(pattern, flags)
        found: PcgcdError | None = None
    except PcgcdError as error:
        found = error
    if isinstance(found, UnsupportedConstraintError):
        assert re.search(r"\(\?[=!<P>(]|\\\d|[*+?}]\+", pattern)
    else:
        assert (found is None) == (broken is None)
        if isinstance(broken, re.error) and broken.pos is not None:
            assert f"position {broken.pos}" in str(found)


needs_3_11 = pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")


@pytest.mark.parametrize(
    ("pattern", "what", "position"),
    [
        ("ab(?=c)", "look-ahead", 2),
        ("a(?!)", "negative look-ahead", 1),
        ("[(?=]x(?!a)", "negative look-ahead", 6),
        ("(?<=a)b", "look-behind", 0),
        (r"\(?(?<!a)b", "negative look-behind", 3),
        (r"(a)\1", "back-reference", 3),
        (r"\060(a)[\1]\1", "back-reference", 11),
        (r"(?P<n>a)-(?P=n)", "back-reference", 9),
        (r"(a)?(?(1)b|c)", "conditional", 4),
        pytest.param("a++", "possessive", 1, marks=needs_3_11),
        pytest.param("a+?b{2,3}+", "possessive", 4, marks=needs_3_11),
        pytest.param("x(?>ab)", "atomic", 1, marks=needs_3_11),
        ("(?x) # (?=a)\n b (?!c)", "negative look-ahead", 16),
        ("(?x: # (?=\n) (?-x: #(?=a) )", "look-ahead", 20),
        ("(?#(?=)a(?=b)", "look-ahead", 8),
    ],
)
def test_what_is_not_regular_is_named_with_its_position(
    pattern: str, what: str, position: int
) -> None:
    re.compile(pattern)
    with pytest.raises(UnsupportedConstraintError, match=what) as caught:
        regex(pattern)
    assert f"at position {position} " in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "a**", "*a", "(?P<n>a", r"\N{no such name}", "(?z)", "a{3,2}", "[z-a]", r"\8"],
)
def test_broken_patterns_say_where(pattern: str) -> None:
    with pytest.raises(re.error) as theirs:
        re.compile(pattern)
    with pytest.raises(InvalidParameterError, match=f"at position {theirs.value.pos}"):
        regex(pattern)


def test_patterns_are_texts() -> None:
    with pytest.raises(InvalidParameterError, match="bytes"):
        regex(b"a")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="LOCALE"):
        regex("a", re.LOCALE)
    with pytest.raises(InvalidParameterError, match="incompatible"):
        regex("a", re.ASCII | re.UNICODE)


def test_the_debug_flag_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    regex("a|b", re.DEBUG)
    assert capsys.readouterr().out == ""


TEXTS = [
    "",
    "\n",
    "a",
    "a\n",
    "a\n\n",
    "\na",
    "a\nb",
    "b",
    " a",
    "a b",
    "ab",
    "éa",
    "a é",
    "a\nb\n",
]


@pytest.mark.parametrize("flags", [0, re.M, re.A])
@pytest.mark.parametrize(
    "pattern",
    [
        "^a$",
        r"\Aa\Z",
        "a$\n?",
        "a$\n*",
        "a$\n+$",
        "^$",
        "(?:^)*a(?:$)*",
        "(^a$\n?b?)*",
        "(?:^|b)a",
        r"\ba\b.*",
        r"\b.*\b",
        r"\B.*\B",
        r"\B",
        r"\b",
        r"(?:\b\w+\b\W?)*",
        r"(?s).*\ba\b.*",
        r".*a\B.*\n?",
        r"(?:a|\b|\n)*",
        r"\w+(?a:\b).*",
        "(?m:^a|b$)\n?b?",
        "a(?:$|b)\n",
        "(?:a$)?\n",
        "(a?$\n){2}",
        "a^b|a$b|ab",
    ],
)
def test_anchors_and_boundaries_hold_where_re_says(pattern: str, flags: int) -> None:
    constraint = regex(pattern, flags)
    for text in TEXTS:
        assert constraint.matches(text) == expected(pattern, flags, text), text


def test_anchors_at_the_ends_cost_nothing() -> None:
    assert regex(r"^\babc\b$").expression == regex("abc").expression


@pytest.mark.parametrize(
    "pattern",
    [
        "^a|b",
        "(ab|[c-e]*?)+",
        r"[^\n\x41\u00e9-]{2,}?",
        "(?:a?){3}b{1,2}b{2}",
        r"\Aa{\t}|\.",
        "[]a-c]|[\\]]",
    ],
)
def test_what_two_syntaxes_share_is_one_tree(pattern: str) -> None:
    ecma = pattern.replace("[]", "[\\]")
    assert parse_python(pattern) == parse_ecma(ecma)


def test_a_comment_ends_where_re_says() -> None:
    for pattern in (r"a(?#b\)c)d", "(?x)a # b\\\nc\nd", "(?x: a\t# (\n)+", "(?x) a (?#b) {2}"):
        for text in ("ad", "acd", "a", "aa", "aaa", "a{2}", ""):
            assert regex(pattern).matches(text) == expected(pattern, 0, text), (pattern, text)


# -- characters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "test", "in_ascii"),
    [
        ("w", lambda c: c.isalnum() or c == "_", string.ascii_letters + string.digits + "_"),
        ("d", str.isdecimal, string.digits),
        ("s", str.isspace, string.whitespace),
    ],
)
def test_classes_follow_the_unicode_database(
    letter: str, test: Callable[[str], bool], in_ascii: str
) -> None:
    assert category(letter) == normalise_ranges((c, c) for c in range(0x110000) if test(chr(c)))
    assert category(letter, ascii_only=True) == normalise_ranges((ord(c), ord(c)) for c in in_ascii)


CASES = "iIİıſsSkK\u212aåÅ\u212bßẞµμΜςσΣʼnǰΐᾳᾼ\u0345ιΙ\u1fbeﬅﬆΩ\u2126ǅǄǆꭰᏰⓐⒶ𐐀𐐨Ა"


def test_ignoring_case_is_pythons() -> None:
    for flags in (re.I, re.I | re.A):
        for character in CASES:
            for pattern in (character, f"[^{character}]", f"[{character}-{character}]"):
                expression = regex(pattern, flags).expression
                for other in CASES:
                    found = matches(expression, other.encode())
                    assert found == expected(pattern, flags, other), (pattern, other)


RANGES = st.lists(
    st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 0x3000)).map(
        lambda pair: (pair[0], min(pair[0] + pair[1], 0x10FFFF))
    ),
    max_size=4,
)


@given(RANGES, st.lists(st.integers(0, 0x10FFFF), max_size=5))
@settings(max_examples=100)
def test_character_sets_are_their_utf8(ranges: list[tuple[int, int]], others: list[int]) -> None:
    members = normalise_ranges(ranges)
    expression = character_set(ranges)
    edges = [place + shift for pair in members for place in pair for shift in (-1, 0, 1)]
    for code in (*edges, *others, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0xD800, 0xDFFF):
        if 0 <= code <= 0x10FFFF:
            text = chr(code).encode("utf-8", "surrogatepass")
            wanted = any(a <= code <= b for a, b in members) and not 0xD800 <= code <= 0xDFFF
            assert matches(expression, text) == wanted


def test_lone_surrogates_are_in_no_text() -> None:
    assert not regex("a|\ud800").matches("\ud800")
    assert not regex(".").matches("\udfff")
    assert regex("[\ud800-\ue000]").matches("\ue000")


# -- repeats and limits -------------------------------------------------------------------------


@given(
    st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)
)
@settings(max_examples=150)
def test_a_repeat_of_a_repeat_skips_the_right_counts(
    low: int, more: int, least: int, extra: int, endless: int
) -> None:
    high = "" if endless & 1 else str(low + more)
    most = "" if endless & 2 else str(least + extra)
    pattern = f"(?:a{{{low},{high}}}){{{least},{most}}}"
    expression = regex(pattern).expression
    for count in range(20):
        text = "a" * count
        assert matches(expression, text.encode()) == expected(pattern, 0, text)


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1,50}){1,50}){1,50}",
        "(a|a)*" * 50 + "b",
        "(?:(?:a|aa)+)+$",
        "(x+x+)+y",
        ".*" * 100 + "a",
        "a?" * 300 + "a" * 300,
        "(?:" * MAX_DEPTH + "a" + ")*" * MAX_DEPTH,
        "|".join(f"word{i}" for i in range(3000)),
        "^" * 10_000,
        r"((((a?)*)*)*\b.)*",
        r"(?:\bx){1,10000}",
        r"(?:a?){1,3000}\b.",
    ],
)
def test_adversarial_patterns_compile(pattern: str) -> None:
    assert regex(pattern).automaton.num_states > 0


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(" * 5000 + "a" + ")" * 5000, InvalidParameterError),
        ("(?:" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), InvalidParameterError),
        ("a" * (MAX_LENGTH + 1), InvalidParameterError),
        ("a{99999999999}", InvalidParameterError),
        ("a{1,1000000000}", AutomatonTooLargeError),
        ("(((a{9999}){9999}){9999}b){9999}", AutomatonTooLargeError),
        (r"(?:\bx){1,100000}", AutomatonTooLargeError),
        (r"(?:a?){1,300000}\b.", AutomatonTooLargeError),
        (r"(?:.\bx?){1,1000}", AutomatonTooLargeError),
    ],
)
def test_limits_are_errors_that_name_them(pattern: str, error: type[PcgcdError]) -> None:
    with pytest.raises(error, match=r"\d|too large"):
        _ = regex(pattern).automaton


def test_huge_repeats_cost_nothing_until_they_are_compiled() -> None:
    assert regex("(?:(?:ab){1,1000000}c){1000000}").expression.size > 10**12

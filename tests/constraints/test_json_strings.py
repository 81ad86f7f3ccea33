"""Strings: lengths, escapes, patterns and formats."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.constraints.json_schema import json_schema
from pcgcd.constraints.json_schema.formats import EXACT, FORMATS, SIGNS
from pcgcd.constraints.json_schema.patterns import finds, listed, searched
from pcgcd.errors import UnsupportedConstraintError
from tests.constraints.json_walks import random_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(TEXT, st.integers(0, 4), st.integers(0, 4))
@settings(max_examples=60)
def test_lengths_are_counted_in_characters_however_spelled(text, least, more):
    constraint = json_schema({"type": "string", "minLength": least, "maxLength": least + more})
    inside = least <= len(text) <= least + more
    for ascii_only in (True, False):
        assert constraint.matches(json.dumps(text, ensure_ascii=ascii_only)) == inside


def test_escapes():
    one = json_schema({"type": "string", "minLength": 1, "maxLength": 1})
    for spelled in (
        "\\ud83d\\ude00",
        "\\uD83D\\uDE00",
        "\\u0041",
        "\\/",
        "\\n",
        "\\u000a",
        "é",
        "😀",
    ):
        assert one.matches(f'"{spelled}"')
    for broken in ("\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\ud83d\\u0041", "\\x", "\n", "\\u12"):
        assert not one.matches(f'"{broken}"')
    assert not one.matches(b'"\xff"')
    assert not one.matches(b'"\xed\xa0\x80"')


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_free_name_may_be_written_as_json_writes_it(ascii_only):
    free = json_schema({"type": "object", "properties": {"a": True}, "additionalProperties": True})
    for code in (*range(0x100), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        text = json.dumps({chr(code): 0}, ensure_ascii=ascii_only)
        assert free.matches(text), text


PATTERNS = [
    "a",
    "^a",
    "a$",
    "^a|b$",
    "^(ab|c)*$",
    "^$|^a+$",
    "(^|x)a",
    ",,|^,|,$",
    "^[^a]+$",
    '["\\\\]',
    "^a{2,3}$",
    "^(a|^b)?c",
    "^(?!ab)[abc]+$",
    "^(?=.*b)(?!.*c)[abc]*$",
    "^(?:a|b){0,2}?c$",
    "\\x61|\\u0062",
    "^\\w+\\s\\d$",
    "^.$",
    "^a(?=b$)b",
    "(a$)|(^b)",
    "^[a\\-c]$",
    "^(?<n>a)b$",
    "(?!^)a",
    "b(?=^)a|^c",
    "(?:(?!ab)a|(?=b.))c*b",
    "((?=a)|b)?c$",
    "^((?!a$)a|b(?=c))??c",
    "a?^b",
    "a?(?!b)^[abc]$b?",
    "^a$b?$|x",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_find_what_re_finds(pattern):
    constraint = json_schema({"type": "string", "pattern": pattern})
    opposite = json_schema({"type": "string", "not": {"pattern": pattern}})
    expected = re.compile(pattern.replace("?<n>", "?P<n>").replace("$", "\\Z"))
    alphabet = ["", "a", "b", "c", "x", ",", '"', "\\", "-", " ", "1", "é"]
    texts = {a + b + c for a in alphabet for b in alphabet for c in alphabet}
    for text in sorted(texts)[::5]:
        found = expected.search(text) is not None
        assert finds(pattern, text) == found
        assert constraint.matches(json.dumps(text)) == found, text
        if text.isascii():
            assert opposite.matches(json.dumps(text, ensure_ascii=False)) != found, text


def grown(inner):
    look = st.sampled_from(["(?=%s)", "(?!%s)", "(?:%s)?", "(?:%s)??", "(%s)"])
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(inner, inner).map("(?:%s|%s)".__mod__),
        st.tuples(look, inner).map(lambda two: two[0] % two[1]),
    )


LEAF = st.sampled_from(["a", "b", "[^a]", "a*", "b+?", "(?:ab){1,2}", "^", "$", ""])


@given(st.recursive(LEAF, grown, max_leaves=8))
@settings(max_examples=150)
def test_random_patterns_find_what_re_finds(pattern):
    theirs = re.compile(pattern.replace("$", "\\Z"))
    try:
        automaton = compile_expression(searched(pattern))
    except UnsupportedConstraintError:  # in a look-ahead, an anchor that the text decides
        reject()
    for text in ("", "a", "b", "ab", "ba", "aab", "abab", "bb", 'a"', "\n", "b\n"):
        found = theirs.search(text) is not None
        assert finds(pattern, text) == found, text
        assert automaton.accepts(json.dumps(text)[1:-1].encode()) == found, text


def test_edges_of_classes():
    """An empty class, its opposite, a hyphen beside a class, a pair of surrogates."""
    for pattern, good, bad in (
        ("^(?:[]|a)$", "a", "b"),
        ("^[^]$", "a\n\u2028", ["", "aa"]),
        (r"^[\w-]$", "a-", "."),
        (r"^[a-\d]$", "a-5", "b"),
        (r"^\ud83d\ude00\u{1f600}$", ["😀😀"], ["😀"]),
        (r"^[\ud83d\ude00-\ud83d\ude02]$", "😀😁😂", "😃"),
        (r"^[\b\cJ\0]$", "\b\n\0", "bJ0"),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        (r"^[^\D]$", "1", "a٣"),
        ("^(?!.$)", ["", "ab", "\n"], "a\u2028"),
    ):
        constraint = json_schema({"type": "string", "pattern": pattern})
        for texts, wanted in ((good, True), (bad, False)):
            for text in texts:
                assert constraint.matches(json.dumps(text)) == wanted, (pattern, text)
                assert finds(pattern, text) == wanted, (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [r"\x6", r"\u{110000}", r"\ud83d\u0041", r"\p{Lu", "[b-a]", "(?<n", "a{99999}", "^*", "(?=a)*"],
)
def test_broken_patterns_are_errors(pattern):
    with pytest.raises(UnsupportedConstraintError, match="at position"):
        json_schema({"pattern": pattern})


@pytest.mark.parametrize(
    "pattern", ["(a", "a)", "[a", "*a", "(?<=a)b", "(a)\\1", "\\bx", "a{3,2}", "\\p{Xx}"]
)
def test_patterns_that_cannot_be_followed_are_errors(pattern):
    with pytest.raises(UnsupportedConstraintError, match="#/pattern"):
        json_schema({"pattern": pattern})


def test_classes_on_which_languages_disagree_are_safe_both_ways():
    digit = json_schema({"type": "string", "pattern": r"^\d$"})
    other = json_schema({"type": "string", "not": {"pattern": r"^\d$"}})
    no_digit = json_schema({"type": "string", "pattern": r"^\D$"})
    for constraint, texts in ((digit, "1"), (other, "x"), (no_digit, "x")):
        assert [c for c in "1x٣" if constraint.matches(f'"{c}"')] == list(texts)


def test_unicode_properties():
    constraint = json_schema({"type": "string", "pattern": r"^\p{Lu}\P{L}$"})
    assert constraint.matches('"É1"')
    assert not constraint.matches('"é1"')


def test_pattern_with_length():
    constraint = json_schema({"type": "string", "pattern": "^[ab]+$", "maxLength": 3})
    assert constraint.matches('"aba"')
    assert not constraint.matches('"abab"')


GOOD = {
    "date": ["2024-02-29", "2000-02-29", "1999-12-31"],
    "time": ["23:59:59Z", "00:00:00.5+02:00"],
    "date-time": ["2024-02-29T12:00:00Z", "1990-12-31t15:59:59.123-08:00"],
    "duration": ["P1Y2M3DT4H5M6S", "P4W", "PT1M"],
    "email": ["a@b.c", "joe.bloggs@example.com", "a+b@[127.0.0.1]"],
    "hostname": ["example.com", "a", "a-b.c1"],
    "ipv4": ["0.0.0.0", "255.1.20.3"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::3:4:5:6:7:8"],
    "uri": ["http://a.b/c?d=e#f", "urn:a:b", "http://[::1]:80/", "mailto:a@b"],
    "uri-reference": ["/a", "a/b", "#x", "", "//h/p", "http://x"],
    "uuid": ["2eb8aa08-AA98-11ea-b4aa-73b441d16380"],
    "json-pointer": ["", "/a~0/b~1", "/"],
    "regex": ["^a+$", "[a-z]*", "(?:a|b)c?"],
}
BAD = {
    "date": ["2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "0000-01-01", "24-1-1"],
    "time": ["24:00:00Z", "12:60:00Z", "12:00:00"],
    "date-time": ["2024-02-30T12:00:00Z", "2024-02-29 12:00:00Z"],
    "duration": ["P", "PT", "1Y", "P1D2H", "P1Y1W"],
    "email": ["a", "@b", "a@", "a b@c", ".a@b"],
    "hostname": ["-a", "a-", "a..b", "a_b", "a" * 64, ""],
    "ipv4": ["256.0.0.0", "1.2.3", "01.2.3.4"],
    "ipv6": [":", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9"],
    "uri": ["a/b", "http://a b", "//x", "http:// x"],
    "uri-reference": ["a b", "\\x"],
    "uuid": ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"],
    "json-pointer": ["a", "/~2"],
    "regex": ["(", "["],
}


@pytest.mark.parametrize("name", GOOD)
def test_formats_by_example(name):
    constraint = json_schema({"type": "string", "format": name})
    assert [text for text in GOOD[name] if not constraint.matches(json.dumps(text))] == []
    assert [text for text in BAD[name] if constraint.matches(json.dumps(text))] == []


def test_unknown_formats_are_annotations():
    assert json_schema({"type": "string", "format": "colour"}).matches('"x"')


@pytest.mark.parametrize("name", FORMATS)
def test_whatever_a_format_writes_is_of_that_format(name):
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    constraint = json_schema({"type": "string", "format": name})
    for seed in range(60):
        text = json.loads(random_text(constraint, seed))
        assert checker.conforms(text, name), text


PIECES = st.lists(
    st.sampled_from(["a", "b", "(?:a|bb)", "[ab]", "a?", "b{0,2}", "(?:ab?|)", "a*", "^", "c|"]),
    min_size=1,
    max_size=4,
).map("".join)


@given(PIECES)
@settings(max_examples=100, deadline=None)
def test_a_pattern_is_listed_only_with_all_its_texts(middle):
    words = ("".join(t) for n in range(9) for t in itertools.product("ab", repeat=n))
    for source in (f"^{middle}$", f"^(?:{middle})$", f"^a$|^{middle}$"):
        texts = listed(source)
        if texts is not None:
            pattern = re.compile(source.replace("$", "\\Z"))
            assert len(set(texts)) == len(texts)
            assert all(map(pattern.search, texts))
            assert {word for word in words if pattern.search(word)} <= set(texts)
    assert set(listed("^(?:get|[pq]ut)s?$") or ()) == {"get", "gets", "put", "puts", "qut", "quts"}


def test_literal_patterns_tell_alternatives_apart():
    """Each of the parts has another type, so they cannot hold together: no combinations."""
    kinds = [
        {"required": ["type"], "properties": {"type": {"type": "string", "pattern": f"^K{i}$"}}}
        for i in range(14)
    ]
    constraint = json_schema({"type": "object", "oneOf": kinds}, free_depth=0)
    assert constraint.matches('{"type": "K3"}')
    assert not constraint.matches('{"type": "K14"}')
    assert not constraint.matches("{}")


@pytest.mark.parametrize("name", sorted(SIGNS))
def test_what_is_not_of_a_format_is_so_for_jsonschema_too(name):
    jsonschema = pytest.importorskip("jsonschema")
    schema = {"type": "string", "not": {"format": name}}
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    assert name not in EXACT
    constraint = json_schema(schema)
    assert constraint.matches('"% %"')
    positive = json_schema({"type": "string", "format": name})
    for seed in range(40):
        text = random_text(constraint, seed, 30)
        assert validator.is_valid(json.loads(text)), text
        assert not constraint.matches(random_text(positive, seed, 30))


@given(st.text("a.*b", max_size=7))
@settings(max_examples=150, deadline=None)
def test_anchors_under_a_repeat_hold_at_the_edges_only(text):
    for source in (r"^(?:(?:^\*|[ab])\.)*[ab]$", r"(?:^a|b$|\.)+", r"^(?:a$|b)*$", r"(?:^|\.)+a"):
        expected = re.search(source.replace("$", r"\Z"), text) is not None
        constraint = json_schema({"type": "string", "pattern": source})
        assert constraint.matches(json.dumps(text)) == expected, (source, text)
        assert finds(source, text) == expected

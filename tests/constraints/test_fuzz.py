"""Whatever is thrown at a builder: an answer or one of our errors, never a hang or a crash."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import Vocabulary
from pcgcd.constraints import (
    Constraint,
    any_text,
    choice,
    grammar,
    json_schema,
    keywords,
    length,
    literal,
    not_containing,
    regex,
    sql,
)
from pcgcd.errors import InvalidParameterError, PcgcdError

SECONDS = 30


class Call(NamedTuple):
    """A builder and what it is called with."""

    builder: Callable[..., Constraint | Vocabulary]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def calls(
    builder: Callable[..., Constraint | Vocabulary], *arguments: Any, **options: Any
) -> st.SearchStrategy[Call]:
    """Calls with arguments drawn from strategies; each option may be left out."""
    return st.builds(
        Call,
        st.just(builder),
        st.tuples(*arguments),
        st.fixed_dictionaries({}, optional=options),
    )


def attempt(call: Call) -> None:
    """Build, compile and match; our own errors are fine."""
    with suppress(PcgcdError):
        made = call.builder(*call.arguments, **call.options)
        if isinstance(made, Vocabulary):
            regex("a*").compile(made)
        else:
            made.matches("")
            made.matches('{"a": [1, "é"]}')


def composed(least: Any, most: Any, text: Any) -> Constraint:
    """A constraint made of others."""
    if not isinstance(text, str):
        return regex("a?b").repeat(least, most)
    return (text + regex("a?b").repeat(least, most)) & any_text() | text


# -- random input -------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["a", "b", "x", "\ud800", "\x00", "é😀", "(", "[a", r"\1"]),
)
JUNK = st.recursive(
    st.one_of(SCALARS, st.binary(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=6,
)
BYTES = st.binary(max_size=60).map(lambda data: data.decode("latin-1"))

PIECES = [
    *["a", "b", ".", r"\w", r"\b", r"\d", "^", "$", r"\1", r"\x", "é", "\n", " ", "-", ","],
    *["(", ")", "(?:", "(?P<n>", "(?=", "(?!", "(?<=", "(?>", "(?i)", "(?x:", "(?#", "(?(1)"],
    *["[", "]", "[^", "[a-", "[[:", "*", "+", "?", "{", "}", "{2}", "{1,50}", "{,9}", "{3,"],
    *["{1,1000000000}", "{99999999999}", "|", "#", r"\N{", r"\U0001F600", "\ud800"],
]
BROKEN_PATTERNS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
SMALL_REPEATS = ["*", "+", "?", "*?", "{2}", "{0,3}", "{,2}", "{2,}"]
WIDE_REPEATS = ["{1,20}", "{0,9}", "{30}", "{1,1000000000}"]
SOUND_PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "aa", ".", r"\w", r"\s", "[^a]", r"\b", "^", "$", "", "é"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(SMALL_REPEATS + WIDE_REPEATS)).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)
PATTERNS = st.one_of(BROKEN_PATTERNS, SOUND_PATTERNS, BYTES, st.text(max_size=30))

GRAMMAR_PIECES = [
    *["start", "a", "b", "A", "B", ":", "|", "(", ")", "[", "]", "*", "+", "?", "~", "2..3", "..."],
    *[
        '"x"',
        '"y"i',
        '"',
        '"a".."z"',
        "/[a-c]+/",
        "/(/",
        "/",
        "//",
        "->",
        "{",
        "}",
        ",",
        ".2",
        "\\",
    ],
    *["%ignore", "%import common.INT", "%import common.WS", "%declare", "_A", "!", "999999999"],
    *["\nstart: ", "\na: ", "\nb: ", "\nA: ", "\nB: ", "\n", "\n|", "\n%ignore "],
]
GRAMMARS = st.one_of(
    st.lists(st.sampled_from(GRAMMAR_PIECES), max_size=40).map(" ".join),
    st.lists(
        st.sampled_from(["start", "a", "b", "A", '"x"', '"("', '")"', "|", "*", "?", "(", ")"]),
        max_size=18,
    ).map(lambda body: "start: " + " ".join(body) + '\na: "y" | a b\nb: "(" start ")" a\nA: "z"'),
    BYTES,
    st.text(max_size=30),
)

KEYWORDS = [
    *["type", "properties", "required", "additionalProperties", "patternProperties", "items"],
    *["propertyNames", "minProperties", "maxProperties", "prefixItems", "contains", "minContains"],
    *["maxContains", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern"],
    *["format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    *["const", "enum", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref", "$defs"],
    *["dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"],
    *["$id", "$anchor", "$dynamicRef", "definitions", "title", "default", "nonsense"],
]
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null", "nonsense"]
REFERENCES = ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nowhere", "#a", "http://x/y", ""]
FORMATS = ["date", "time", "date-time", "email", "uuid", "ipv4", "ipv6", "hostname", "uri", "?"]


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    few = st.integers(0, 5)
    number = st.one_of(st.integers(-20, 200), st.floats(-9, 9))
    likely = {
        "type": st.one_of(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), max_size=3)),
        "properties": named,
        "required": st.lists(st.sampled_from(["a", "b", "d"]), max_size=2),
        "patternProperties": st.dictionaries(SOUND_PATTERNS, inner, max_size=2),
        "dependentRequired": st.just({"a": ["b"]}),
        "dependentSchemas": named,
        "$defs": named,
        "$ref": st.sampled_from(REFERENCES),
        "pattern": PATTERNS,
        "format": st.sampled_from(FORMATS),
        "enum": st.lists(SCALARS, max_size=4),
        "const": JUNK,
        "uniqueItems": st.booleans(),
        **dict.fromkeys(["prefixItems", "anyOf", "oneOf", "allOf"], lists),
        **dict.fromkeys(
            ["minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"],
            few,
        ),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "multipleOf"], number),
    }

    def value(keyword: str) -> st.SearchStrategy[tuple[str, Any]]:
        return st.tuples(
            st.just(keyword),
            st.one_of(likely.get(keyword, inner), likely.get(keyword, inner), JUNK),
        )

    return st.lists(st.sampled_from(KEYWORDS).flatmap(value), max_size=4).map(dict)


SCHEMAS = st.recursive(
    st.one_of(st.booleans(), st.sampled_from([{"type": name} for name in TYPES]), JUNK),
    schemas_of,
    max_leaves=6,
)
NAMES = st.one_of(st.sampled_from(["dog", "run", "ice cream", "", " ", "é"]), st.text(max_size=5))
COLUMNS = st.one_of(st.sampled_from(["x", "y"]), st.text(max_size=3))
TABLES = st.dictionaries(
    st.one_of(st.sampled_from(["t", "u"]), st.text(max_size=3)),
    st.one_of(
        st.lists(st.one_of(st.sampled_from(["x", "y"]), st.text(max_size=3)), max_size=3), JUNK
    ),
    max_size=2,
)
COUNTS = st.one_of(st.integers(-2, 30), st.none(), JUNK)
BYTE_LISTS = st.one_of(st.lists(st.one_of(st.binary(max_size=3), st.none()), max_size=6), JUNK)
IDS = st.one_of(st.integers(-1, 6), st.lists(st.integers(-1, 6), max_size=2), JUNK)

CALLS = {
    "regex": calls(regex, PATTERNS, flags=st.integers(0, 511)),
    "regex, any value": calls(regex, st.one_of(st.just("a"), JUNK), flags=JUNK),
    "grammar": calls(grammar, GRAMMARS, max_depth=st.integers(0, 6)),
    "grammar, any value": calls(
        grammar, st.one_of(st.just('start: "a"'), JUNK), start=JUNK, max_depth=JUNK
    ),
    "json_schema": calls(
        json_schema,
        SCHEMAS,
        order=st.sampled_from(["schema", "any"]),
        max_depth=st.integers(0, 4),
        strict=st.booleans(),
    ),
    "json_schema, any text": calls(json_schema, st.one_of(BYTES, st.text(max_size=30))),
    "keywords": calls(
        keywords,
        st.one_of(st.lists(NAMES, max_size=4), st.dictionaries(NAMES, st.lists(NAMES), max_size=3)),
        inflect=st.just(False),
        bans=st.lists(NAMES, max_size=2),
        ends_with=st.one_of(NAMES, st.none()),
    ),
    "keywords, any value": calls(
        keywords,
        st.one_of(st.just(["dog"]), JUNK),
        inflect=st.just(False),
        **dict.fromkeys(["bans", "counts", "ends_with", "case", "order"], JUNK),
        **dict.fromkeys(["alphabet", "state_limit"], JUNK),
    ),
    "sql": calls(sql, st.one_of(TABLES, JUNK), max_depth=st.integers(-1, 1)),
    "sql, any value": calls(
        sql,
        st.one_of(st.just({"t": ["x"]}), JUNK),
        **dict.fromkeys(["max_depth", "aliases", "state_limit"], JUNK),
    ),
    "composition": calls(composed, COUNTS, COUNTS, JUNK),
    "vocabulary": calls(Vocabulary.from_bytes, BYTE_LISTS, IDS, logits_size=COUNTS),
    "tokenizer": calls(Vocabulary.from_tokenizer, JUNK, eos_ids=IDS, logits_size=COUNTS),
    "any_text": calls(any_text, COUNTS, COUNTS, alphabet=JUNK),
    "length": calls(length, COUNTS, COUNTS, unit=st.sampled_from(["characters", "bytes", "?"])),
    "choice": calls(choice, JUNK),
    "literal": calls(literal, JUNK),
    "not_containing": calls(not_containing, JUNK, st.text(max_size=6), ignore_case=st.booleans()),
}


@pytest.mark.parametrize("name", CALLS)
def test_builders_answer_or_raise_our_errors(name: str) -> None:
    @given(CALLS[name])
    @settings(max_examples=30)
    def check(call: Call) -> None:
        attempt(call)

    check()


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Interrupt what takes longer; a net below the limits of the builders, not a measurement."""

    def stop(signum: int, frame: object) -> None:
        raise TimeoutError(f"still busy after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_ten_thousand_calls_answer_or_raise_our_errors(name: str) -> None:
    @given(CALLS[name])
    @settings(max_examples=600)
    def check(call: Call) -> None:
        with alarm(SECONDS):
            attempt(call)

    check()


# -- input made to hurt -------------------------------------------------------------------------


def nested(depth: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def reference_chain(count: int, last: Any) -> dict[str, Any]:
    links = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{count}": last}}


HURTFUL_SCHEMAS = {
    "refers to itself": {"$ref": "#"},
    "two that refer to each other": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "itself among others": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    "all of itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "not itself": {"not": {"$ref": "#"}},
    "a tree": {"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}},
    "a wide tree": {
        "type": "object",
        "properties": {f"p{i}": {"$ref": "#"} for i in range(30)},
    },
    "a list of itself": {"type": "array", "items": {"$ref": "#"}},
    "a long chain": reference_chain(3000, {"type": "null"}),
    "a long circle": reference_chain(3000, {"$ref": "#/$defs/d0"}),
    "deep arrays": nested(3000, lambda s: {"type": "array", "items": s}, {"type": "null"}),
    "deep objects": nested(3000, lambda s: {"properties": {"a": s}}, True),
    "deep negation": nested(3001, lambda s: {"not": s}, {"type": "null"}),
    "deep conjunction": nested(60, lambda s: {"allOf": [s, s]}, {"type": "null"}),
    "deep choice": nested(60, lambda s: {"anyOf": [s, s]}, {"type": "integer"}),
    "deep exclusive choice": nested(12, lambda s: {"oneOf": [s, s, True]}, {"type": "integer"}),
    "long strings": {"type": "string", "minLength": 10**9},
    "many items": {"type": "array", "minItems": 10**7, "items": {"type": "string"}},
    "a bad pattern": {"type": "string", "pattern": "((a{1,50}){1,50}){1,50}("},
    "a huge pattern": {"type": "string", "pattern": "((a{1,999}b?){1,999}c?){1,999}"},
    "huge numbers": {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
    "many multiples": {"type": "integer", "multipleOf": 10**9 + 7},
    "any order": {"properties": {f"p{i}": True for i in range(40)}, "minProperties": 20},
    "large enum": {"enum": list(range(5000))},
}


@pytest.mark.parametrize("name", HURTFUL_SCHEMAS)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_hurtful_schemas_answer_or_raise_our_errors(name: str, order: str) -> None:
    attempt(Call(json_schema, (HURTFUL_SCHEMAS[name],), {"order": order}))


HURTFUL_PATTERNS = {
    "conditions in nested repeats": r"(?:(?:\b\w*){1,20}){1,20}",
    "conditions in large repeats": r"(?:(?:\b.){1,100}x?){1,100}",
    "conditions beside each other": r"(?:\b|a|\B)" * 2000,
    "lines in large repeats": r"(?m:(?:^.*$\n?){1,200})",
    "loops with conditions": r"(?:.*\b.*){600}",
    "repeats in repeats": "((((a{10}){10}){10}){10}){10}",
    "deep repeats": "(?:" * 99 + "a{0,2}" + "){0,2}" * 99,
    "the deepest groups": "(" * 100 + "a" + "*)" * 100,
    "too deep groups": "(" * 5000 + "a" + ")" * 5000,
    "ambiguous loops": "((a*)*)*b",
    "equal options": "(a|a)*" * 200,
    "options in a row": "(?:a?b?c?){3000}",
    "many deterministic states": "(.*a.{12}|.*b.{13}){2}",
    "too many deterministic states": ".*a.{2000}",
    "a long list": "|".join(f"{i}x*" for i in range(8000)),
    "a wide class": "[" + "".join(chr(0x100 + 2 * i) for i in range(20_000)) + "]{1,500}",
    "letters of any case": "(?i)(?:straße|ß|ſ|\u212a)+" * 1000,
    "empty groups": "(){1000000}" * 1000,
    "the largest count": "a{4294967294}",
    "a larger count": "a{99999999999999999999}",
}


@pytest.mark.parametrize("name", HURTFUL_PATTERNS)
def test_hurtful_patterns_answer_or_raise_our_errors(name: str) -> None:
    attempt(Call(regex, (HURTFUL_PATTERNS[name],), {}))


SUM = 'start: start "+" start | "(" start ")" | /[0-9]+/'
HURTFUL_GRAMMARS = {
    "a large depth": SUM,
    "a long chain": "\n".join(f'r{i}: "a" r{i + 1} "b"' for i in range(3000)) + '\nr3000: "c"',
    "a long circle": "\n".join(f'r{i}: "a" r{(i + 1) % 300} "b" | "c"' for i in range(300)),
    "rules that double": "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(40)) + '\nr40: "b"?',
    "all use all": "\n".join(
        f"r{i}: " + " | ".join(f'"a" r{j}' for j in range(30)) + ' | "c"' for i in range(30)
    ),
    "deep groups": "start: " + "(" * 5000 + '"a"' + ")" * 5000,
    "repeats in repeats": "start: " + "(" * 50 + '"a"' + ")~0..9" * 50,
    "a huge repeat": 'start: "a"~1..999999999',
    "a huge pattern": "start: /((a{1,999}b?){1,999}c?){1,999}/",
    "nothing but itself": "start: start start |",
    "everything ignored": 'start: "a"*\n%ignore /(.|\\n)*/',
}


@pytest.mark.parametrize("name", HURTFUL_GRAMMARS)
@pytest.mark.parametrize("max_depth", [4, 1000])
def test_hurtful_grammars_answer_or_raise_our_errors(name: str, max_depth: int) -> None:
    text = HURTFUL_GRAMMARS[name]
    start = "start" if text.startswith("start") else "r0"
    attempt(Call(grammar, (text,), {"start": start, "max_depth": max_depth}))


def test_endless_lists_are_refused() -> None:
    endless = (f"word{i}" for i in count())
    for call in (
        Call(choice, (endless,), {}),
        Call(keywords, (endless,), {"inflect": False}),
        Call(keywords, (["dog"],), {"bans": endless, "inflect": False}),
        Call(sql, ({"t": endless},), {}),
        Call(sql, ({"t": ["x"]},), {"aliases": endless}),
    ):
        with pytest.raises(InvalidParameterError, match="more were given"):
            call.builder(*call.arguments, **call.options)


def test_compositions_that_double_answer_or_raise_our_errors() -> None:
    steps: list[Callable[[Constraint], Constraint]] = [
        lambda c: c + c,
        lambda c: c | (c + "x"),
        lambda c: c & (c + regex("x?")),
        lambda c: c.repeat(0, 2),
    ]
    for step in steps:
        attempt(Call(partial(nested, 60, step, regex("a?")), (), {}))
    attempt(Call(partial(nested, 3000, lambda c: (c + "a").star() | "b", literal("x")), (), {}))


def test_hurtful_json_text_raises_our_error() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000, "1" * 5000, '{"type": "nul'):
        attempt(Call(json_schema, (text,), {}))


def test_hurtful_lists_answer_or_raise_our_errors() -> None:
    many = [f"word{i}" for i in range(60)]
    attempt(Call(keywords, (many,), {"inflect": False}))
    attempt(Call(keywords, (["a" * 5000],), {"inflect": False}))
    attempt(Call(sql, ({f"t{i}": [f"c{i}" for i in range(50)] for i in range(50)},), {}))
    attempt(Call(sql, ({"t": ["x"]},), {"max_depth": 10**9}))
    attempt(Call(choice, ([f"option {i}" for i in range(20_000)],), {}))
    attempt(Call(not_containing, tuple(many), {"ignore_case": True}))
    attempt(Call(not_containing, ("a" * 100_000,), {}))
    attempt(Call(keywords, (["dog"],), {"ends_with": "".join(map(chr, range(0x100, 0x9000)))}))
    attempt(Call(any_text, (10**12,), {}))
    attempt(Call(length, (0, 10**12), {"unit": "bytes"}))

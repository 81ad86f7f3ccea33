"""Grammars, against lark's Earley parser, against Python, and by enumeration."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.constraints import grammar, regex
from pcgcd.constraints.grammar.literals import COMMON
from pcgcd.errors import (
    AutomatonTooLargeError,
    EmptyLanguageError,
    InvalidParameterError,
    PcgcdError,
    UnsupportedConstraintError,
)


def words(alphabet: str, most: int) -> list[str]:
    return ["".join(w) for n in range(most + 1) for w in product(alphabet, repeat=n)]


# A grammar, its alphabet, and the depth that texts of up to six characters need.
GRAMMARS = [
    ('start: "a" start "b" | "c"', "abc", 3),
    ('start: expr\nexpr: expr "+" expr | "-" expr | expr "!" | "(" expr ")" | "x"', "x+-!()", 3),
    (
        """
        start: sum                     // the usual three levels
        sum: product | sum "+" product -> add
        ?product: atom
            | product "*" atom
            | product "/" atom
        atom: "x" | "(" sum ")" | "-" atom
        %ignore " "
        """,
        "x+*/()- ",
        3,
    ),
    ('start: a\na: "x" b | "y"\nb: "z" a | "w" | "q" b', "xyzwq", 0),
    ('start: a\na: b "x" | "y"\nb: a "z" | "w" | b "q"', "xyzwq", 0),
    (
        'start: value\nvalue: "[" [value ("," value)*] "]" | INT | "t"\nINT: "0".."2"+\n'
        "%ignore /\\s/",
        "[],012t ",
        3,
    ),
    ('start: item ~ 1..3 [X] ("b"|"B"i)? |\nitem: X~2 "q"\nX: "x"i', "xXqbB", 0),
    ('start: (start "a")? "b" start? | "c"', "abc", 6),
    ('start: start start | "a" | "(" start ")"', "a()", 3),
    ('start: a? b* c+\na: "1" | a "2"\nb: "3" b | "4"\nc: "5" (c | "6")?', "123456", 0),
    ("!start: A B? | /[a-c]/ start\nA.2: /a+/ | B\nB: /b|\\x63/", "abc", 0),
    ('start: "\\"" "\\\\" "\\n"? "\\u0061"', '"\\\na', 0),
]


@pytest.mark.parametrize(("text", "alphabet", "depth"), GRAMMARS)
def test_a_grammar_derives_what_lark_parses(text: str, alphabet: str, depth: int) -> None:
    lark = pytest.importorskip("lark")
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    constraint = grammar(text, max_depth=depth)

    def parsed(word: str) -> bool:
        try:
            parser.parse(word)
        except lark.exceptions.LarkError:
            return False
        return True

    @given(st.text(alphabet, max_size=6))
    @settings(max_examples=60)
    def check(word: str) -> None:
        assert constraint.matches(word) == parsed(word)

    check()
    most = 4 if len(alphabet) < 4 else 2
    for word in words(alphabet, most):
        assert constraint.matches(word) == parsed(word), word


JSON = """
    start: value
    value: object | array | ESCAPED_STRING | SIGNED_NUMBER | "true" | "false" | "null"
    object: "{" [pair ("," pair)*] "}"
    pair: ESCAPED_STRING ":" value
    array: "[" [value ("," value)*] "]"
    %import common (ESCAPED_STRING, SIGNED_NUMBER)
    %import common.WS -> SPACE
    %ignore SPACE
"""
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES, st.sampled_from([None, 1]))
@settings(max_examples=100)
def test_json_is_derived_to_its_depth(value: object, indent: int | None) -> None:
    depth = 2
    constraint = grammar(JSON, max_depth=depth)
    assert constraint.matches(json.dumps(value, indent=indent)) == fits(value, depth)


def fits(value: object, depth: int) -> bool:
    """Whether references to values are nested so deep at most; empty brackets have none."""
    if isinstance(value, list | dict) and value:
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(fits(each, depth - 1) for each in inner)
    return True


def test_depth_counts_nested_references() -> None:
    for depth in range(4):
        constraint = grammar('start: "(" start ")" | "x"', max_depth=depth)
        for level in range(6):
            assert constraint.matches("(" * level + "x" + ")" * level) == (level <= depth)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ('start: "x" start | "y"', "x*y"),
        ('start: start "x" | "y"', "yx*"),
        ('start: start "," start | "y"', "y(,y)*"),
        ('start: "-" start | start "!" | start "," start | "y"', "-*y!*(,-*y!*)*"),
        ('start: a "." \na: "x" b\nb: "y" a | "z"', r"x(yx)*z\."),
        ('start: (start ("x"|"z"))? "y"', "y([xz]y)*"),
        ('start: start? "y"', "y+"),
    ],
)
def test_recursion_at_an_end_is_repetition(text: str, pattern: str) -> None:
    constraint = grammar(text, max_depth=0)
    for word in words("xyz-!,.", 4):
        assert constraint.matches(word) == (re.fullmatch(pattern, word) is not None), word
    assert grammar(text, max_depth=1).expression == constraint.expression


def is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9.eE+-]+", text) is not None and _converts(text)


def _converts(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_imported_numbers_are_those_that_python_reads() -> None:
    constraint = grammar("start: SIGNED_NUMBER\n%import common.SIGNED_NUMBER")
    for word in words("1.e+", 6):
        assert constraint.matches(word) == is_number(word), word


def test_imported_names_mean_what_lark_means() -> None:
    lark = pytest.importorskip("lark")
    ambiguous = {"ESCAPED_STRING", "C_COMMENT"}  # lark's may run past their first end mark
    for name in COMMON.keys() - ambiguous:
        text = f"start: {name}\n%import common.{name}"
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
        constraint = grammar(text)
        for word in [*words("aZ_1.+e", 3), *words(" \t\r\n", 3), "//x", "#x", "--x", "#\n", "f0"]:
            try:
                parser.parse(word)
                parsed = True
            except lark.exceptions.LarkError:
                parsed = False
            assert constraint.matches(word) == parsed, (name, word)


def test_strings_and_comments_end_at_their_first_end_mark() -> None:
    constraint = grammar(
        "start: S | C\n%import common.ESCAPED_STRING -> S\n%import common.C_COMMENT -> C"
    )
    yes = ['""', '"a"', r'"\""', r'"\\"', "/**/", "/***/", "/* a\n * b */"]
    no = ['"', r'"\"', '"a"b"', '"\n"', "/*/", "/**/ */", "/* */x"]
    assert [constraint.matches(text) for text in yes + no] == [True] * len(yes) + [False] * len(no)


def test_what_is_ignored_may_stand_anywhere_between() -> None:
    constraint = grammar('start: "a" B\nB: "b" "c"\n%ignore " "+\n%ignore /#[^\\n]*\\n/')
    for text in ("abc", " a bc ", "#x\na#y\nbc  "):
        assert constraint.matches(text)
    assert not constraint.matches("ab c")


def test_patterns_have_flags() -> None:
    constraint = grammar("start: /a.b/is | /x\n y/x")
    assert constraint.matches("A\nb")
    assert constraint.matches("xy")
    assert not constraint.matches("X\n y")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no rule 'start'"),
        ("start: missing", "line 1 .* rule missing"),
        ("start: A\n\n\nB: MISSING\nA: B", "line 4 .* terminal MISSING"),
        ('start: "a"\nstart: "b"', "defined twice, in lines 1 and 2"),
        ("start: A\nA: B\nB: A", "refers to itself"),
        ('start: A\nA: b\nb: "x"', "line 2 .* rule b in a terminal"),
        ('start: "a" )', r"line 1 .* '\)'"),
        ('start: ("a"', "line 1"),
        ('start: ["a")', r"line 1 .*\]"),
        ('start "a"', "line 1 .* :"),
        ('start: "a', "line 1"),
        ('start: ""', "empty string"),
        ('start: "b".."a"', "range"),
        ('start: "ab".."c"', "range"),
        ('start: "a" ~ 3..2', "3 to 2 times"),
        ('start: "a" ~ 12345678901', "times"),
        ('start: "a" ~ -1', "times"),
        ('start: "a"*?', "line 1"),
        ("start: /(/", "line 1 .* broken at position 0"),
        ("start: /a\nb/", "several lines"),
        ('start: "\\ud800"', "not a character"),
        ("start: " + "(" * 60 + '"a"' + ")" * 60, "nested 50 deep"),
        ("x" * 200_000, "at most 100,000"),
        ("%%%", "line 1"),
        ('start: "a" -> "b"', "name"),
    ],
)
def test_broken_grammars_are_named_with_their_line(text: str, what: str) -> None:
    with pytest.raises(InvalidParameterError, match=what):
        grammar(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('start: list{"a"}\nlist{x}: x', r"template list\{\.\.\.\} in line 1"),
        ("start: A\n%declare A", "%declare in line 2"),
        ("%import python.NAME", "python.NAME"),
        ("%import .other.NAME", "other.NAME"),
        ("%import common.NO_SUCH", "common.NO_SUCH"),
        ("start: /a(?=b)/", "line 1 .* look-ahead"),
        (r"start: /\bx/", "boundary"),
    ],
)
def test_what_cannot_be_honoured_is_named(text: str, what: str) -> None:
    with pytest.raises(UnsupportedConstraintError, match=what):
        grammar(text)


def test_a_grammar_without_texts_is_an_error() -> None:
    with pytest.raises(EmptyLanguageError, match="max_depth=4"):
        grammar('start: "a" start')
    with pytest.raises(EmptyLanguageError, match="max_depth=0"):
        grammar('start: "a" inner "b"\ninner: "(" start ")" | start "c" "d" | deep\n'
                'deep: "x" start "y"', max_depth=0)  # fmt: skip


def test_wrong_arguments_are_named() -> None:
    for depth in (-1, 1.5, True, None, 10**9):
        with pytest.raises(InvalidParameterError, match="max_depth"):
            grammar('start: "a"', max_depth=depth)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="no rule 'other'"):
        grammar('start: "a"', start="other")
    with pytest.raises(InvalidParameterError, match="bytes"):
        grammar(b"start: X")  # type: ignore[arg-type]


def chain(rule: str, count: int) -> str:
    """A rule for each number # that refers to the next one @."""
    lines = [rule.replace("#", str(i)).replace("@", str(i + 1)) for i in range(count)]
    return "\n".join([f"start: {rule[0]}0", *lines, f'{rule[0]}{count}: "c"'])


@pytest.mark.parametrize(
    "text",
    [
        "start: " + '"a"? ' * 300,
        'start: ((("a" ~ 1..40) ~ 1..40) ~ 1..40) ~ 1..40',
        chain('r#: "a" (r@ | "b")', 1500),
        chain("r#: r@ r@", 60),
        chain("R#: R@ R@", 60),
        'start: "(" start start start start ")" | "x"',
        chain('r#: "a" r@ "b" | "c" r0', 300),
        "start: " + " | ".join(f'"w{i}" start "e"' for i in range(500)) + ' | "x"',
    ],
)
@pytest.mark.parametrize("depth", [0, 5, 1000])
def test_adversarial_grammars_answer_or_say_that_they_are_too_large(text: str, depth: int) -> None:
    try:
        assert grammar(text, max_depth=depth).expression.size > 0
    except PcgcdError as error:
        assert isinstance(error, AutomatonTooLargeError)  # noqa: PT017


def test_the_error_for_large_grammars_advises_a_depth() -> None:
    text = 'start: "(" start start start start ")" | "x"'
    with pytest.raises(AutomatonTooLargeError, match=r"max_depth below (\d+)") as caught:
        grammar(text, max_depth=50)
    found = re.search(r"max_depth below (\d+)", str(caught.value))
    assert found
    assert grammar(text, max_depth=int(found.group(1)) - 1).matches("x")


def test_grammars_compose_with_other_constraints() -> None:
    constraint = grammar('start: "a" start "b" |') & regex("a{2}b*")
    assert constraint.matches("aabb")
    assert not constraint.matches("ab")


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize(
    ("text", "rule", "opening", "closing"),
    [
        ('start: "(" start ")" | "x"', "start", "(", ")"),
        ('start: sum\nsum: one | sum "+" one\none: "(" sum ")" | "x"', "sum", "(", ")"),
        ('start: "a" list\nlist: "[" [list ("," list)*] "]" | "x"', "list", "[", "]"),
    ],
)
def test_rules_that_are_cut_are_listed_with_their_depth(text, rule, opening, closing, depth):
    constraint = grammar(text, max_depth=depth)
    assert constraint.dropped == (f"rule {rule}: nested to {depth} levels",)
    before = "a" if rule == "list" else ""
    for levels in range(depth + 3):
        found = constraint.matches(f"{before}{opening * levels}x{closing * levels}")
        assert found == (levels <= depth), levels


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" start | "b"',
        'start: start "+" start | "x"',
        'start: item | start "," item\nitem: "x"+',
        'start: "a" b\nb: "c" | "d"',
        'start: "x"\nunused: "(" unused ")" | "y"',
    ],
)
def test_rules_that_are_exact_are_not_listed(text):
    assert grammar(text).dropped == ()

"""Compiled expressions accept what their definition says, and stay small or raise."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pcgcd
from pcgcd import FiniteAutomaton
from pcgcd.automata import compile_expression
from pcgcd.automata import expressions as ex
from pcgcd.automata.expressions.utf8 import ANY_CHARACTER
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from tests.automata.derivatives import matches
from tests.automata.languages import expressions, minimal_size

TEXTS = [bytes(t) for n in range(5) for t in itertools.product(b"abc", repeat=n)]
AB = ex.byte_set(b"ab")


def last_but(number: int) -> ex.Expression:
    """(a|b)*a(a|b){number}: every deterministic automaton has 2 ** (number + 1) states."""
    return ex.concatenation(ex.star(AB), ex.literal("a"), ex.repeat(AB, number, number))


@settings(max_examples=150, deadline=None)
@given(expression=expressions(), texts=st.lists(st.sampled_from(TEXTS), min_size=8, max_size=12))
@pytest.mark.parametrize("deterministic", [True, False, "auto"])
def test_an_automaton_accepts_what_derivatives_accept(
    deterministic: Any, expression: ex.Expression, texts: list[bytes]
) -> None:
    fa = compile_expression(expression, deterministic=deterministic)
    for text in [b"", *texts]:
        assert fa.accepts(text) == matches(expression, text)
    if deterministic is True:
        assert fa.is_deterministic


@settings(max_examples=40, deadline=None)
@given(expression=expressions(2))
def test_a_deterministic_automaton_is_as_small_as_automata_libs(
    expression: ex.Expression,
) -> None:
    fa = compile_expression(expression, deterministic=True)
    representatives = np.unique(fa.labels.token_class, return_index=True)[1]
    small = FiniteAutomaton.from_edges(
        num_states=fa.num_states,
        vocab_size=len(representatives),
        initial=np.flatnonzero(fa.initial_mask),
        accepting=np.flatnonzero(fa.accepting_mask),
        edges=[
            (s, t, np.flatnonzero(fa.labels.label_class[label]))
            for s, t, label in zip(fa.source, fa.target, fa.label)
        ],
    )
    assert fa.num_states == minimal_size(small)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> tuple[str, ex.Expression]:
    """A pattern of the re module, and the same as an expression."""
    kind = draw(st.sampled_from("lc" if not depth else "lcjursj"))
    if kind == "l":
        text = draw(st.text("abc", min_size=1, max_size=3))
        return re.escape(text), ex.literal(text)
    if kind == "c":
        members = draw(st.sets(st.sampled_from("abc"), min_size=1))
        return f"[{''.join(sorted(members))}]", ex.byte_set(map(ord, members))
    if kind == "s":
        source, body = draw(patterns(depth - 1))
        return f"(?:{source})*", ex.star(body)
    if kind == "r":
        source, body = draw(patterns(depth - 1))
        least, more = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        return f"(?:{source}){{{least},{least + more}}}", ex.repeat(body, least, least + more)
    parts = draw(st.lists(patterns(depth - 1), min_size=1, max_size=3))
    bodies = [body for _, body in parts]
    if kind == "j":
        return "".join(f"(?:{source})" for source, _ in parts), ex.concatenation(*bodies)
    return "|".join(f"(?:{source})" for source, _ in parts), ex.union(*bodies)


@settings(max_examples=150, deadline=None)
@given(pattern=patterns())
def test_an_automaton_accepts_what_re_matches(pattern: tuple[str, ex.Expression]) -> None:
    source, expression = pattern
    expected = re.compile(source.encode())
    fa = compile_expression(expression)
    for text in TEXTS:
        assert fa.accepts(text) == (expected.fullmatch(text) is not None)


def test_characters_are_their_utf8_bytes() -> None:
    fa = compile_expression(ex.repeat(ANY_CHARACTER, 0, 3))
    for text in ["", "aé", "€𝄞x", "\u0000\uffff\U0010ffff"]:
        assert fa.accepts(text.encode())
    for wrong in [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", "éééé".encode(), "é".encode()[:1]]:
        assert not fa.accepts(wrong)


def test_an_automaton_has_sorted_edges_distinct_labels_and_few_classes() -> None:
    fa = compile_expression(ex.union(ex.literal("abc"), ex.repeat(ex.byte_range(97, 122), 2, 9)))
    pairs = list(zip(fa.source.tolist(), fa.target.tolist()))
    assert pairs == sorted(set(pairs))
    assert len({row.tobytes() for row in fa.labels.label_class}) == fa.labels.num_labels
    assert len({column.tobytes() for column in fa.labels.label_class.T}) == fa.labels.num_classes
    assert fa.labels.token_class[0] == 0
    assert set(fa.label.tolist()) == set(range(fa.labels.num_labels))


def test_equal_languages_have_equal_deterministic_automata() -> None:
    a, b = ex.literal("a"), ex.literal("b")
    left = compile_expression(ex.star(ex.union(a, b)), deterministic=True)
    right = compile_expression(
        ex.concatenation(ex.star(a), ex.star(ex.concatenation(b, ex.star(a)))), deterministic=True
    )
    assert left.num_states == right.num_states == 1
    np.testing.assert_array_equal(left.labels.token_class, right.labels.token_class)


def test_equal_expressions_are_compiled_once() -> None:
    first = compile_expression(ex.union(ex.literal("one"), ex.literal("two")))
    assert compile_expression(ex.union(ex.literal("one"), ex.literal("two"))) is first
    assert compile_expression(ex.union(ex.literal("one"), ex.literal("three"))) is not first


def test_an_automaton_can_be_embedded() -> None:
    inner = compile_expression(ex.repeat(ex.literal("ab"), 1, 2))
    fa = compile_expression(ex.concatenation(ex.literal("<"), ex.Embedded(inner), ex.literal(">")))
    assert [fa.accepts(t) for t in (b"<>", b"<ab>", b"<abab>", b"<ababab>")] == [
        False,
        True,
        True,
        False,
    ]


# -- any order --------------------------------------------------------------------------------


def test_any_order_is_every_permutation() -> None:
    names = [b"a", b"bb", b"cab", b"d"]
    fa = compile_expression(
        ex.any_order([ex.Member(ex.Literal(name)) for name in names], ex.literal(","))
    )
    accepted = {b",".join(order) for order in itertools.permutations(names)}
    assert {bytes(word) for word in fa.enumerate_words(20)} == accepted


@pytest.mark.parametrize(("least", "most"), [(0, None), (2, 3), (0, 1), (3, 3)])
def test_any_order_with_options_is_every_admissible_choice(least: int, most: int | None) -> None:
    required = {b"a": True, b"b": False, b"c": False, b"d": False}
    members = [ex.Member(ex.Literal(name), needed) for name, needed in required.items()]
    fa = compile_expression(ex.any_order(members, ex.literal(","), least, most))
    accepted = {
        b",".join(order)
        for number in range(max(least, 1), (4 if most is None else most) + 1)
        for order in itertools.permutations(required, number)
        if b"a" in order
    }
    assert {bytes(word) for word in fa.enumerate_words(20)} == accepted


# -- sizes ------------------------------------------------------------------------------------


def test_auto_keeps_choices_where_determinism_is_exponential() -> None:
    assert compile_expression(last_but(12), deterministic=True).num_states == 2**13
    assert compile_expression(last_but(12), deterministic=False).num_states == 14
    assert compile_expression(last_but(12)).num_states == 14
    assert compile_expression(last_but(3)).is_deterministic


@pytest.mark.parametrize(
    "expression",
    [
        ex.literal("a" * 300_000),
        ex.repeat(ex.repeat(ex.repeat(ex.literal("ab"), 0, 1000), 0, 1000), 0, 1000),
        ex.any_order([ex.Member(ex.literal(f"{i:04d}")) for i in range(500)]),
        ex.any_order([ex.Member(ex.literal(f"key {i:02d}")) for i in range(20)]),
        ex.complement(last_but(40)),
        ex.intersection(*(ex.repeat(ex.repeat(AB, p, p)) for p in (101, 103, 107, 109))),
        ex.repeat(ex.union(ex.EMPTY_STRING, ex.literal("ab"), ex.literal("ba")), 0, 60_000),
    ],
    ids=["literal", "nested repeats", "500 members", "20 members", "complement", "product", "gaps"],
)
def test_what_is_too_large_raises_and_says_so(expression: ex.Expression) -> None:
    with pytest.raises(AutomatonTooLargeError, match=r"over the limit of .*larger state_limit"):
        compile_expression(expression)


def test_too_many_optional_parts_in_a_row_raise() -> None:
    parts = [ex.option(ex.literal(f"{i:04d}")) for i in range(5000)]
    with pytest.raises(AutomatonTooLargeError, match="optional parts in a row"):
        compile_expression(ex.concatenation(*parts))
    fa = compile_expression(ex.concatenation(*parts[:400]))
    assert fa.accepts(b"000300100399")
    assert not fa.accepts(b"00100003")


def test_the_error_names_the_states_needed() -> None:
    with pytest.raises(AutomatonTooLargeError, match="needs 301 states, over the limit of 100"):
        compile_expression(ex.literal("a" * 300), state_limit=100)
    nested = ex.literal("ab")
    for _ in range(400):
        nested = ex.repeat(nested, 0, 1000)
    with pytest.raises(AutomatonTooLargeError, match=r"needs .* states"):
        compile_expression(nested)
    with pytest.raises(AutomatonTooLargeError, match="deterministic automaton"):
        compile_expression(last_but(30), deterministic=True, state_limit=5000)


def test_a_deep_expression_is_no_problem() -> None:
    def deep() -> ex.Expression:
        expression = ex.literal("x")
        for _ in range(5_000):
            expression = ex.repeat(ex.concatenation(ex.literal("("), expression), 1, None)
        return expression

    fa = compile_expression(deep())
    assert fa.accepts(b"(" * 5_000 + b"x")
    assert not fa.accepts(b"(" * 4_999 + b"x")
    assert compile_expression(deep()) is fa


@pytest.mark.parametrize("copies", [50, 1500])
def test_parts_that_may_be_empty_in_a_row_are_compiled(copies: int) -> None:
    part = ex.union(ex.EMPTY_STRING, ex.literal("ab"), ex.literal("ba"))
    for deterministic in (False, "auto"):
        fa = compile_expression(ex.repeat(part, 0, copies), deterministic=deterministic)
        assert fa.accepts(b"")
        assert fa.accepts(b"abba" * (copies // 2))
        assert not fa.accepts(b"abb")
        assert not fa.accepts(b"ab" * (copies + 1))


def test_optional_parts_in_a_row_are_compiled() -> None:
    part = ex.option(ex.byte_set(b"ab"))
    fa = compile_expression(ex.repeat(part, 3, 2000))
    assert fa.accepts(b"")
    assert fa.accepts(b"ab" * 1000)
    assert not fa.accepts(b"ab" * 1001)
    assert fa.num_states == 2001


def test_many_random_words_compile_to_their_trie() -> None:
    generator = random.Random(0)
    words = {bytes(generator.choices(b"abcdef", k=generator.randint(1, 8))) for _ in range(2000)}
    fa = compile_expression(ex.union(*map(ex.Literal, sorted(words))))
    assert fa.is_deterministic
    assert {bytes(word) for word in fa.enumerate_words()} == words


@pytest.mark.parametrize("arguments", [{"deterministic": "maybe"}, {"state_limit": 0}])
def test_bad_arguments_get_a_clear_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match="must be"):
        compile_expression(ex.literal("a"), **arguments)


def test_no_folder_has_to_be_writable_for_compiled_code(tmp_path: Path) -> None:
    """Numba finds no place for its cache: the loops are compiled without one."""
    code = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "c.CompileResultCacheImpl._locator_classes = []\n"
        "from pcgcd.automata.kernels.jit import compiled\n"
        "print(compiled(lambda x: x + 1)(1))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(pcgcd.__file__).parent.parent)}
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert result.stdout.strip() == "2"

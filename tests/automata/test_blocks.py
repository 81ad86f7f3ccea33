"""Blocks and members in order change what a construction costs, and nothing else."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import compile_expression
from pcgcd.automata import expressions as ex
from pcgcd.automata.expressions import compilation
from pcgcd.automata.expressions.compilation import compile_block
from pcgcd.automata.expressions.substitution import Substitution
from pcgcd.automata.expressions.word_lists import all_but
from pcgcd.automata.graphs import Graph
from pcgcd.errors import AutomatonTooLargeError

TEXTS = ["".join(t) for n in range(6) for t in itertools.product("[]a,", repeat=n)]


class Pair:
    """An expression with blocks, and the same as a pattern of Python's ``re``."""

    def __init__(self, expression: ex.Expression, pattern: str) -> None:
        self.expression, self.pattern = expression, pattern

    def __repr__(self) -> str:
        return self.pattern


def _bracketed(inner: Pair) -> Pair:
    body = ex.concatenation(ex.literal("["), inner.expression, ex.literal("]"))
    return Pair(compile_block(body), rf"\[(?:{inner.pattern})\]")


def _repeated(inner: Pair, least: int, most: int | None) -> Pair:
    count = f"{{{least},{'' if most is None else most}}}"
    return Pair(ex.repeat(inner.expression, least, most), f"(?:{inner.pattern}){count}")


def _joined(left: Pair, right: Pair, operator: str) -> Pair:
    combine = {"": ex.concatenation, "|": ex.union}[operator]
    pattern = f"(?:{left.pattern}){operator}(?:{right.pattern})"
    return Pair(combine(left.expression, right.expression), pattern)


LEAVES = st.sampled_from([Pair(ex.literal(t), re.escape(t)) for t in ("a", ",", "[]", "a,")])
PAIRS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(_bracketed),
        st.builds(_repeated, inner, st.integers(0, 2), st.sampled_from([2, 3, None])),
        st.builds(_joined, inner, inner, st.sampled_from(["", "|"])),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(pair=PAIRS, deterministic=st.sampled_from(["auto", "auto", True, False]))
def test_blocks_accept_what_re_accepts(pair: Pair, deterministic: bool) -> None:
    fa = compile_expression(pair.expression, deterministic=deterministic)
    pattern = re.compile(pair.pattern)
    for text in TEXTS:
        assert fa.accepts(text.encode()) == bool(pattern.fullmatch(text)), text


@settings(max_examples=40, deadline=None)
@given(pair=PAIRS, other=PAIRS)
def test_blocks_are_written_out_in_intersections_and_complements(pair: Pair, other: Pair) -> None:
    fa = compile_expression(pair.expression & ~other.expression)
    for text in TEXTS[:400]:
        found = re.fullmatch(pair.pattern, text) and not re.fullmatch(other.pattern, text)
        assert fa.accepts(text.encode()) == bool(found), text


@settings(max_examples=80, deadline=None)
@given(pair=PAIRS, most=st.integers(0, 16))
def test_blocks_that_stay_closed_change_the_form_and_not_the_language(
    pair: Pair, most: int
) -> None:
    fresh = compilation._Cache()
    with (
        patch.object(compilation, "_CACHE", fresh),
        patch.object(compilation, "_MOST_OPENED", most),
        patch.object(compilation, "_MODEST_STATES", most),
        patch.object(compilation, "_MODEST_MOST", most),
    ):
        fa = compile_expression(pair.expression)
    pattern = re.compile(pair.pattern)
    for text in TEXTS:
        assert fa.accepts(text.encode()) == bool(pattern.fullmatch(text)), text


def nested(depth: int, *, as_blocks: bool) -> ex.Expression:
    """Lists of lists of "a" in two kinds of brackets: each level doubles the automaton."""
    value = ex.literal("a")
    for _ in range(depth):
        items = ex.option(value + ex.star(ex.literal(",") + value))
        options = [ex.literal(left) + items + ex.literal(right) for left, right in ("[]", "{}")]
        value = ex.union(ex.literal("a"), *(map(compile_block, options) if as_blocks else options))
    return value


def test_an_automaton_made_of_blocks_is_the_minimal_one() -> None:
    blocks = compile_expression(nested(5, as_blocks=True))
    plain = compile_expression(nested(5, as_blocks=False), deterministic=True)
    assert blocks.is_deterministic
    assert blocks.num_states == plain.num_states
    for name in ("source", "target", "label", "initial_mask", "accepting_mask"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(plain, name))


def test_a_block_is_as_large_as_its_automaton_and_is_made_without_it() -> None:
    for depth in (1, 3, 6):
        block = ex.literal("<") + nested(depth, as_blocks=True) + ex.literal(">")
        assert compile_block(block).size == compile_expression(block).num_states
    huge = compile_block(ex.literal("<") + nested(40, as_blocks=True) + ex.literal(">"))
    assert huge.size > 2**40
    with pytest.raises(AutomatonTooLargeError, match="over the limit"):
        compile_expression(huge)


def test_numbers_of_states_are_those_of_python() -> None:
    """Loops that were not compiled count with numpy's, which overflow where blocks are counted."""
    graph = replace(Graph.nothing(2, np.zeros(2, dtype=np.int64)), num_states=np.int64(1))
    assert type(graph.num_states) is int


def test_blocks_that_begin_alike_are_opened_only_where_they_meet() -> None:
    deep = nested(12, as_blocks=True)
    one = compile_block(ex.literal("[") + deep + ex.literal("]x"))
    two = compile_block(ex.literal("[") + deep + ex.literal("]y"))
    both = compile_expression(one | two)
    # The two differ after the last bracket only: one copy of what is inside.
    assert both.is_deterministic
    assert both.num_states == one.size
    assert both.accepts(b"[[a,{a}]]y")
    assert not both.accepts(b"[[a,{a}]]")


def test_blocks_stay_closed_where_opening_them_makes_a_large_automaton() -> None:
    one, two = (
        compile_block(ex.literal("[") + ex.repeat(ex.byte_set(b"ab"), 0, 40) + ex.literal(end))
        for end in ("]x", "]y")
    )
    together = (one + ex.literal("1")) | (two + ex.literal("2"))
    small = compile_expression(together)
    with (
        patch.object(compilation, "_CACHE", compilation._Cache()),
        patch.object(compilation, "_MOST_OPENED", 50),
    ):
        large = compile_expression(together)
    assert small.is_deterministic
    assert not large.is_deterministic
    assert large.num_states <= one.size + two.size + 2
    for fa in (small, large):
        assert fa.accepts(b"[ab]x1")
        assert fa.accepts(b"[ab]y2")
        assert not fa.accepts(b"[ab]x2")
        assert not fa.accepts(b"[ab]y1")
    assert compile_expression(ex.Embedded(large), deterministic=True).num_states == small.num_states


def test_what_begins_its_own_texts_is_embedded() -> None:
    number = ex.repeat(ex.byte_set(b"0123456789"), 1, 300)
    block = compile_block(number)
    assert isinstance(block, ex.Embedded)
    assert compile_block(ex.literal("a") + (ex.literal("b") & ex.literal("c"))) == ex.NOTHING


FEW, MANY = (
    Pair(compile_block(ex.literal("(") + inner + ex.literal(")")), pattern)
    for inner, pattern in ((ex.literal("a"), r"\(a\)"), (ex.star(ex.literal("a")), r"\(a*\)"))
)
# From a block to something that it is part of.
CONTEXTS = st.recursive(
    st.one_of(LEAVES.map(lambda leaf: lambda _: leaf), st.just(lambda hole: hole)),
    lambda inner: st.one_of(
        inner.map(lambda make: lambda hole: _bracketed(make(hole))),
        inner.map(lambda make: lambda hole: _repeated(make(hole), 0, 3)),
        st.tuples(inner, inner, st.sampled_from(["", "|"])).map(
            lambda parts: lambda hole: _joined(parts[0](hole), parts[1](hole), parts[2])
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=30, deadline=None)
@given(context=CONTEXTS)
def test_a_block_in_place_of_another_is_as_if_it_had_been_there(context) -> None:
    found = Substitution({FEW.expression: MANY.expression}).of(context(FEW).expression)
    pattern = re.compile(context(MANY).pattern)
    fa = compile_expression(found)
    for text in ("".join(t) for n in range(5) for t in itertools.product("[]a,()", repeat=n)):
        assert fa.accepts(text.encode()) == bool(pattern.fullmatch(text)), text


@settings(max_examples=60, deadline=None)
@given(words=st.sets(st.text("a,[", max_size=4), max_size=6))
def test_all_but_some_words_is_a_difference_of_sets(words: set[str]) -> None:
    pattern = "(?:a|,[a,])*"
    letters = ex.literal("a") | ex.literal(",") + ex.byte_set(b"a,")
    everything = compile_expression(ex.star(letters), deterministic=True)
    left = compile_expression(all_but(everything, [word.encode() for word in words]))
    expected = {text for text in TEXTS if re.fullmatch(pattern, text)} - words
    assert {text for text in TEXTS if left.accepts(text.encode())} == expected


MEMBERS = st.lists(st.tuples(st.sampled_from("ab["), st.booleans()), max_size=4)


@settings(max_examples=60, deadline=None)
@given(members=MEMBERS, tail=st.sampled_from(["", "]", "a"]), separator=st.sampled_from([",", ""]))
def test_members_come_in_order(members: list[tuple[str, bool]], tail: str, separator: str) -> None:
    expression = ex.in_order(
        [ex.Member(ex.literal(text), required) for text, required in members],
        ex.literal(separator),
        ex.literal(tail) if tail else ex.NOTHING,
    )
    expected = set()
    for chosen in itertools.product(
        *([[True] if needed else [True, False]][0] for _, needed in members)
    ):
        kept = [text for (text, _), is_there in zip(members, chosen, strict=True) if is_there]
        for more in range(4 if tail else 1):
            expected.add(separator.join([*kept, *([tail] * more)]))
    fa = compile_expression(expression)
    longest = 5
    for text in ("".join(t) for n in range(longest) for t in itertools.product("ab[],", repeat=n)):
        if text.count(tail) <= 3 or not tail:
            assert fa.accepts(text.encode()) == (text in expected), text


def test_many_optional_members_are_placed_once() -> None:
    members = [ex.Member(ex.literal(f'"k{i:03}":1'), required=False) for i in range(300)]
    expression = ex.in_order(members, ex.literal(","))
    fa = compile_expression(expression)
    assert fa.accepts(b"")
    assert fa.accepts(b'"k000":1,"k299":1')
    assert fa.accepts(b'"k150":1')
    assert not fa.accepts(b'"k001":1,"k000":1')
    assert not fa.accepts(b'"k001":1,')

"""Counted repeats between two marks against the usual construction and against ``re``."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pcgcd.automata import Vocabulary
from pcgcd.automata.expressions import byte_set, literal, repeat, star
from pcgcd.automata.expressions.chains import Chain
from pcgcd.automata.expressions.compilation import compile_block, compile_expression
from pcgcd.automata.lifting import lift
from pcgcd.automata.lifting.unfolding import UnfoldingTable
from pcgcd.automata.masks.bits import unpack
from pcgcd.automata.masks.lazy import TokenMasks
from pcgcd.automata.masks.table import MaskTable
from pcgcd.errors import AutomatonTooLargeError

QUOTE = literal('"')
# A body, as a pattern too, and whether its links are independent of each other.
BODIES = [
    (byte_set(b"abc"), "[abc]", True),
    (literal("ab") | literal("c"), "(?:ab|c)", True),
    (literal("x") + byte_set(b"yz") + star(literal("u")) + literal("v"), "(?:x[yz]u*v)", True),
    (literal("a") | literal("aa"), "(?:a|aa)", False),
    (literal('"b') | literal("c"), '(?:"b|c)', False),
    (literal("a") | literal("ab") | literal("b"), "(?:a|ab|b)", False),
    (star(literal("a")) + literal("b"), "(?:a*b)", False),  # an edge enters its start
]
BOUNDS = [(0, 16), (3, 17), (16, 16), (16, None), (17, None), (0, 40)]


@pytest.mark.parametrize(("body", "pattern", "independent"), BODIES)
@pytest.mark.parametrize(("least", "most"), BOUNDS)
def test_chains_are_the_minimal_automata(body, pattern, independent, least, most):
    expression = QUOTE + repeat(body, least, most) + QUOTE
    chain = Chain.of(expression)
    assert chain is not None
    linked = chain.linked(compile_expression(body))
    assert (linked is not None) == independent
    found = compile_expression(expression)
    usual = compile_expression(expression, deterministic=True)  # knows no chains
    for name in ("source", "target", "label", "initial_mask", "accepting_mask"):
        assert np.array_equal(getattr(found, name), getattr(usual, name)), name
    assert np.array_equal(found.labels.label_class, usual.labels.label_class)
    if linked is not None:
        assert linked.num_states == found.num_states == chain.num_states(compile_expression(body))
    wanted = re.compile(f'"{pattern}{{{least},{"" if most is None else most}}}"')
    for word in ("a", "c", "ab", "xyv", "xzuuv", "b", '"b', "aab"):
        for count in (0, 1, 2, 3, 15, 16, 17, 18, 40, 41):
            text = f'"{word * count}"'
            assert found.accepts(text.encode()) == bool(wanted.fullmatch(text)), text


@pytest.mark.parametrize(
    "expression",
    [
        QUOTE + repeat(byte_set(b"ab"), 0, 4) + QUOTE,  # few
        QUOTE + star(byte_set(b"ab")) + QUOTE,  # nothing is counted
        literal("((") + repeat(byte_set(b"ab"), 0, 40) + literal("))"),
        QUOTE + repeat(byte_set(b"ab"), 0, 40),
        QUOTE
        + repeat(compile_block(literal("[") + star(literal("a")) + literal("]")), 0, 40)
        + QUOTE,
    ],
)
def test_nothing_else_is_a_chain(expression):
    assert Chain.of(expression) is None
    assert compile_expression(expression).num_states > 1


def test_a_chain_that_is_too_long_is_refused_before_it_is_made():
    text = QUOTE + repeat(byte_set(b"ab"), 0, 10**12) + QUOTE
    with pytest.raises(AutomatonTooLargeError, match="over the limit of"):
        compile_expression(text)


def test_a_long_chain_is_written_only_where_it_is_entered():
    pieces = [b'"', b"a", b"b", b"aa", b"ab" * 20, b'b"', b"abababab"]
    vocabulary = Vocabulary.from_bytes([*pieces, None], eos_ids=len(pieces))
    text = compile_block(QUOTE + repeat(byte_set(b"ab"), 0, 5_000) + QUOTE)
    lazy, full = TokenMasks(text, vocabulary), MaskTable(lift(compile_expression(text), vocabulary))
    table = lazy._table
    assert isinstance(table, UnfoldingTable)
    states, lazy_states = full.start(), lazy.start()
    most = 0
    for step in range(140):
        assert (full.mask(states) == lazy.mask(lazy_states)).all(), step
        token = 0 if step == 0 else 4 if step < 124 else 6 if step < 127 else 1
        states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)
        assert bool(states) == bool(lazy_states)
        if step == 3:
            most = int(table.is_written.sum())
    assert 0 < most < 1_500
    allowed = np.flatnonzero(unpack(lazy.mask(lazy_states), vocabulary.size)).tolist()
    assert allowed == np.flatnonzero(unpack(full.mask(states), vocabulary.size)).tolist()
    for remaining in (1, 2, 3):
        assert (full.mask(states, remaining) == lazy.mask(lazy_states, remaining)).all()


def test_blocks_deep_inside_a_large_copy_are_entered():
    pieces = [b"[", b"]", b"x", b"x" * 100, b"a", b"[a", b"a]]"]
    vocabulary = Vocabulary.from_bytes([*pieces, None], eos_ids=len(pieces))
    inner = compile_block(literal("[") + star(literal("a")) + literal("]"))
    text = compile_block(literal("[" + "x" * 1_300) + inner + literal("x" * 700 + "]"))
    lazy, full = TokenMasks(text, vocabulary), MaskTable(lift(compile_expression(text), vocabulary))
    assert isinstance(lazy._table, UnfoldingTable)
    states, lazy_states = full.start(), lazy.start()
    for token in [0, *[3] * 13, 5, 4, 1, *[3] * 7, 1]:
        assert (full.mask(states) == lazy.mask(lazy_states)).all()
        assert unpack(full.mask(states), vocabulary.size)[token]
        states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)
    assert (full.mask(states) == lazy.mask(lazy_states)).all()

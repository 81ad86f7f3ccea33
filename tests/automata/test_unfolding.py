"""Automata that are written where they are entered: the same masks, whatever is written."""

from __future__ import annotations

import gc
import itertools
import re
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import Vocabulary, compile_expression
from pcgcd.automata import expressions as ex
from pcgcd.automata.expressions.compilation import compile_block
from pcgcd.automata.lifting import ByteTable, lift, unfolding
from pcgcd.automata.lifting.unfolding import UnfoldingTable
from pcgcd.automata.masks.bits import unpack
from pcgcd.automata.masks.lazy import TokenMasks
from pcgcd.automata.masks.table import MaskTable
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from tests.automata.test_blocks import PAIRS, TEXTS, nested

PIECES = [b"[", b"]", b"a", b",", b"{", b"}", b"[[", b"a]", b"],[a", b",a"]
VOCABULARY = Vocabulary.from_bytes([*PIECES, None], eos_ids=len(PIECES))
MOST = 3


def members(pattern):
    """All sequences of at most MOST tokens whose text Python's ``re`` accepts."""
    for length in range(MOST + 1):
        for ids in itertools.product(range(len(PIECES)), repeat=length):
            if re.fullmatch(pattern, b"".join(PIECES[i] for i in ids).decode()):
                yield ids


@settings(max_examples=40, deadline=None)
@given(pair=PAIRS)
def test_masks_are_those_of_all_texts_that_re_accepts(pair):
    texts = list(members(pair.pattern))
    masks = TokenMasks(pair.expression, VOCABULARY)
    for text in TEXTS[:150]:
        assert masks.matches(text.encode()) == bool(re.fullmatch(pair.pattern, text)), text
    for prefix in [(), *((i,) for i in range(len(PIECES)))]:
        states = masks.start()
        for token in prefix:
            states = masks.advance(states, token)
        for remaining in range(MOST - len(prefix) + 1):
            within = [t for t in texts if len(t) <= len(prefix) + remaining]
            begun = [t for t in within if t[: len(prefix)] == prefix]
            expected = {t[len(prefix)] for t in begun if t != prefix}
            if remaining and prefix in texts:
                expected.add(len(PIECES))
            found = np.flatnonzero(unpack(masks.mask(states, remaining), VOCABULARY.size))
            assert set(found.tolist()) == expected, (prefix, remaining)
            assert masks.can_end(states, remaining) == bool(begun)


@settings(max_examples=40, deadline=None)
@given(pair=PAIRS, random=st.randoms(use_true_random=False))
def test_masks_equal_those_of_the_lifted_automaton(pair, random):
    full = MaskTable(lift(compile_expression(pair.expression), VOCABULARY))
    lazy = TokenMasks(pair.expression, VOCABULARY)
    for budgets in ((None,), (None, 1, 2, 4, 9)):  # what is exact is known from the second on
        states, lazy_states = full.start(), lazy.start()
        for _ in range(8):
            for remaining in budgets:
                assert (full.mask(states, remaining) == lazy.mask(lazy_states, remaining)).all()
            tokens = np.flatnonzero(unpack(full.mask(states), full.vocab_size)).tolist()
            token = random.choice(tokens) if tokens else 0
            states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)
            assert bool(states) == bool(lazy_states)


LETTERS = "abcdefghijklmnop"
WORDS = [text.encode() for text in (*LETTERS, *map("".join, itertools.product(LETTERS, repeat=2)))]


@pytest.mark.parametrize("shape", ["string", "counted", "nested"])
def test_masks_say_nothing_of_other_automata_over_the_same_tokens(shape):
    """Walks are shared between automata, which differ here in the letters of a string only."""
    vocabulary = Vocabulary.from_bytes([*WORDS, b'"', b'a"', b'"]', b"[", b"]", None], eos_ids=277)
    for first in range(len(LETTERS) - 6):
        letters = f"[{LETTERS[first]}-{LETTERS[first + 6]}]"
        part = ex.star(ex.byte_set(LETTERS[first : first + 7].encode()))
        if shape == "counted":
            part = ex.repeat(ex.byte_set(LETTERS[first : first + 7].encode()), 2, 40)
        string = compile_block(ex.literal('"') + part + ex.literal('"'))
        expression = compile_block(ex.literal("[") + string + ex.literal("]"))
        masks = TokenMasks(expression if shape == "nested" else string, vocabulary)
        states = masks.start()
        for token in ([b"["] if shape == "nested" else []) + [b'"']:
            states = masks.advance(states, vocabulary.token_bytes.index(token))
        allowed = np.flatnonzero(unpack(masks.mask(states), vocabulary.size)).tolist()
        found = {vocabulary.token_bytes[token] for token in allowed}
        least = 2 if shape == "counted" else 0
        end = '("]?)?' if shape == "nested" else '"?'
        expected = set()
        for word in vocabulary.token_bytes:
            inside = re.fullmatch(f"({letters}*){end}", (word or b"?").decode())
            closed = inside and inside.group(0) != inside.group(1)
            if inside and (not closed or len(inside.group(1)) >= least):
                expected.add(word)
        assert found == expected, letters


def test_automata_with_choices_are_not_unfolded():
    either = ex.byte_set(b"a,")
    masks = TokenMasks(ex.star(either) + ex.literal("a") + ex.repeat(either, 14, 14), VOCABULARY)
    assert not isinstance(masks._table, UnfoldingTable)
    for text in ("a" * 15, "," + "a" * 15, "a" + "," * 14, "," * 15, "a," * 9, "a" * 14):
        assert masks.matches(text.encode()) == bool(re.fullmatch("[a,]*a[a,]{14}", text)), text


def test_only_what_is_entered_is_written():
    masks = TokenMasks(nested(12, as_blocks=True), VOCABULARY)
    table = masks._table
    assert isinstance(table, UnfoldingTable)
    states = masks.start()
    for token in (6, 4, 0, 2):  # [[{[a
        masks.mask(states)
        states = masks.advance(states, token)
    found = np.flatnonzero(unpack(masks.mask(states), VOCABULARY.size)).tolist()
    assert [PIECES[i] for i in found] == [b"]", b",", b"],[a", b",a"]
    entered = np.unique(table.owner[np.flatnonzero(table.is_written)])
    assert len(entered) <= 12 < len(table.distance) // 100
    assert table.num_states < len(table.distance) // 10
    for unknown in (table.num_states, len(table.distance) - 1, -1):
        with pytest.raises(InvalidParameterError, match="states must lie in"):
            masks.mask(unknown)
    assert masks.shortest_length() == 1
    assert all(table.is_written)
    assert table.num_states == len(table.distance)


@pytest.mark.parametrize("large", [True, False])
def test_large_parts_are_shared_and_forgotten_with_their_tables(large, monkeypatch):
    monkeypatch.setattr(unfolding, "_LARGE", 0 if large else 1 << 30)
    block = compile_block(ex.literal("[") + ex.repeat(ex.literal("a,"), 0, 50) + ex.literal("]"))
    tables = [TokenMasks(block + ex.literal(end), VOCABULARY)._table for end in ("a", ",")]
    first, second = (table.copies[0].part.parts[0] for table in tables)
    assert first is second
    forgotten = ref(first)
    del tables, first, second
    gc.collect()
    assert (forgotten() is None) == large
    assert TokenMasks(block, VOCABULARY).matches(b"[a,a,]")


@pytest.mark.parametrize(
    ("expression", "pieces"),
    [
        (nested(2, as_blocks=True), [b"[", b"a", b"a]", b",", b"{", b"}"]),  # no ] alone
        (compile_block(ex.literal("[a") + ex.star(ex.literal(",a")) + ex.literal("]")), PIECES[1:]),
    ],
)
def test_without_a_token_for_each_byte_everything_is_written(expression, pieces):
    vocabulary = Vocabulary.from_bytes([*pieces, None], eos_ids=len(pieces))
    masks = TokenMasks(expression, vocabulary)
    assert type(masks._table) is ByteTable
    full = MaskTable(lift(compile_expression(expression), vocabulary))
    for remaining in (None, 1, 2, 3, 5):
        found, expected = masks.mask(masks.start(), remaining), full.mask(full.start(), remaining)
        assert (found == expected).all()


def test_too_many_states_are_refused_before_they_are_written():
    huge = nested(40, as_blocks=True)
    with pytest.raises(AutomatonTooLargeError, match="over the limit"):
        TokenMasks(huge, VOCABULARY)
    with pytest.raises(AutomatonTooLargeError, match="limit of 50"):
        TokenMasks(nested(4, as_blocks=True), VOCABULARY, state_limit=50)

"""Masks, against the definition: a token is allowed iff it can be completed in time."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.lifting import lift
from pcgcd.automata.limits import NEVER
from pcgcd.automata.masks.bits import (
    apply_mask,
    count,
    listed,
    log_mask,
    num_words,
    pack,
    unpack,
    unpack_tensor,
)
from pcgcd.automata.masks.lazy import TokenMasks
from pcgcd.automata.masks.table import MaskTable
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError, VocabularyMismatchError
from tests.automata.test_lifting import WIDE, automaton, byte_automata, vocabularies, wide_automata


def successors(fa, states, token):
    allowed = fa.labels.label_class[fa.label, fa.labels.token_class[token]]
    return frozenset(fa.target[allowed & np.isin(fa.source, list(states))].tolist())


def can_accept(fa, states, steps):
    """Whether some token sequence of at most so many tokens is accepted, by trying them all."""
    reached = set(states)
    for _ in range(steps + 1):
        if any(fa.accepting_mask[state] for state in reached):
            return True
        reached = {
            target for token in range(fa.vocab_size) for target in successors(fa, reached, token)
        }
    return False


def expected_mask(fa, states, remaining):
    most = fa.num_states if remaining is None else remaining - 1
    return [
        most >= 0 and can_accept(fa, successors(fa, states, token), most)
        for token in range(fa.vocab_size)
    ]


BUDGETS = (None, 0, 1, 2, 3, 5)


@settings(max_examples=60, deadline=None)
@given(byte_automata(), vocabularies())
def test_a_token_is_allowed_iff_it_can_be_completed_within_the_budget(byte_automaton, vocabulary):
    fa = lift(byte_automaton, vocabulary)
    sets = [(state,) for state in range(fa.num_states)] + [tuple(range(fa.num_states)), ()]
    for states in sets:
        for remaining in BUDGETS:
            words = MaskTable.of(fa).mask(states, remaining)
            found = unpack(words, fa.vocab_size).tolist()
            assert found == expected_mask(fa, states, remaining), (states, remaining)


@settings(max_examples=80, deadline=None)
@given(byte_automata(), vocabularies(), st.randoms(use_true_random=False))
def test_lazy_masks_equal_those_of_the_lifted_automaton(byte_automaton, vocabulary, random):
    full, lazy = MaskTable(lift(byte_automaton, vocabulary)), TokenMasks(byte_automaton, vocabulary)
    for _ in range(4):
        states, lazy_states = full.start(), lazy.start()
        for _ in range(6):
            assert bool(states) == bool(lazy_states)
            for remaining in BUDGETS:
                words = full.mask(states, remaining)
                assert (words == lazy.mask(lazy_states, remaining)).all()
            tokens = np.flatnonzero(unpack(full.mask(states), full.vocab_size)).tolist()
            token = random.choice(tokens) if tokens else 0
            states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)


@settings(max_examples=40, deadline=None)
@given(wide_automata(), st.randoms(use_true_random=False))
def test_lazy_masks_equal_full_ones_over_a_wider_vocabulary(byte_automaton, random):
    full, lazy = MaskTable(lift(byte_automaton, WIDE)), TokenMasks(byte_automaton, WIDE)
    states, lazy_states = full.start(), lazy.start()
    for _ in range(8):
        for remaining in (None, 1, 2, 4):
            words = full.mask(states, remaining)
            assert (words == lazy.mask(lazy_states, remaining)).all()
        tokens = np.flatnonzero(unpack(full.mask(states), full.vocab_size)).tolist()
        token = random.choice(tokens) if tokens else 0
        states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)


@settings(max_examples=60, deadline=None)
@given(byte_automata(), vocabularies(), st.integers(0, 5), st.randoms(use_true_random=False))
def test_following_masks_within_a_budget_always_ends_in_time(
    byte_automaton, vocabulary, budget, random
):
    fa = lift(byte_automaton, vocabulary)
    table = MaskTable.of(fa)
    states, ids = table.start(), []
    shortest = min((int(fa.distance_to_accept[s]) for s in states), default=99)
    for t in range(budget):
        allowed = np.flatnonzero(unpack(table.mask(states, budget - t), fa.vocab_size))
        assert bool(len(allowed)) == (shortest <= budget and budget > 0)
        if not len(allowed):
            return
        ids.append(int(random.choice(allowed.tolist())))
        states = table.advance(states, ids[-1])
    assert fa.accepts(ids) == (shortest <= budget)


def random_automaton(rng, num_states, vocab_size, *, is_deterministic):
    """Edges with anything from one token to nearly all, dead states, several initial ones."""
    edges = []
    for source in range(num_states):
        owner = rng.integers(-1, num_states, vocab_size)
        for target in range(num_states):
            tokens = np.flatnonzero(owner == target)
            if not is_deterministic:
                tokens = rng.choice(vocab_size, rng.integers(0, vocab_size), replace=False)
            if rng.random() < 0.5:
                tokens = tokens[: rng.integers(0, 3)]
            if rng.random() < 0.7:
                edges.append((source, target, tokens))
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=vocab_size,
        initial=[0] if is_deterministic else rng.choice(num_states, 2, replace=False),
        accepting=rng.choice(num_states, 1),
        edges=edges,
    )


def mask_by_advancing(fa, states, remaining):
    """A token is allowed iff a state after it is near enough to acceptance."""
    distance = fa.distance_to_accept
    most = fa.num_states if remaining is None else remaining - 1
    after = [[distance[s] for s in successors(fa, states, v)] for v in range(fa.vocab_size)]
    return [any(steps <= most for steps in found) for found in after]


@pytest.mark.parametrize("is_deterministic", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_masks_of_a_batch_are_those_of_the_definition(seed, is_deterministic):
    rng = np.random.default_rng(seed)
    vocab_size = int(rng.choice([31, 64, 133, 300]))
    fa = random_automaton(rng, 5, vocab_size, is_deterministic=is_deterministic)
    sets = [(state,) for state in range(5)] + [(), (0, 1), (1, 2, 4), (4, 0)]
    batch, budgets = zip(*((states, budget) for states in sets for budget in BUDGETS))
    found = unpack(fa.masks(batch, budgets), vocab_size)
    table = MaskTable(fa)
    for row, states, budget in zip(found, batch, budgets):
        assert row.tolist() == mask_by_advancing(fa, states, budget), (states, budget)
        out = np.full(num_words(vocab_size), 77, dtype=np.uint32)
        assert (table.mask(states, budget, out) == table.mask(states, budget)).all()
        assert (unpack(out, vocab_size) == row).all()


@pytest.mark.parametrize("room", [0, 100, 1 << 20])
def test_masks_do_not_depend_on_what_is_written_beforehand(room, monkeypatch):
    monkeypatch.setattr("pcgcd.automata.masks.table._SET_BYTES", room)
    rng = np.random.default_rng(7)
    fa = random_automaton(rng, 6, 300, is_deterministic=False)
    for states in [*((state,) for state in range(6)), (0, 3, 5)]:
        for budget in BUDGETS:
            found = unpack(MaskTable.of(fa).mask(states, budget), 300).tolist()
            assert found == mask_by_advancing(fa, states, budget), (states, budget)


@pytest.mark.parametrize("seed", range(4))
def test_advancing_follows_every_edge_that_can_still_accept(seed):
    rng = np.random.default_rng(seed)
    fa = random_automaton(rng, 5, 40, is_deterministic=bool(seed % 2))
    distance = fa.distance_to_accept
    for states in [*((s,) for s in range(5)), (), (0, 3), (1, 2, 4)]:
        for token in range(40):
            after = sorted(s for s in successors(fa, states, token) if distance[s] < NEVER)
            assert fa.advance(states, token) == tuple(after)
        for token in (40, -1):
            with pytest.raises(VocabularyMismatchError, match=rf"0\.\.39, but {token} was given"):
                fa.advance(states, token)


def test_many_large_labels_keep_their_tokens():
    rng = np.random.default_rng(0)
    sets = [np.flatnonzero(rng.random(1001) < 0.6) for _ in range(19)]
    edges = [(i, 19, tokens) for i, tokens in enumerate(sets)]
    fa = FiniteAutomaton.from_edges(
        num_states=20, vocab_size=1001, initial=0, accepting=[19], edges=edges
    )
    for row, tokens in zip(unpack(fa.masks(range(19)), 1001), sets):
        assert np.flatnonzero(row).tolist() == tokens.tolist()


def test_batches_may_be_given_in_many_ways():
    rng = np.random.default_rng(3)
    fa = random_automaton(rng, 4, 50, is_deterministic=False)
    indicator = np.array([[True, False, True, False], [False] * 4, [False, True, True, True]])
    sets = [(0, 2), (), (1, 2, 3)]
    expected = fa.masks(sets, 3)
    mixed = [np.array([0, 2]), [], {1, 2, 3}]
    for states in (
        indicator,
        torch.tensor(indicator),
        mixed,
        list(indicator),
        [[0, 2], (), sets[2]],
    ):
        assert (fa.masks(states, 3) == expected).all()
    singles = fa.masks([(1,), (3,)], [2, None])
    for states in (np.array([1, 3]), [1, 3], np.array([[1], [3]])):
        assert (fa.masks(states, np.array([2, 99])) == singles).all()
    assert fa.masks([], None).shape == (0, 2)


def long_string(length):
    """A letter from a-h at most so many times, then a dot; every state has its own number."""
    edges = [(s, s + 1, b"abcdefgh") for s in range(length)]
    edges += [(s, length + 1, b".") for s in range(length + 1)]
    return automaton(edges, num_states=length + 2, accepting={length + 1})


def letters():
    words = [b"a", b"b", b"ab", b"cab", b"abcdefgh", b".", b"h.", b"hh", b"hh.", b"..", b"x"]
    singles = [bytes([b]) for b in b"cdefgh"]
    return Vocabulary.from_bytes([*words, *singles, None], eos_ids=len(words) + len(singles))


@pytest.mark.parametrize("length", [30, 2500])
def test_lazy_masks_of_long_strings_equal_full_ones(length):
    byte_automaton, vocabulary = long_string(length), letters()
    full, lazy = MaskTable(lift(byte_automaton, vocabulary)), TokenMasks(byte_automaton, vocabulary)
    states, lazy_states = full.start(), lazy.start()
    for token in [2, 3, 4, 0, 7, 3, 8]:
        for remaining in (None, 1, 2):
            words = full.mask(states, remaining)
            assert (words == lazy.mask(lazy_states, remaining)).all()
        states, lazy_states = full.advance(states, token), lazy.advance(lazy_states, token)
    assert (full.mask(states) == lazy.mask(lazy_states)).all()


@pytest.mark.parametrize("case", ["little room", "templates are taken"])
def test_lazy_masks_are_the_same_whatever_they_can_share(case, monkeypatch):
    byte_automaton, vocabulary = long_string(30), letters()
    if case == "little room":
        monkeypatch.setattr("pcgcd.automata.masks.lazy._INTERVALS", 1)
    expected = MaskTable(lift(byte_automaton, vocabulary))
    borrowed = vocabulary.templates.borrowed() if "taken" in case else nullcontext()
    lazy = TokenMasks(byte_automaton, vocabulary)
    states, lazy_states = expected.start(), lazy.start()
    with borrowed:
        for token in [2, 0, 3, 7, 6]:
            assert (expected.mask(states) == lazy.mask(lazy_states)).all()
            states, lazy_states = expected.advance(states, token), lazy.advance(lazy_states, token)


def example():
    """a(bc)* over bytes: from state 1 one may stop."""
    edges = [(0, 1, b"a"), (1, 2, b"b"), (2, 1, b"c")]
    byte_automaton = automaton(edges, num_states=3, accepting={1})
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"bc", None, None, b"ab"], eos_ids=[4, 5])
    return byte_automaton, vocabulary


@pytest.mark.parametrize("kind", ["full", "lazy"])
def test_a_batch_is_its_rows(kind):
    byte_automaton, vocabulary = example()
    fa = lift(byte_automaton, vocabulary)
    table = MaskTable(fa) if kind == "full" else TokenMasks(byte_automaton, vocabulary)
    start = table.start()
    after = table.advance(start, 0)
    end = table.advance(after, 5)
    batch, budgets = [start, after, end, list(after), ()], [None, 1, 3, 0, 2]
    rows = table.masks(batch, budgets)
    assert rows.shape == (5, 1)
    for row, states, budget in zip(rows, batch, budgets):
        assert (row == table.mask(states, budget)).all()
    assert unpack(rows[1], 7).tolist() == [False, False, False, True, True, True, False]
    assert unpack(rows[2], 7).tolist() == [False, False, False, False, True, True, False]
    assert (table.masks([start, after], 2) == table.masks([start, after], [2, 2])).all()
    assert table.advance_all([start, after, end], [6, 4, 4])[1:] == [end, end]
    with pytest.raises(VocabularyMismatchError, match="99 was given"):
        table.advance_all([start], [99])
    out = np.full((1, 1), 77, dtype=np.uint32)
    assert table.masks([start], None, out) is out
    assert (out[0] == table.mask(start)).all()


def test_masks_of_single_states_need_no_sequence():
    fa = lift(*example())
    assert (MaskTable.of(fa).masks(np.array([0, 1]), 2)[1] == MaskTable.of(fa).mask(1, 2)).all()
    assert (MaskTable.of(fa).mask([0]) == MaskTable.of(fa).mask(0)).all()


@pytest.mark.parametrize("states", [7, -1, (0, 9), (-2, 0)])
@pytest.mark.parametrize("kind", ["full", "lazy"])
def test_unknown_states_are_refused(states, kind):
    byte_automaton, vocabulary = example()
    table = TokenMasks(byte_automaton, vocabulary)
    if kind == "full":
        table = MaskTable(lift(byte_automaton, vocabulary))
    out = np.zeros(1, dtype=np.uint32)
    for action in (
        lambda: table.mask(states),
        lambda: table.mask(states, 2, out),
        lambda: table.masks([states, 0]),
        lambda: table.advance(states, 0),
    ):
        with pytest.raises(InvalidParameterError, match="states must lie in"):
            action()


@pytest.mark.parametrize("kind", ["full", "lazy"])
def test_arrays_and_budgets_of_other_sizes_are_refused(kind):
    byte_automaton, vocabulary = example()
    table = TokenMasks(byte_automaton, vocabulary)
    if kind == "full":
        table = MaskTable(lift(byte_automaton, vocabulary))
    with pytest.raises(VocabularyMismatchError, match="another vocabulary"):
        table.mask(0, None, np.zeros(2, dtype=np.uint32))
    with pytest.raises(VocabularyMismatchError, match="another vocabulary"):
        table.masks([0, 1], None, np.zeros((3, 1), dtype=np.uint32))
    with pytest.raises(InvalidParameterError, match="remaining"):
        table.masks([0, 1], [2])
    assert (table.mask(0, 2**70) == table.mask(0)).all()


def test_tables_too_large_to_index_are_refused(monkeypatch):
    monkeypatch.setattr("pcgcd.automata.masks.table._MOST_WORDS", 10)
    with pytest.raises(AutomatonTooLargeError, match="words"):
        MaskTable(lift(*example()))


def test_masks_cannot_be_changed_from_outside():
    words = MaskTable.of(lift(*example())).mask(0)
    with pytest.raises(ValueError, match="read-only"):
        words[0] = 0


def test_large_labels_and_small_ones_give_the_same_masks():
    rng = np.random.default_rng(0)
    tokens = [rng.choice(500, size, replace=False) for size in (1, 15, 16, 17, 400, 500)]
    edges = [(0, i + 1, members) for i, members in enumerate(tokens)]
    fa = FiniteAutomaton.from_edges(
        num_states=7, vocab_size=500, initial=0, accepting=[1, 5, 6], edges=edges
    )
    allowed = np.zeros(500, dtype=np.bool_)
    allowed[np.concatenate([tokens[0], tokens[4], tokens[5]])] = True
    assert (unpack(MaskTable.of(fa).mask(0), 500) == allowed).all()


@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_unpacking_undoes_packing(flags):
    words = pack(np.array(flags))
    assert words.shape == (num_words(len(flags)),)
    assert unpack(words, len(flags)).tolist() == flags
    assert unpack_tensor(words, len(flags)).tolist() == flags
    for v, flag in enumerate(flags):
        assert bool(words[v // 32] >> (v % 32) & 1) == flag


def test_logits_of_forbidden_tokens_become_minus_infinity():
    allowed = np.array([[True, False, True], [False, False, True]])
    logits = torch.arange(6.0).reshape(2, 3)
    result = apply_mask(logits, pack(allowed))
    assert torch.isinf(result).tolist() == (~allowed).tolist()
    assert result[0, 2] == 2
    assert torch.isfinite(logits).all()
    assert apply_mask(logits, pack(allowed), in_place=True) is logits
    with pytest.raises(VocabularyMismatchError, match="words"):
        apply_mask(torch.zeros(2, 40), pack(allowed))
    with pytest.raises(InvalidParameterError, match="floating"):
        apply_mask(torch.zeros(3, dtype=torch.long), pack(allowed))


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 64, 301])
def test_a_batch_of_masks_becomes_logarithms_or_lists(vocab_size):
    rng = np.random.default_rng(vocab_size)
    allowed = rng.random((9, vocab_size)) < rng.random((9, 1))
    allowed[3], allowed[4] = False, True
    words = pack(allowed)
    logs = log_mask(words, vocab_size)
    assert (logs.dtype, logs.shape) == (torch.float32, (9, vocab_size))
    assert logs.tolist() == [[0.0 if flag else -np.inf for flag in row] for row in allowed]
    tokens, counts = listed(words, vocab_size)
    assert counts.tolist() == count(words).tolist() == [sum(row) for row in allowed.tolist()]
    assert (tokens.dtype, tokens.shape) == (np.int64, (9, vocab_size))
    for row, flags in zip(tokens.tolist(), allowed):
        inside = np.flatnonzero(flags).tolist()
        assert row == inside + [0] * (vocab_size - len(inside))
    assert listed(words[3:4], vocab_size)[0].shape == (1, 0)
    assert log_mask(words[:0], vocab_size).shape == (0, vocab_size)
    assert listed(words[:0], vocab_size)[0].shape == (0, 0)
    for function in (log_mask, listed):
        with pytest.raises(VocabularyMismatchError, match="another vocabulary"):
            function(words, vocab_size + 32)

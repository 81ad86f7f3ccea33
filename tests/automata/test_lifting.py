"""Lifting to tokens, against enumeration of every short token sequence."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.lifting import ByteTable, lift
from pcgcd.automata.limits import NEVER
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.errors import AutomatonTooLargeError, VocabularyMismatchError

LETTERS = b"ab"


def automaton(edges, *, num_states, initial=(0,), accepting=()):
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=256,
        initial=initial,
        accepting=accepting,
        edges=edges,
    )


@st.composite
def byte_automata(draw, deterministic=False):
    """Random automata over a, b and the two bytes of an accented letter."""
    size = draw(st.integers(1, 5))
    states = st.integers(0, size - 1)
    if deterministic:
        cells = st.tuples(states, st.sampled_from("abé".encode()))
        table = draw(st.dictionaries(cells, states, max_size=12))
        edges = [(s, t, [b]) for (s, b), t in table.items()]
        initial = {draw(states)}
    else:
        texts = st.sampled_from([b"a", b"b", b"ab", b"\xc3", b"\xa9", b"a\xa9", b"ab\xc3"])
        edges = draw(st.lists(st.tuples(states, states, texts), max_size=14))
        initial = draw(st.sets(states, min_size=1, max_size=2))
    accepting = draw(st.sets(states, max_size=3))
    return automaton(edges, num_states=size, initial=initial, accepting=accepting)


@st.composite
def vocabularies(draw):
    """A few tokens: some longer, some equal, some split letters, some are no text, some padding."""
    pool = [b"a", b"b", b"aa", b"ab", b"aba", b"abb", b"\xc3", b"\xa9", b"\xc3\xa9", b"b\xc3"]
    pool += [b"\xa9a", b"z", b"", None]
    tokens = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=6))
    size = len(tokens)
    eos = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=2))
    return Vocabulary.from_bytes(tokens, eos, logits_size=size + draw(st.integers(0, 2)))


def allows(byte_automaton, vocabulary, ids):
    """The law: text tokens that spell an accepted text, then nothing but EOS."""
    eos = set(vocabulary.eos_ids)
    length = next((i for i, token in enumerate(ids) if token in eos), len(ids))
    head, tail = ids[:length], ids[length:]
    if any(token not in eos for token in tail):
        return False
    if any(token >= vocabulary.size or not vocabulary.token_bytes[token] for token in head):
        return False
    return byte_automaton.accepts(b"".join(vocabulary.token_bytes[token] for token in head))


def check_by_enumeration(byte_automaton, vocabulary, longest=4):
    fa = lift(byte_automaton, vocabulary)
    assert fa.vocab_size == vocabulary.logits_size
    for length in range(longest + 1):
        for ids in product(range(vocabulary.logits_size), repeat=length):
            assert fa.accepts(ids) == allows(byte_automaton, vocabulary, ids), ids
    return fa


def number_of_paths(fa, symbols):
    """How many accepting paths spell the symbols."""
    counts = Counter(np.flatnonzero(fa.initial_mask).tolist())
    for symbol in symbols:
        allowed = fa.labels.label_class[fa.label, fa.labels.token_class[symbol]]
        following = Counter()
        for source, target in zip(fa.source[allowed].tolist(), fa.target[allowed].tolist()):
            following[target] += counts[source]
        counts = following
    return sum(number for state, number in counts.items() if fa.accepting_mask[state])


@settings(max_examples=150, deadline=None)
@given(byte_automata(deterministic=True), vocabularies())
def test_lifting_a_dfa_accepts_exactly_the_tokenizations_of_its_texts(byte_automaton, vocabulary):
    fa = check_by_enumeration(byte_automaton, vocabulary, 3)
    assert not fa.initial_mask.any() or fa.is_deterministic


@settings(max_examples=150, deadline=None)
@given(byte_automata(), vocabularies())
def test_lifting_an_nfa_accepts_exactly_the_tokenizations_of_its_texts(byte_automaton, vocabulary):
    check_by_enumeration(byte_automaton, vocabulary, 3)


@settings(max_examples=60, deadline=None)
@given(byte_automata(), vocabularies())
def test_lifting_never_adds_paths(byte_automaton, vocabulary):
    fa = lift(byte_automaton, vocabulary)
    text_tokens = sorted(vocabulary.trie.token.tolist())
    for length in range(4):
        for ids in product(text_tokens, repeat=length):
            paths = number_of_paths(fa, ids)
            assert paths <= number_of_paths(byte_automaton, vocabulary.decode(ids))
            assert number_of_paths(fa, (*ids, vocabulary.eos_ids[0])) == paths


@st.composite
def wide_automata(draw):
    """Automata with wide edges, narrow ones, letters of several bytes, and a few loops."""
    size = draw(st.integers(2, 7))
    states = st.integers(0, size - 1)
    sets = st.sampled_from(
        [
            *(bytes(range(0x61, 0x7B)), bytes(range(0x20, 0x7F)), bytes(range(256))),
            *(bytes(range(0xC2, 0xE0)), bytes(range(0x80, 0xC0))),
            *(b'"', b"\\", b"n", b'a"', b"bc"),
        ]
    )
    if draw(st.booleans()):
        claimed: set[tuple[int, int]] = set()
        edges = []
        for source, target, symbols in draw(st.lists(st.tuples(states, states, sets), max_size=16)):
            free = [b for b in symbols if (source, b) not in claimed]
            claimed.update((source, b) for b in free)
            edges.append((source, target, free))
    else:
        edges = draw(st.lists(st.tuples(states, states, sets), max_size=12))
    accepting = draw(st.sets(states, min_size=1, max_size=2))
    return automaton(edges, num_states=size, initial={draw(states)}, accepting=accepting)


WIDE = Vocabulary.from_bytes(
    [bytes([b]) for b in range(256)]
    + [
        b'a"',
        b'abc"',
        b'"a',
        b'""',
        b"ab",
        b"abc",
        b"abz",
        b"\\n",
        b"a\\n",
        b"a\\nb",
        b'\\"',
        b"n\\",
    ]
    + ["é".encode(), "éa".encode(), "aé".encode(), b"\xa9a", b"a\xc3", "éé".encode(), b"a" * 30]
    + [b"a" * 26 + b'"', b"abc", b"  ", b"a b", None, b"", b"bca", b'bc"n"'],
    eos_ids=[279, 0],
    logits_size=300,
)


def by_brute_force(byte_automaton, vocabulary, states):
    """For each token the states that its bytes lead to, from a set of states."""
    result = {}
    for token in vocabulary.trie.token.tolist():
        current = set(states)
        for byte in vocabulary.token_bytes[token]:
            allowed = byte_automaton.labels.label_class[
                byte_automaton.label, byte_automaton.labels.token_class[byte]
            ]
            here = np.isin(byte_automaton.source, list(current))
            current = set(byte_automaton.target[allowed & here].tolist())
        result[token] = current
    return result


def test_a_table_is_made_once_while_somebody_has_it():
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=256, initial=0, accepting={1}, edges=[(0, 1, b"a"), (1, 1, b"b")]
    )
    table = ByteTable.shared(fa, WIDE)
    assert ByteTable.shared(fa, WIDE) is table
    other = Vocabulary(WIDE.token_bytes, WIDE.eos_ids, WIDE.logits_size + 1)
    assert ByteTable.shared(fa, other) is not table
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None
    assert pickle.loads(pickle.dumps(fa)).num_states == 2


def test_bytes_that_share_only_some_of_their_targets_are_told_apart():
    fa = FiniteAutomaton.from_edges(
        num_states=5,
        vocab_size=256,
        initial=0,
        accepting={4},
        edges=[(0, 1, b"a"), (0, 2, b"b"), (0, 3, b"ab"), (1, 4, b"c"), (2, 4, b"d"), (3, 4, b"e")],
    )
    texts = [b"ac", b"ad", b"ae", b"bc", b"bd", b"be"]
    vocabulary = Vocabulary.from_bytes([*texts, b"a", b"b", b"c", b"d", b"e", None], eos_ids=11)
    lifted = lift(fa, vocabulary)
    for whole, text in enumerate(texts):
        parts = [vocabulary.token_bytes.index(bytes([byte])) for byte in text]
        wanted = text in (b"ac", b"ae", b"bd", b"be")
        assert [lifted.accepts([*ids, 11]) for ids in ([whole], parts)] == [wanted] * 2, text


@settings(max_examples=120, deadline=None)
@given(wide_automata(), st.booleans())
def test_shared_walks_equal_walks_one_by_one(byte_automaton, small):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pcgcd.automata.lifting.from_bytes._SHARED", 100 if small else 0)
        table = ByteTable.of(byte_automaton, WIDE)
    useful = set(np.flatnonzero(table.distance < NEVER).tolist())
    starts = np.array(sorted(useful), dtype=np.int64)
    for vocabulary in (WIDE, Vocabulary(WIDE.token_bytes, WIDE.eos_ids, WIDE.logits_size)):
        _, source, target, label, first, bounds = table.walk(starts, vocabulary, follow=False)
        found = {}
        for s, t, l in zip(source.tolist(), target.tolist(), label.tolist()):
            part = bounds[first[l] : first[l + 1]]
            assert (np.diff(part) > 0).all()
            assert (s, t) not in found
            found[s, t] = {
                int(vocabulary.trie.token[rank])
                for low, high in part.reshape(-1, 2)
                for rank in range(low, high)
            }
        expected = {}
        for s in sorted(useful):
            for token, reached in by_brute_force(byte_automaton, vocabulary, [s]).items():
                for t in reached & useful:
                    expected.setdefault((s, t), set()).add(token)
        assert found == expected


def counted_string(longest):
    """A quoted string of at most so many letters, as a deterministic automaton."""
    letters = bytes(range(0x61, 0x7B))
    edges = [(0, 1, b'"')]
    for i in range(longest):
        edges.append((i + 1, i + 2, letters))
    edges += [(i, longest + 2, b'"') for i in range(1, longest + 2)]
    return automaton(edges, num_states=longest + 3, accepting={longest + 2})


def test_counted_strings_share_their_labels():
    fa = lift(counted_string(200), WIDE)
    longer = lift(counted_string(400), WIDE)
    assert longer.num_states - fa.num_states == 200
    assert longer.labels.num_labels == fa.labels.num_labels
    assert longer.labels.num_classes == fa.labels.num_classes
    text = b'"' + b"a" * 200 + b'"'
    assert fa.accepts(WIDE.greedy(text))
    assert not fa.accepts(WIDE.greedy(b'"' + b"a" * 201 + b'"'))


def test_every_tokenization_of_a_text_is_accepted():
    text = 'aé "bc'.encode()
    edges = [(i, i + 1, [byte]) for i, byte in enumerate(text)]
    fa = lift(automaton(edges, num_states=len(text) + 1, accepting={len(text)}), WIDE)
    tokenizations = list(WIDE.tokenizations(text))
    assert len(tokenizations) == 4
    for ids in tokenizations:
        assert fa.accepts(ids)
        assert fa.accepts((*ids, 279, 0, 279))
        assert not fa.accepts((*ids[:-1], 279))
        assert not fa.accepts((*ids, 279, ids[0]))


def test_labels_are_distinct_and_classes_are_needed():
    fa = lift(counted_string(5), WIDE)
    rows = fa.labels.label_class
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert len(np.unique(rows, axis=1).T) == fa.labels.num_classes
    assert set(fa.label.tolist()) == set(range(len(rows)))


def test_all_states_are_reachable_and_can_accept():
    # Without the token b"b", state 1 is a dead end over tokens, though not over bytes.
    byte_automaton = automaton(
        [(0, 1, b"a"), (1, 2, b"b"), (0, 2, b"c")], num_states=4, accepting={2}
    )
    fa = lift(byte_automaton, Vocabulary.from_bytes([b"a", b"c", None], eos_ids=2))
    assert fa.num_states == 3
    assert fa.accepts([1, 2])
    assert not fa.accepts([0])


def test_the_empty_language_has_no_edges():
    fa = lift(
        automaton([(0, 1, b"a")], num_states=2, accepting={1}),
        Vocabulary.from_bytes([b"b", None], 1),
    )
    assert (fa.num_states, fa.num_edges) == (1, 0)
    assert not fa.accepts([])
    assert not fa.accepts([0])


def test_the_empty_text_can_be_the_only_one():
    fa = lift(automaton([], num_states=1, accepting={0}), Vocabulary.from_bytes([b"b", None], 1))
    assert [fa.accepts(ids) for ids in ([], [1], [1, 1], [0])] == [True, True, True, False]


def test_a_text_token_that_ends_texts_is_not_text():
    fa = lift(
        automaton([(0, 0, b"ab")], num_states=1, accepting={0}),
        Vocabulary.from_bytes([b"a", b"b"], 1),
    )
    assert fa.accepts([0, 0, 1])
    assert not fa.accepts([0, 1, 0])


def test_only_byte_automata_can_be_lifted():
    byte_automaton = automaton([(0, 0, b"a")], num_states=1, accepting={0})
    vocabulary = Vocabulary.from_bytes([b"a", None], 1)
    with pytest.raises(VocabularyMismatchError, match="256 bytes"):
        lift(lift(byte_automaton, vocabulary), vocabulary)


def test_large_token_sets_pass_a_stated_limit(monkeypatch):
    monkeypatch.setattr("pcgcd.automata.lifting.from_bytes._INTERVAL_LIMIT", 10)
    with pytest.raises(AutomatonTooLargeError, match="intervals"):
        lift(counted_string(50), WIDE)


def test_sets_of_states_may_outgrow_their_room():
    size = 3000
    edges = [(0, i, b"a") for i in range(1, size)] + [(i, i, b"a") for i in range(1, size)]
    edges += [(i, (i % (size - 1)) + 1, b"a") for i in range(1, size)]
    fa = lift(
        automaton(edges, num_states=size, accepting={1}),
        Vocabulary.from_bytes([b"a", b"aa", b"aaa", b"aaaa", None], 4),
    )
    assert fa.num_states == size + 1
    from_start = fa.target[fa.source == int(np.flatnonzero(fa.initial_mask)[0])]
    assert len(from_start) == size - 1
    assert fa.labels.tokens(int(fa.label[0])).tolist() == [0, 1, 2, 3]

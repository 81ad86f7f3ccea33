"""Automata: what they accept, determinism, ambiguity, labels, and errors."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
import torch
from automata.fa.nfa import NFA
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import HMM, FiniteAutomaton, condition
from pcgcd.automata import Labels
from pcgcd.circuits import kl_from_conditioning
from pcgcd.circuits.semirings import BOOLEAN, COUNTING
from pcgcd.errors import (
    AmbiguousAutomatonError,
    AmbiguousAutomatonWarning,
    EmptyLanguageError,
    InvalidParameterError,
    StructuralPropertyError,
    VocabularyMismatchError,
)

VOCAB_SIZE = 2


@st.composite
def automata(draw: st.DrawFn, max_states: int = 4) -> FiniteAutomaton:
    num_states = draw(st.integers(1, max_states))
    states = st.integers(0, num_states - 1)
    tokens = st.sets(st.integers(0, VOCAB_SIZE - 1))
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=VOCAB_SIZE,
        initial=draw(st.sets(states, min_size=1)),
        accepting=draw(st.sets(states)),
        edges=draw(st.lists(st.tuples(states, states, tokens), max_size=8)),
    )


def as_automata_lib(fa: FiniteAutomaton) -> NFA:
    """The same automaton in automata-lib, with one more initial state for the several of ours."""
    transitions: dict[str, dict[str, set[str]]] = {str(s): {} for s in range(fa.num_states)}
    for source, target, label in zip(fa.source, fa.target, fa.label):
        for token in fa.labels.tokens(label):
            transitions[str(source)].setdefault(str(token), set()).add(str(target))
    transitions["start"] = {"": {str(s) for s in np.flatnonzero(fa.initial_mask)}}
    return NFA(
        states=set(transitions),
        input_symbols={str(v) for v in range(fa.vocab_size)},
        transitions=transitions,
        initial_state="start",
        final_states={str(s) for s in np.flatnonzero(fa.accepting_mask)},
    )


def count_paths(fa: FiniteAutomaton, word: tuple[int, ...]) -> int:
    """Accepting paths by following every choice."""
    members = [set(fa.labels.tokens(label).tolist()) for label in fa.label]

    def follow(state: int, rest: tuple[int, ...]) -> int:
        if not rest:
            return int(fa.accepting_mask[state])
        return sum(
            follow(int(fa.target[e]), rest[1:])
            for e in range(fa.num_edges)
            if fa.source[e] == state and rest[0] in members[e]
        )

    return sum(follow(int(s), word) for s in np.flatnonzero(fa.initial_mask))


def words(max_length: int) -> list[tuple[int, ...]]:
    return [
        word
        for length in range(max_length + 1)
        for word in itertools.product(range(VOCAB_SIZE), repeat=length)
    ]


@settings(max_examples=150)
@given(fa=automata())
def test_accepts_the_same_words_as_automata_lib(fa: FiniteAutomaton) -> None:
    reference = as_automata_lib(fa)
    for word in words(4):
        assert fa.accepts(word) == reference.accepts_input([str(t) for t in word])


@settings(max_examples=100)
@given(fa=automata())
def test_the_circuit_counts_paths_and_its_support_is_the_language(fa: FiniteAutomaton) -> None:
    for length in (1, 3):
        strings = list(itertools.product(range(VOCAB_SIZE), repeat=length))
        x = torch.tensor(strings)
        counts = [count_paths(fa, word) for word in strings]
        assert fa.value(x, COUNTING).tolist() == counts
        assert fa.value(x, BOOLEAN).tolist() == [fa.accepts(word) for word in strings]
        torch.testing.assert_close(fa.log_value(x).exp(), torch.tensor(counts).float())
        assert fa.partition(length, COUNTING).tolist() == [sum(counts)]


@settings(max_examples=300)
@given(fa=automata())
def test_unambiguous_means_that_no_word_has_two_accepting_paths(fa: FiniteAutomaton) -> None:
    # Two paths through different states p, q part and meet again within S^2 steps each way.
    counts = [count_paths(fa, word) for word in words(6)]
    if fa.is_unambiguous:
        assert max(counts) <= 1
    elif fa.num_states <= 2:
        assert max(counts) > 1
    assert fa.is_indicator == fa.is_unambiguous == (not fa.counts_paths)


@settings(max_examples=200)
@given(fa=automata())
def test_deterministic_means_one_start_and_one_way_for_each_token(fa: FiniteAutomaton) -> None:
    ways = np.zeros((fa.num_states, VOCAB_SIZE), dtype=int)
    for source, label in zip(fa.source, fa.label):
        ways[source, fa.labels.tokens(label)] += 1
    expected = fa.initial_mask.sum() == 1 and ways.max() <= 1
    assert fa.is_deterministic == expected
    if fa.is_deterministic:
        assert fa.is_unambiguous


def test_ambiguity_that_shows_only_after_many_steps() -> None:
    """Cycles of lengths 3 and 5 meet again after 15 steps: the first word with two paths."""
    edges = [(0, 1, {0}), (1, 2, {0}), (2, 3, {0}), (3, 1, {0})]
    edges += [(0, 4, {0}), (4, 5, {0}), (5, 6, {0}), (6, 7, {0}), (7, 8, {0}), (8, 4, {0})]
    fa = FiniteAutomaton.from_edges(
        num_states=9, vocab_size=1, initial=0, accepting={1, 4}, edges=edges
    )
    assert not fa.is_unambiguous
    apart = FiniteAutomaton.from_edges(
        num_states=9, vocab_size=1, initial=0, accepting={1}, edges=edges
    )
    assert apart.is_unambiguous


@settings(max_examples=60)
@given(fa=automata())
def test_the_shortest_length_is_the_shortest_word(fa: FiniteAutomaton) -> None:
    lengths = [len(word) for word in words(6) if word and fa.accepts(word)]
    assert fa.shortest_length() == (min(lengths) if lengths else None)


def test_edges_between_two_states_are_joined_and_empty_ones_dropped() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=4,
        initial=0,
        accepting=[1],
        edges=[(0, 1, {1}), (0, 0, set()), (0, 1, [2, 1]), (1, 1, range(2))],
    )
    assert fa.num_edges == 2
    assert fa.labels.tokens(fa.label[0]).tolist() == [1, 2]
    assert fa.is_deterministic


def test_tokens_may_come_in_any_order_and_more_than_once() -> None:
    ways = ([1, 3, 0], np.array([0, 1, 3]), np.array([3, 0, 1, 1], dtype=np.int32), {0, 1, 3})
    for tokens in ways:
        fa = FiniteAutomaton.from_edges(
            num_states=1, vocab_size=4, initial=0, accepting=[0], edges=[(0, 0, tokens)]
        )
        assert fa.labels.tokens(0).tolist() == [0, 1, 3]
    with pytest.raises(VocabularyMismatchError, match="tokens must lie in"):
        FiniteAutomaton.from_edges(
            num_states=1, vocab_size=4, initial=0, accepting=[0], edges=[(0, 0, np.array([2, 4]))]
        )


def test_tokens_and_states_may_be_integers_of_any_type() -> None:
    for one in (1, np.int64(1), np.uint8(1)):
        fa = FiniteAutomaton.from_edges(
            num_states=2,
            vocab_size=2,
            initial=range(1),
            accepting=[one],
            edges=[(0, one, [one]), (0, 1, range(1)), (0, 1, b"\x00\x01")],
        )
        assert fa.num_edges == 1
        assert [fa.accepts(word) for word in ([], [0], [1])] == [False, True, True]


def test_arrays_are_frozen() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=2, initial=0, accepting=[0], edges=[(0, 0, {1})]
    )
    for array in (fa.source, fa.target, fa.label, fa.initial_mask, fa.labels.label_class):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        fa.num_states = 3  # type: ignore[misc]


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 9)), max_size=6))
def test_labels_keep_the_token_sets(sets: list[set[int]]) -> None:
    arrays = [np.array(sorted(s), dtype=np.int64) for s in sets]
    label, labels = Labels.from_token_sets(arrays, 10)
    for number, tokens in zip(label, sets):
        assert labels.tokens(number).tolist() == sorted(tokens)
    assert labels.num_labels == len({frozenset(s) for s in sets})
    signatures = {tuple(v in s for s in sets) for v in range(10)}
    assert labels.num_classes == len(signatures), "tokens that nothing tells apart share a class"


def test_many_labels_have_exact_classes() -> None:
    """More labels than are packed at a time."""
    arrays = [np.array([i % 700], dtype=np.int64) for i in range(700)]
    label, labels = Labels.from_token_sets(arrays, 800)
    assert labels.num_classes == 701
    assert all(labels.tokens(label[i]).tolist() == [i] for i in range(700))


# -- the empty language -----------------------------------------------------------------------


def test_an_automaton_without_edges_is_the_empty_language() -> None:
    fa = FiniteAutomaton.from_edges(num_states=1, vocab_size=3, initial=0, accepting=[0], edges=[])
    assert fa.log_value(torch.tensor([[0, 1]])).item() == float("-inf")
    assert fa.shortest_length() is None
    with pytest.raises(EmptyLanguageError, match="cannot be met"):
        fa.log_prob(torch.tensor([[0, 1]]))


def test_a_budget_too_small_names_the_smallest_that_works() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=2,
        initial=0,
        accepting=[3],
        edges=[(0, 1, {0}), (1, 2, {0}), (2, 3, {0}), (3, 3, {1})],
    )
    hmm = HMM.random(2, 2, generator=torch.Generator().manual_seed(0))
    for circuit in (fa, hmm * fa):
        with pytest.raises(EmptyLanguageError, match="smallest budget that works is 3") as error:
            circuit.sample(1, length=2)
        assert (error.value.length, error.value.shortest_length) == (2, 3)


# -- conditioning -----------------------------------------------------------------------------


def ambiguous() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=2,
        initial=0,
        accepting=[0, 1],
        edges=[(0, 0, {0, 1}), (0, 1, {1}), (1, 1, {0})],
    )


def test_conditioning_on_an_ambiguous_automaton_raises_or_warns() -> None:
    hmm = HMM.random(2, 2, generator=torch.Generator().manual_seed(0))
    x = torch.tensor([[0, 1]])
    with pytest.raises(AmbiguousAutomatonError, match="several accepting paths"):
        condition(hmm, ambiguous())
    with pytest.warns(AmbiguousAutomatonWarning):
        condition(hmm, ambiguous(), on_ambiguous="warn")
    with pytest.warns(AmbiguousAutomatonWarning, match="not p"):
        (hmm * ambiguous()).log_prob(x)
    with pytest.raises(AmbiguousAutomatonError):
        kl_from_conditioning(hmm, ambiguous(), length=2)
    with pytest.raises(StructuralPropertyError, match="values 0 and 1"):
        condition(hmm, hmm)


def test_kl_from_conditioning_is_the_divergence() -> None:
    hmm = HMM.random(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fa = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=2,
        initial=0,
        accepting=[1],
        edges=[(0, 0, {0}), (0, 1, {1}), (1, 1, {0})],
    )
    x = torch.tensor(list(itertools.product(range(2), repeat=4)))
    log_q, log_p = condition(hmm, fa).log_prob(x), hmm.log_prob(x)
    inside = log_q > -torch.inf
    expected = (log_q[inside].exp() * (log_q - log_p)[inside]).sum()
    torch.testing.assert_close(kl_from_conditioning(hmm, fa, length=4), expected)


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_states": 0}, InvalidParameterError, "at least one state"),
        ({"initial": 5}, InvalidParameterError, r"initial states must lie in 0\.\.1"),
        ({"accepting": {-1}}, InvalidParameterError, "accepting states"),
        ({"edges": [(0, 9, {0})]}, InvalidParameterError, "edge states"),
        ({"edges": [(0, 1, {7})]}, VocabularyMismatchError, "an edge has 7"),
        ({"edges": [(0, 1, {-2})]}, VocabularyMismatchError, "an edge has -2"),
        ({"edges": [(0, 1, [1, 0.7])]}, InvalidParameterError, r"whole numbers, but .* was given"),
        ({"edges": [(0, 1, np.array([0.7]))]}, InvalidParameterError, r"but 0\.7 was given"),
        ({"edges": [(0, 1, [True, False])]}, InvalidParameterError, "whole numbers"),
        ({"edges": [(0, 1, "ab")]}, InvalidParameterError, "but 'a' was given"),
        ({"edges": [(0.7, 1, {0})]}, InvalidParameterError, r"edge states .* but is 0\.7"),
        ({"edges": [(0, "1", {0})]}, InvalidParameterError, r"edge states .* but is '1'"),
        ({"edges": [(0, 1, 2)]}, InvalidParameterError, "a list or a set .* but 2 was"),
        ({"initial": 0.7}, InvalidParameterError, r"initial states .* but 0\.7 was"),
        ({"accepting": 1}, InvalidParameterError, "a list or a set .* but 1 was"),
        ({"initial": [0.7]}, InvalidParameterError, r"initial states .* but 0\.7 was"),
        ({"accepting": {0.7}}, InvalidParameterError, r"accepting states .* but 0\.7 was"),
    ],
)
def test_bad_input_gets_a_clear_error(
    change: dict[str, object], error: type[Exception], message: str
) -> None:
    good: dict[str, object] = {
        "num_states": 2,
        "vocab_size": 3,
        "initial": 0,
        "accepting": {1},
        "edges": [(0, 1, {0})],
    }
    with pytest.raises(error, match=message):
        FiniteAutomaton.from_edges(**{**good, **change})  # type: ignore[arg-type]


def test_functions_of_other_modules_are_methods_with_signature_and_docstring() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=2, initial=0, accepting={0}, edges=[(0, 0, {0})]
    )
    for name in ("union", "repeat", "is_empty", "random_word", "to_dot"):
        method = getattr(fa, name)
        assert method.__self__ is fa
        assert method.__func__ is getattr(FiniteAutomaton, name)
        assert method.__doc__
    assert list(inspect.signature(fa.repeat).parameters) == ["least", "most", "state_limit"]
    assert fa.repeat(most=0).count_words(0) == 1

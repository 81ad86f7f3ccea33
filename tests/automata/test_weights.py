"""Weighted automata: against sums over all paths in exact arithmetic."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import HMM, FiniteAutomaton, condition
from pcgcd.automata import Vocabulary, algebra, lift
from pcgcd.automata import expressions as ex
from pcgcd.automata.cache import AutomatonCache
from pcgcd.automata.drawing import to_svg
from pcgcd.automata.interop import from_dot, from_networkx, to_automata_lib, to_dot, to_networkx
from pcgcd.automata.limits import NEVER, STATE_LIMIT
from pcgcd.automata.products import path_product
from pcgcd.circuits import Composition, Incidence
from pcgcd.errors import (
    AmbiguousAutomatonWarning,
    AutomatonTooLargeError,
    InvalidParameterError,
    StructuralPropertyError,
    VocabularyMismatchError,
)
from tests.automata.test_automaton import automata, count_paths

VOCAB_SIZE = 2
WORDS = [
    word for length in range(5) for word in itertools.product(range(VOCAB_SIZE), repeat=length)
]
common = settings(max_examples=60, deadline=None)

Triple = tuple[int, int, set[int]]


class Example:
    """An automaton, and the edges that it was made from."""

    def __init__(
        self,
        num_states: int,
        initial: set[int],
        accepting: set[int],
        edges: list[Triple],
        weights: list[Fraction],
    ) -> None:
        self.initial, self.accepting = initial, accepting
        self.edges = list(zip(edges, weights))
        self.fa = FiniteAutomaton.from_edges(
            num_states=num_states,
            vocab_size=VOCAB_SIZE,
            initial=initial,
            accepting=accepting,
            edges=edges,
            weights=[float(weight) for weight in weights],
        )

    def value(self, word: Sequence[int]) -> Fraction:
        """The sum over accepting paths, along the edges as they were given."""

        def follow(state: int, rest: Sequence[int]) -> Fraction:
            if not rest:
                return Fraction(int(state in self.accepting))
            return sum(
                (
                    weight * follow(target, rest[1:])
                    for (source, target, tokens), weight in self.edges
                    if source == state and rest[0] in tokens and weight
                ),
                Fraction(0),
            )

        return sum((follow(state, word) for state in self.initial), Fraction(0))


@st.composite
def examples(draw: st.DrawFn, max_states: int = 3) -> Example:
    """Ambiguous ones, with parallel edges that overlap, and with zeros."""
    num_states = draw(st.integers(1, max_states))
    states = st.integers(0, num_states - 1)
    tokens = st.sets(st.integers(0, VOCAB_SIZE - 1))
    edges = draw(st.lists(st.tuples(states, states, tokens), max_size=8))
    eighths = st.integers(0, 40).map(lambda n: Fraction(n, 8))
    weights = draw(st.lists(eighths, min_size=len(edges), max_size=len(edges)))
    return Example(
        num_states, draw(st.sets(states, min_size=1)), draw(st.sets(states)), edges, weights
    )


def values(fa: FiniteAutomaton) -> dict[tuple[int, ...], float]:
    return {word: math.exp(fa.log_weight(word)) for word in WORDS}


def assert_values(fa: FiniteAutomaton, expected: dict[tuple[int, ...], Fraction]) -> None:
    for word, value in expected.items():
        assert math.exp(fa.log_weight(word)) == pytest.approx(float(value), rel=1e-12), word
        assert fa.accepts(word) == (value > 0), word


def soft() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=3,
        initial=0,
        accepting=[1],
        edges=[(0, 0, {0, 1}), (0, 1, {1, 2}), (0, 1, {1})],
        weights=[0.5, 2.0, 3.0],
    )


# -- values -----------------------------------------------------------------------------------


@common
@given(examples())
def test_the_weight_of_a_word_is_the_sum_over_its_paths(example: Example) -> None:
    assert_values(example.fa, {word: example.value(word) for word in WORDS})


@common
@given(examples())
def test_the_circuit_has_the_values_of_the_automaton(example: Example) -> None:
    for length in (1, 3):
        strings = list(itertools.product(range(VOCAB_SIZE), repeat=length))
        expected = torch.tensor([float(example.value(s)) for s in strings], dtype=torch.float64)
        fa = example.fa.to(dtype=torch.float64)
        found = fa.log_value(torch.tensor(strings)).exp()
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)
        if expected.sum() > 0:
            total = fa.log_partition(length).exp()
            torch.testing.assert_close(total, expected.sum(), rtol=1e-12, atol=0.0)


@common
@given(examples())
def test_edges_between_two_states_share_no_token_and_have_positive_weights(
    example: Example,
) -> None:
    fa = example.fa
    assert fa.weight is not None
    assert (fa.weight > 0).all()
    seen: dict[tuple[int, int], set[int]] = {}
    for source, target, label in zip(fa.source.tolist(), fa.target.tolist(), fa.label.tolist()):
        tokens = set(fa.labels.tokens(label).tolist())
        between = seen.setdefault((source, target), set())
        assert not between & tokens
        between |= tokens
    pairs = list(zip(fa.source.tolist(), fa.target.tolist(), fa.weight.tolist()))
    assert len(pairs) == len(set(pairs)), "edges with equal weight are joined"


def test_a_product_with_an_hmm_weighs_every_string_by_both() -> None:
    hmm = HMM.random(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fa = soft().to(dtype=torch.float64)
    x = torch.tensor(list(itertools.product(range(3), repeat=4)))
    expected = hmm.log_prob(x) + torch.tensor([fa.log_weight(word) for word in x.tolist()])
    product = hmm * fa
    torch.testing.assert_close(product.log_value(x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmbiguousAutomatonWarning)
        torch.testing.assert_close(product.log_prob(x), expected - expected.logsumexp(0))
    with pytest.raises(StructuralPropertyError, match="values 0 and 1"):
        condition(hmm, fa)


def test_a_weighted_automaton_is_no_indicator_and_counts_no_paths() -> None:
    ambiguous = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=2, initial=0, accepting=[0], edges=[(0, 0, {0})], weights=[2.0]
    ).union(soft_over_two())
    for fa in (soft(), ambiguous):
        assert fa.is_weighted
        assert not fa.is_indicator
        assert not fa.counts_paths
        assert not fa.support().is_weighted


def soft_over_two() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=1, vocab_size=2, initial=0, accepting=[0], edges=[(0, 0, {0, 1})], weights=[3.0]
    )


def test_messages_stay_on_states() -> None:
    operators = soft().operators
    assert isinstance(operators.transition, Composition)
    assert [factor.shape for factor in operators.transition.factors] == [(3, 2), (2, 3), (3, 3)]
    assert operators.transition.cost == 9
    assert operators.emission.dtype is None, "the emission is of zeros and ones"
    unweighted = soft().support().operators
    assert isinstance(unweighted.initial, Incidence)
    assert len(unweighted.transition.factors) == 2


def test_the_type_of_the_circuit_is_the_default_type_unless_another_is_asked_for() -> None:
    fa = soft()
    x = torch.tensor([[0, 1]])
    assert fa.operators.transition.dtype == fa.log_value(x).dtype == torch.float32
    wide = fa.to(dtype=torch.float64)
    assert wide.operators.transition.dtype == wide.log_value(x).dtype == torch.float64
    assert wide.weight is fa.weight
    assert wide.to(dtype=torch.float32).operators.transition.dtype == torch.float32
    support = fa.support()
    assert support.to(dtype=torch.float64) is support


def test_weights_that_a_narrow_type_cannot_hold_stay_what_they_are() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=1,
        vocab_size=2,
        initial=0,
        accepting=[0],
        edges=[(0, 0, {0}), (0, 0, {1})],
        weights=[1e-60, 1e60],
    )
    found = fa.log_value(torch.tensor([[0, 0, 0], [1, 1, 1], [0, 1, 0]]))
    expected = torch.tensor([-180.0, 180.0, -60.0], dtype=found.dtype) * math.log(10)
    torch.testing.assert_close(found, expected)


def test_no_length_is_too_long_for_the_weight_of_a_word() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=2,
        initial=[0, 1],
        accepting=[1],
        # The path that accepts becomes lighter than the other one by a thousand at each step.
        edges=[(0, 0, {0, 1}), (1, 1, {0, 1})],
        weights=[1.0, 1e-3],
    )
    assert fa.log_weight([0, 1] * 5000) == pytest.approx(10_000 * math.log(1e-3), rel=1e-12)
    doubling = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=1,
        initial=0,
        accepting=[0, 1],
        edges=[(s, t, {0}) for s in (0, 1) for t in (0, 1)],
    )
    assert doubling.log_weight([0] * 10_000) == pytest.approx(10_000 * math.log(2), rel=1e-12)
    assert doubling.log_weight([0, 7]) == doubling.log_weight([-1]) == -math.inf


@common
@given(automata())
def test_without_weights_the_weight_of_a_word_is_its_number_of_paths(fa: FiniteAutomaton) -> None:
    for word in WORDS:
        assert math.exp(fa.log_weight(word)) == pytest.approx(count_paths(fa, word))


# -- the index of edges -----------------------------------------------------------------------


@common
@given(examples())
def test_the_index_has_the_useful_edges_by_source_and_distance(example: Example) -> None:
    fa = example.fa
    index = fa.edge_index
    for state in range(fa.num_states):
        here = [e for e in range(fa.num_edges) if fa.source[e] == state]
        useful = [e for e in here if fa.distance_to_accept[fa.target[e]] < NEVER]
        useful.sort(key=lambda e: int(fa.distance_to_accept[fa.target[e]]))
        places = range(index.first[state], index.first[state + 1])
        assert places == range(*index.first[state : state + 2].tolist())
        assert index.weight is not None
        assert fa.weight is not None
        found = [(index.target[i], index.label[i], index.weight[i]) for i in places]
        assert found == [(fa.target[e], fa.label[e], fa.weight[e]) for e in useful]
        assert (index.source[places.start : places.stop] == state).all()
        assert index.leaving(np.array([state])).tolist() == list(places)
    assert index.first[-1] == len(index.source) == len(index.target)
    for array in (index.first, index.source, index.target, index.label, index.weight):
        assert not array.flags.writeable
    assert fa.edge_index is index
    assert fa.support().edge_index.weight is None


# -- the algebra ------------------------------------------------------------------------------


@common
@given(examples(), examples())
def test_an_intersection_multiplies_weights(left: Example, right: Example) -> None:
    expected = {word: left.value(word) * right.value(word) for word in WORDS}
    assert_values(left.fa.intersection(right.fa), expected)
    assert_values(path_product([left.fa, right.fa], state_limit=STATE_LIMIT), expected)


@common
@given(examples(), examples())
def test_a_union_adds_weights(left: Example, right: Example) -> None:
    expected = {word: left.value(word) + right.value(word) for word in WORDS}
    assert_values(left.fa.union(right.fa), expected)


@common
@given(examples(), automata())
def test_an_automaton_without_weights_has_weights_of_one(left: Example, right: object) -> None:
    assert isinstance(right, FiniteAutomaton)
    paths = {word: count_paths(right, word) for word in WORDS}
    weight = {word: left.value(word) for word in WORDS}
    assert_values(left.fa.intersection(right), {w: weight[w] * paths[w] for w in WORDS})
    assert_values(right.union(left.fa), {w: weight[w] + paths[w] for w in WORDS})


@common
@given(examples())
def test_trimming_and_reversing_keep_weights_and_the_support_keeps_the_words(
    example: Example,
) -> None:
    expected = {word: example.value(word) for word in WORDS}
    assert_values(example.fa.trim(), expected)
    assert_values(example.fa.reverse(), {word[::-1]: value for word, value in expected.items()})
    support = example.fa.support()
    assert support.weight is None
    assert [support.accepts(w) for w in WORDS] == [expected[w] > 0 for w in WORDS]
    pairs = list(zip(support.source.tolist(), support.target.tolist()))
    assert len(pairs) == len(set(pairs))


@common
@given(st.lists(automata(), min_size=1, max_size=3))
def test_a_product_keeps_the_numbers_of_paths(operands: list[FiniteAutomaton]) -> None:
    product = path_product(operands, state_limit=STATE_LIMIT)
    for word in WORDS:
        expected = math.prod(count_paths(fa, word) for fa in operands)
        assert count_paths(product, word) == expected
    assert not product.is_weighted


def test_a_product_has_limits() -> None:
    fa = soft()
    with pytest.raises(AutomatonTooLargeError, match="over the limit of 1"):
        path_product([fa, fa], state_limit=1)
    with pytest.raises(InvalidParameterError, match="at least one automaton"):
        path_product([], state_limit=5)
    with pytest.raises(VocabularyMismatchError, match="one vocabulary"):
        path_product([fa, soft_over_two()], state_limit=5)
    tiny = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=3, initial=0, accepting=[0], edges=[(0, 0, [0])], weights=[1e-200]
    )
    with pytest.raises(InvalidParameterError, match="nearer to one"):
        path_product([tiny, tiny], state_limit=5)


def test_what_would_lose_weights_refuses(tmp_path: Path) -> None:
    fa = soft()
    vocabulary = Vocabulary.from_bytes([b"a", None], eos_ids=1)
    over_bytes = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=256, initial=0, accepting=[0], edges=[(0, 0, b"a")], weights=[2.0]
    )
    lift(over_bytes.support(), vocabulary, cache=tmp_path)
    for operation in (
        lambda: fa.concatenate(fa),
        lambda: fa.star(),
        lambda: fa.option(),
        lambda: fa.complement(),
        lambda: fa.difference(fa),
        lambda: fa.support().difference(fa),
        lambda: fa.determinize(),
        lambda: fa.minimize(),
        lambda: fa.reduce(),
        lambda: fa.shuffle(fa),
        lambda: fa.is_universal(),
        lambda: fa.is_equivalent(fa),
        lambda: fa.count_words(2),
        lambda: fa.random_word(length=2, generator=0),
        lambda: algebra.any_order(fa, fa),
        lambda: lift(over_bytes, vocabulary),
        lambda: lift(over_bytes, vocabulary, cache=tmp_path),
        lambda: AutomatonCache(tmp_path).key(over_bytes, vocabulary),
        lambda: ex.Embedded(over_bytes),
        lambda: to_automata_lib(fa),
    ):
        with pytest.raises(InvalidParameterError, match=r"lose the weights .* fa\.support\(\)"):
            operation()


def test_questions_about_words_are_about_positive_weights() -> None:
    fa = soft()
    assert fa.shortest_word() == (1,)
    assert list(fa.enumerate_words(max_length=1)) == [(1,), (2,)]
    assert not fa.is_empty()
    assert fa.mask(fa.start_states, 1).tolist() == [False, True, True]
    assert fa.advance(fa.start_states, 1) == (0, 1)


@common
@given(examples())
def test_pictures_and_files_keep_weights(example: Example) -> None:
    expected = values(example.fa)
    for again in (from_dot(to_dot(example.fa)), from_networkx(to_networkx(example.fa))):
        assert values(again) == pytest.approx(expected)
        assert again.is_weighted == bool(example.fa.num_edges)


def test_a_picture_shows_weights() -> None:
    picture = to_svg(soft())
    assert "0-1 / 0.5" in picture
    assert "2 / 2; 1 / 5" in picture
    assert "/ " not in to_svg(soft().support()).replace("/>", "")
    assert repr(soft()) == "FiniteAutomaton(2 states, 3 edges, 3 labels, 3 tokens, weighted)"


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "one number for each of the 2 edges, but there are 1"),
        ([1.0, 2.0, 3.0], "but there are 3"),
        ([1.0, -2.0], r"not negative, but -2\.0"),
        ([1.0, float("nan")], "but nan"),
        ([float("inf"), 1.0], "but inf"),
        ([1.0, "heavy"], "must be numbers"),
        ([1.0, None], "must be numbers"),
        ([1.5e308, 1.5e308], "finite"),
    ],
)
def test_bad_weights_get_a_clear_error(weights: list[object], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        FiniteAutomaton.from_edges(
            num_states=2,
            vocab_size=2,
            initial=0,
            accepting=[1],
            edges=[(0, 1, [0]), (0, 1, [0])],
            weights=weights,  # type: ignore[arg-type]
        )


def test_weights_cannot_be_changed() -> None:
    fa = soft()
    assert fa.weight is not None
    with pytest.raises(ValueError, match="read-only"):
        fa.weight[0] = 2.0

"""The algebra of languages, against plain Python sets of all short words and automata-lib."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import FiniteAutomaton
from pcgcd.automata import algebra
from pcgcd.errors import (
    AutomatonTooLargeError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from tests.automata.languages import (
    LENGTH,
    VOCAB_SIZE,
    WORDS,
    Word,
    automata,
    joined,
    language,
    minimal_size,
)

common = settings(max_examples=80, deadline=None)


def chain(*tokens: set[int], vocab_size: int = VOCAB_SIZE) -> FiniteAutomaton:
    """One token of each set, in turn."""
    return FiniteAutomaton.from_edges(
        num_states=len(tokens) + 1,
        vocab_size=vocab_size,
        initial=0,
        accepting=[len(tokens)],
        edges=[(i, i + 1, members) for i, members in enumerate(tokens)],
    )


def last_but(number: int) -> FiniteAutomaton:
    """Token 0 stands ``number`` places before the end."""
    return (
        chain({0, 1}, vocab_size=2).star().concatenate(chain({0}, *[{0, 1}] * number, vocab_size=2))
    )


def same_arrays(a: FiniteAutomaton, b: FiniteAutomaton) -> bool:
    return all(
        np.array_equal(x, y)
        for x, y in [
            (a.source, b.source),
            (a.target, b.target),
            (a.label, b.label),
            (a.labels.label_class, b.labels.label_class),
            (a.labels.token_class, b.labels.token_class),
            (a.initial_mask, b.initial_mask),
            (a.accepting_mask, b.accepting_mask),
        ]
    )


# -- each operation by its definition ---------------------------------------------------------


@common
@given(parts=st.lists(automata(), min_size=1, max_size=4))
def test_union_is_the_union(parts: list[FiniteAutomaton]) -> None:
    assert language(algebra.union(*parts)) == set().union(*map(language, parts))


@common
@given(parts=st.lists(automata(), min_size=1, max_size=3))
def test_concatenation_joins_words(parts: list[FiniteAutomaton]) -> None:
    expected: set[Word] = {()}
    for part in parts:
        expected = joined(expected, language(part))
    assert language(algebra.concatenate(*parts)) == expected


@common
@given(fa=automata(), least=st.integers(0, 3), more=st.none() | st.integers(0, 2))
def test_repeat_joins_as_many_words(fa: FiniteAutomaton, least: int, more: int | None) -> None:
    words = language(fa)
    power: set[Word] = {()}
    expected: set[Word] = set()
    # With the empty word in it, more than LENGTH further copies add nothing.
    for number in range((least + LENGTH if more is None else least + more) + 1):
        if number >= least:
            expected |= power
        power = joined(power, words)
    assert language(fa.repeat(least, None if more is None else least + more)) == expected


@common
@given(fa=automata())
def test_star_and_option_are_repeats(fa: FiniteAutomaton) -> None:
    assert language(fa.option()) == language(fa) | {()}
    assert fa.star().is_equivalent(fa.repeat(0, None))
    assert fa.star().is_equivalent(fa.star().star())


@common
@given(fa=automata())
def test_reverse_reads_backwards(fa: FiniteAutomaton) -> None:
    assert language(fa.reverse()) == {word[::-1] for word in language(fa)}
    assert fa.reverse().reverse().is_equivalent(fa)


@common
@given(parts=st.lists(automata(), min_size=1, max_size=3))
def test_intersection_is_the_intersection(parts: list[FiniteAutomaton]) -> None:
    result = algebra.intersection(*parts)
    assert language(result) == set(WORDS).intersection(*map(language, parts))
    if all(part.is_deterministic for part in parts) and not result.is_empty():
        assert result.is_deterministic


@common
@given(left=automata(), right=automata())
def test_difference_is_the_difference(left: FiniteAutomaton, right: FiniteAutomaton) -> None:
    assert language(left.difference(right)) == language(left) - language(right)


@common
@given(fa=automata())
def test_complement_is_every_other_word(fa: FiniteAutomaton) -> None:
    assert language(fa.complement()) == set(WORDS) - language(fa)


@common
@given(left=automata(3), right=automata(3))
def test_shuffle_interleaves_tokens(left: FiniteAutomaton, right: FiniteAutomaton) -> None:
    def interleavings(a: Word, b: Word) -> set[Word]:
        result = set()
        for places in itertools.combinations(range(len(a) + len(b)), len(a)):
            first, second = iter(a), iter(b)
            result.add(
                tuple(next(first if i in places else second) for i in range(len(a) + len(b)))
            )
        return result

    expected = set().union(
        *(
            interleavings(a, b)
            for a in language(left)
            for b in language(right)
            if len(a) + len(b) <= LENGTH
        )
    )
    assert language(left.shuffle(right)) == expected


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(st.tuples(automata(2), st.booleans()), min_size=1, max_size=3),
    separator=st.none() | automata(2),
    least=st.integers(0, 2),
    most=st.none() | st.integers(0, 3),
)
def test_any_order_is_every_order_of_every_choice(
    members: list[tuple[FiniteAutomaton, bool]],
    separator: FiniteAutomaton | None,
    least: int,
    most: int | None,
) -> None:
    between = {()} if separator is None else language(separator)
    languages = [language(fa) for fa, _ in members]
    required = [flag for _, flag in members]
    expected: set[Word] = set()
    for number in range(least, len(members) + 1):
        for order in itertools.permutations(range(len(members)), number):
            missing = any(flag and i not in order for i, flag in enumerate(required))
            if missing or (most is not None and number > most):
                continue
            words: set[Word] = {()}
            for place, i in enumerate(order):
                words = joined(joined(words, between if place else {()}), languages[i])
            expected |= words
    result = algebra.any_order(
        *(fa for fa, _ in members),
        required=required,
        separator=separator,
        least=least,
        most=most,
    )
    assert language(result) == expected


# -- the same language ------------------------------------------------------------------------


@common
@given(fa=automata(5))
def test_the_minimal_automaton_is_as_small_as_automata_libs(fa: FiniteAutomaton) -> None:
    smallest = fa.minimize()
    assert smallest.is_deterministic
    assert language(smallest) == language(fa)
    assert smallest.num_states == minimal_size(fa)


@common
@given(fa=automata(5))
def test_determinize_trim_and_reduce_keep_the_language(fa: FiniteAutomaton) -> None:
    words = language(fa)
    deterministic, trim, small = fa.determinize(), fa.trim(), fa.reduce()
    assert deterministic.is_deterministic
    assert language(deterministic) == language(trim) == language(small) == words
    assert small.num_states <= trim.num_states <= fa.num_states
    assert same_arrays(small.reduce(), small) or small.reduce().num_states == small.num_states


@common
@given(fa=automata(5))
def test_the_minimal_automaton_is_unique(fa: FiniteAutomaton) -> None:
    """Also by Brzozowski's way: determinize the reverse, twice."""
    smallest = fa.minimize()
    twice = fa.reverse().determinize().reverse().determinize()
    assert twice.trim().num_states == smallest.num_states
    for other in (twice, fa.reduce(), fa.union(fa), fa.complement().complement()):
        assert same_arrays(other.minimize(), smallest)


@common
@given(fa=automata())
def test_reduce_merges_bisimilar_states(fa: FiniteAutomaton) -> None:
    assert algebra.union(fa, fa, fa).reduce().num_states <= fa.trim().num_states


# -- laws -------------------------------------------------------------------------------------

Operation = Callable[[FiniteAutomaton, FiniteAutomaton, FiniteAutomaton], FiniteAutomaton]

LAWS: dict[str, tuple[Operation, Operation]] = {
    "De Morgan": (
        lambda a, b, c: a.union(b).complement(),
        lambda a, b, c: a.complement().intersection(b.complement()),
    ),
    "double complement": (lambda a, b, c: a.complement().complement(), lambda a, b, c: a),
    "union is idempotent": (lambda a, b, c: a.union(a), lambda a, b, c: a),
    "intersection is idempotent": (lambda a, b, c: a.intersection(a), lambda a, b, c: a),
    "union commutes": (lambda a, b, c: a.union(b), lambda a, b, c: b.union(a)),
    "concatenation is associative": (
        lambda a, b, c: a.concatenate(b).concatenate(c),
        lambda a, b, c: a.concatenate(b, c),
    ),
    "concatenation distributes over union": (
        lambda a, b, c: a.concatenate(b.union(c)),
        lambda a, b, c: a.concatenate(b).union(a.concatenate(c)),
    ),
    "intersection distributes over union": (
        lambda a, b, c: a.intersection(b.union(c)),
        lambda a, b, c: a.intersection(b).union(a.intersection(c)),
    ),
    "reverse of a concatenation": (
        lambda a, b, c: a.concatenate(b).reverse(),
        lambda a, b, c: b.reverse().concatenate(a.reverse()),
    ),
    "star of a union": (
        lambda a, b, c: a.union(b).star(),
        lambda a, b, c: a.star().concatenate(b.star()).star(),
    ),
    "a star unrolls": (
        lambda a, b, c: a.star(),
        lambda a, b, c: a.concatenate(a.star()).option(),
    ),
    "difference by intersection": (
        lambda a, b, c: a.difference(b),
        lambda a, b, c: a.intersection(b.complement()),
    ),
    "shuffle commutes": (lambda a, b, c: a.shuffle(b), lambda a, b, c: b.shuffle(a)),
    "two members in any order": (
        lambda a, b, c: algebra.any_order(a, b, separator=c),
        lambda a, b, c: a.concatenate(c, b).union(b.concatenate(c, a)),
    ),
}


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=25, deadline=None)
@given(a=automata(3), b=automata(3), c=automata(3))
def test_laws(law: str, a: FiniteAutomaton, b: FiniteAutomaton, c: FiniteAutomaton) -> None:
    left, right = LAWS[law]
    assert left(a, b, c).is_equivalent(right(a, b, c))


# -- questions --------------------------------------------------------------------------------


@common
@given(left=automata(3), right=automata(3))
def test_equivalence_emptiness_and_universality(
    left: FiniteAutomaton, right: FiniteAutomaton
) -> None:
    apart = left.difference(right).union(right.difference(left))
    assert left.is_equivalent(right) == apart.is_empty()
    if left.is_equivalent(right):
        assert language(left) == language(right)
    assert left.is_empty() == algebra.is_empty(left) == left.complement().is_universal()
    if left.is_empty():
        assert not language(left)
    elif left.num_states <= LENGTH:
        assert language(left), "a word of at most S - 1 tokens"
    assert left.union(left.complement()).is_universal()


# -- vocabularies, sizes, errors --------------------------------------------------------------


def test_operands_get_common_classes() -> None:
    low = chain(set(range(600)), vocab_size=1000)
    high = chain(set(range(500, 1000)), vocab_size=1000)
    both = low.intersection(high)
    assert both.labels.tokens(both.label[0]).tolist() == list(range(500, 600))
    assert both.labels.num_classes == 2
    assert low.union(high).minimize().labels.num_classes == 1
    many = algebra.union(*(chain({i, 999 - i}, vocab_size=1000) for i in range(300)))
    assert many.labels.num_classes == 301
    assert many.minimize().labels.tokens(0).tolist() == [*range(300), *range(700, 1000)]


def test_vocabularies_must_agree() -> None:
    for operation in (algebra.union, algebra.concatenate, algebra.intersection):
        with pytest.raises(VocabularyMismatchError, match="2 and 3 tokens"):
            operation(chain({0}, vocab_size=2), chain({0}, vocab_size=3))


def test_n_ary_concatenation_is_linear() -> None:
    part = chain({0}, {1, 2})
    assert algebra.concatenate(*[part] * 500).num_states == 1001
    assert part.repeat(500, 500).num_states == 1001


def test_determinization_is_exponential_and_raises_over_its_limit() -> None:
    assert last_but(3).minimize().num_states == 16
    assert last_but(3).reduce().num_states == 5
    for operation in (
        last_but(40).determinize,
        last_but(40).minimize,
        last_but(40).complement,
        last_but(40).is_universal,
        lambda **limit: last_but(40).is_equivalent(last_but(41), **limit),
    ):
        with pytest.raises(AutomatonTooLargeError, match=r"over the limit of 1,000.*state_limit"):
            operation(state_limit=1000)


def test_products_and_copies_raise_over_their_limits() -> None:
    cycles = [chain(*[{0}] * p, vocab_size=1).star() for p in (97, 101, 103)]
    with pytest.raises(AutomatonTooLargeError, match="the intersection of automata"):
        algebra.intersection(*cycles, state_limit=20_000)
    long = chain(*[{0}] * 999, vocab_size=1)
    with pytest.raises(AutomatonTooLargeError, match="shuffle of the automata needs 1,000,000"):
        long.shuffle(long)
    with pytest.raises(AutomatonTooLargeError, match="1,000 copies of 1,000 states"):
        long.repeat(0, 1000)
    with pytest.raises(AutomatonTooLargeError, match="60 members in any order"):
        algebra.any_order(*[chain({0}, vocab_size=1)] * 60)


def test_bad_arguments_get_a_clear_error() -> None:
    with pytest.raises(InvalidParameterError, match="at least one automaton"):
        algebra.union()
    with pytest.raises(InvalidParameterError, match="cannot repeat"):
        chain({0}).repeat(3, 2)
    with pytest.raises(InvalidParameterError, match="1 entries for 2 members"):
        algebra.any_order(chain({0}), chain({1}), required=[True])


def test_a_circuits_product_is_not_a_languages() -> None:
    fa = chain({0, 1})
    assert not isinstance(fa * fa, FiniteAutomaton)

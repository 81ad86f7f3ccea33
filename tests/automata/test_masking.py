"""Masks as methods: against completions tried one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd import FiniteAutomaton
from pcgcd.automata.masks.bits import unpack
from pcgcd.circuits.semirings import BOOLEAN
from tests.automata.test_automaton import VOCAB_SIZE, automata


def can_finish(fa: FiniteAutomaton, prefix: tuple[int, ...], most: int) -> bool:
    """Whether some completion of at most that many tokens is accepted."""
    return any(
        fa.accepts((*prefix, *rest))
        for length in range(most + 1)
        for rest in itertools.product(range(VOCAB_SIZE), repeat=length)
    )


@settings(max_examples=80)
@given(fa=automata(), prefix=st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=3))
def test_a_token_is_allowed_iff_the_text_can_be_finished_in_time(
    fa: FiniteAutomaton, prefix: list[int]
) -> None:
    states = fa.start_states
    for token in prefix:
        states = fa.advance(states, token)
    for remaining in range(1, 4):
        expected = [can_finish(fa, (*prefix, v), remaining - 1) for v in range(VOCAB_SIZE)]
        assert fa.mask(states, remaining).tolist() == expected
    if fa.num_states <= 3:  # any length: no more than S further tokens are needed
        expected = [can_finish(fa, (*prefix, v), 3) for v in range(VOCAB_SIZE)]
        assert fa.mask(states).tolist() == expected


def counting() -> FiniteAutomaton:
    """One to three times token 0, then padding with token 1."""
    return FiniteAutomaton.from_edges(
        num_states=5,
        vocab_size=2,
        initial=0,
        accepting={1, 2, 3, 4},
        edges=[(0, 1, {0}), (1, 2, {0}), (2, 3, {0}), *((s, 4, {1}) for s in (1, 2, 3, 4))],
    )


def test_states_may_be_given_in_many_ways() -> None:
    fa = counting()
    indicator = np.array([False, True, False, False, False])
    for states in (1, (1,), [1], {1}, np.array([1]), indicator, torch.tensor(indicator)):
        assert fa.mask(states, 2).tolist() == [True, True]
    assert fa.mask(fa.initial, 1).tolist() == [True, False]
    assert fa.advance(fa.initial, 0) == (1,)


def test_masks_of_a_batch_are_those_of_its_rows() -> None:
    fa = counting()
    prefixes = [(0,), (1,), (3,), ()]
    packed = fa.masks(prefixes, [1, 2, None, 3])
    for row, states, remaining in zip(unpack(packed, 2), prefixes, [1, 2, None, 3]):
        assert row.tolist() == fa.mask(states, remaining).tolist()


def test_the_mask_is_the_support_of_the_circuit() -> None:
    fa = counting()
    x = torch.tensor([[0, v, -1, -1] for v in range(2)])
    assert fa.value(x, BOOLEAN).tolist() == fa.mask(fa.advance(fa.start_states, 0), 3).tolist()


def test_a_mask_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        counting().mask(0)[0] = False

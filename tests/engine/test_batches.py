"""Rows do not know of each other: batches, selections, several constraints and budgets."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

from pcgcd import FiniteAutomaton, constraints
from pcgcd.engine import ChainEngine, PrefixState, scoring, start_batch
from pcgcd.errors import InvalidParameterError
from tests.engine.worlds import (
    VOCAB_SIZE,
    padded_automata,
    random_automaton,
    random_hmm,
    random_monarch,
    vocabulary,
)

PADDED = padded_automata()


def everything(state: PrefixState) -> tuple[torch.Tensor, ...]:
    return (
        state.next_tokens().dense(VOCAB_SIZE).double(),
        state.log_lookahead(),
        state.log_prefix,
        torch.tensor(state.remaining),
    )


def same(found: PrefixState, expected: PrefixState) -> None:
    for a, b in zip(everything(found), everything(expected)):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)
    assert found.live_states == expected.live_states


def random_step(state: PrefixState, rng: np.random.Generator) -> list[int]:
    """An allowed token for each row; now and then another one."""
    allowed = state.next_tokens().dense(VOCAB_SIZE).isfinite().numpy()
    return [
        int(rng.choice(np.flatnonzero(row)))
        if row.any() and rng.random() < 0.9
        else int(rng.integers(VOCAB_SIZE))
        for row in allowed
    ]


def test_select_permutes_repeats_and_drops_everything() -> None:
    rng = np.random.default_rng(0)
    state = ChainEngine(random_hmm(0), PADDED["suffix"]).start([6, 5, 4, 6, 7])
    for _ in range(5):
        state = state.advance(random_step(state, rng))
        chosen = rng.integers(0, 5, int(rng.integers(1, 9))).tolist()
        selected = state.select(chosen)
        for found, whole in zip(everything(selected), everything(state)):
            torch.testing.assert_close(found, whole[chosen], atol=0, rtol=0)
        assert selected.live_states == tuple(state.live_states[i] for i in chosen)
        same(selected.advance([0] * len(chosen)), state.advance([0] * 5).select(chosen))
    with pytest.raises(InvalidParameterError, match=r"rows must lie in 0\.\.4"):
        state.select([5])
    assert state.select([]).next_tokens().num_rows == 0


def step_together(
    batch: PrefixState, single: list[PrefixState], rng: np.random.Generator
) -> tuple[PrefixState, list[PrefixState]]:
    """Compare a batch with its rows, then go on with the same tokens."""
    whole = everything(batch)
    for i, one in enumerate(single):
        for a, b in zip(whole, everything(one)):
            torch.testing.assert_close(a[i : i + 1], b, atol=1e-6, rtol=1e-6)
    tokens = random_step(batch, rng)
    return batch.advance(tokens), [one.advance([token]) for one, token in zip(single, tokens)]


@pytest.mark.parametrize("model", [random_hmm, random_monarch])
@pytest.mark.parametrize("nfa", [False, True])
def test_a_batch_equals_its_rows_one_by_one(model: type, nfa: bool) -> None:
    rng = np.random.default_rng(1)
    fa = random_automaton(5) if nfa else PADDED["star"]
    engine = ChainEngine(model(1), fa)
    budgets = [n for n in (3, 4, 5, 6) if engine.log_mass(n) > -np.inf] * 3
    batch, single = engine.start(budgets), [engine.start([n]) for n in budgets]
    for _ in range(4):
        for i, one in enumerate(single):
            same(batch.select([i]), one)
        batch, single = step_together(batch, single, rng)


def test_several_constraints_models_and_budgets_share_a_batch() -> None:
    rng = np.random.default_rng(2)
    first, second = random_hmm(0), random_monarch(1)
    items = [
        (ChainEngine.of(hmm, fa), budget)
        for hmm in (first, second)
        for fa, budget in ((PADDED["star"], 4), (PADDED["suffix"], 6), (PADDED["literal"], 4))
    ] * 2
    batch = start_batch(items)
    single = [engine.start([budget]) for engine, budget in items]
    for _ in range(5):
        batch, single = step_together(batch, single, rng)


def test_few_tokens_are_listed_and_many_are_not() -> None:
    """A vocabulary of 256 bytes: a literal allows one of them, free text most."""
    from pcgcd import Vocabulary

    words = Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), None], eos_ids=256)
    hmm = random_hmm(0, vocab_size=257)
    fa = constraints.regex('"[a-z ]*"').compile(words)
    free = constraints.any_text().compile(words)
    listed, whole = ChainEngine(hmm, fa), ChainEngine(hmm, free)
    state = listed.start([8, 8])
    few = state.next_tokens()
    assert few.tokens is not None
    assert few.tokens[:, 0].tolist() == [ord('"')] * 2
    assert whole.start([8]).next_tokens().tokens is None
    inside = state.advance([ord('"')] * 2).next_tokens()
    allowed = fa.mask(fa.advance(fa.start_states, ord('"')), 7)
    assert inside.tokens is not None
    np.testing.assert_array_equal(inside.dense(257)[0].isfinite().numpy(), allowed)
    mixed = start_batch([(listed, 8), (whole, 8)])
    torch.testing.assert_close(mixed.next_tokens().dense(257)[:1], few.dense(257)[:1])
    assert mixed.next_tokens().tokens is None


def test_one_engine_for_each_pair_as_long_as_both_exist() -> None:
    hmm, fa = random_hmm(0), constraints.literal("ab").compile(vocabulary())
    engine = ChainEngine.of(hmm, fa)
    engine.prepare(4)
    assert ChainEngine.of(hmm, fa) is engine
    assert ChainEngine.of(hmm, PADDED["star"]) is not engine
    known, model = weakref.ref(engine), weakref.ref(engine.guide)
    del engine, fa
    gc.collect()
    assert known() is None
    assert model() is not None
    del hmm
    gc.collect()
    assert model() is None


def test_rows_of_equal_prefixes_are_computed_once() -> None:
    state = ChainEngine(random_hmm(0), PADDED["star"]).start([4] * 8)
    assert len(state._distinct[0]) == 1
    after = state.advance([0, 2, 0, 2, 0, 0, 0, 2])
    assert len(after._distinct[0]) == 2
    assert len(after.select([0, 2, 4]).advance([1, 1, 1])._distinct[0]) == 1


def test_states_do_not_change() -> None:
    state = ChainEngine(random_hmm(0), PADDED["star"]).start([4])
    before = everything(state)
    state.advance([0]).advance([1])
    for a, b in zip(everything(state), before):
        assert torch.equal(a, b)
    with pytest.raises(AttributeError, match="does not change"):
        state._rows = ()


def test_automata_without_edges_accept_the_empty_text_only() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=VOCAB_SIZE, initial=0, accepting=[0], edges=[]
    )
    state = ChainEngine(random_hmm(0), fa).start([0])
    assert state.log_lookahead().item() == 0.0


def test_candidates_of_a_batch_do_not_depend_on_where_engines_are_in_memory() -> None:
    """Otherwise the same seed would draw other tokens in another process."""
    engines = [ChainEngine.of(random_hmm(0), fa) for fa in PADDED.values()]
    one, other = (scoring._joined(chosen) for chosen in (engines, engines[::-1]))
    np.testing.assert_array_equal(one[0].order, other[0].order)
    np.testing.assert_array_equal(one[0].first, other[0].first)
    for mine, theirs in zip(one[1], other[1][::-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)

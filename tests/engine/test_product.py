"""The engine against sums over every string, and against the queries of the general product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton, MonarchHMM
from pcgcd.engine import ChainEngine, ChainState
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, VocabularyMismatchError
from tests.engine.worlds import (
    VOCAB_SIZE,
    Oracle,
    half_precision,
    padded_automata,
    random_automaton,
    random_hmm,
    random_monarch,
    strings,
)

SEEDS = range(12)
MODELS = {
    "dense": random_hmm,
    "monarch": random_monarch,
    "bfloat16": lambda seed: half_precision(random_hmm(seed)),
}
PADDED = padded_automata()


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found.double(), expected.double(), atol=tolerance, rtol=tolerance)


def after(state: ChainState, prefix: Sequence[int]) -> ChainState:
    for token in prefix:
        state = state.advance([token] * state.num_rows)
    return state


def check_every_prefix(hmm: HMM | MonarchHMM, fa: FiniteAutomaton, length: int) -> int:
    oracle = Oracle(hmm, fa, length)
    engine = ChainEngine(hmm, fa)
    if oracle.mass() == 0:
        with pytest.raises(EmptyLanguageError):
            engine.start([length])
        assert engine.log_mass(length) == -math.inf
        return 0
    assert engine.log_mass(length) == pytest.approx(math.log(oracle.mass()), abs=1e-5)
    start = engine.start([length])
    checked = 0
    for prefix in oracle.prefixes():
        state = after(start, prefix)
        mass, chance = oracle.mass(prefix), oracle.guided(prefix)
        assert state.remaining.tolist() == [length - len(prefix)]
        assert state.log_prefix.item() == pytest.approx(math.log(chance), abs=1e-5)
        assert state.log_lookahead().item() == pytest.approx(math.log(mass / chance), abs=1e-5)
        found = state.next_tokens().dense(fa.vocab_size)[0]
        if len(prefix) < length:
            close(found, oracle.next_tokens(prefix))
            ahead = state.next_lookaheads().dense(fa.vocab_size)[0]
            for token, change in enumerate(ahead.tolist()):
                mass_after = oracle.mass((*prefix, token))
                chance_after = oracle.guided((*prefix, token))
                expected = mass_after / chance_after / (mass / chance) if mass_after else 0.0
                assert math.exp(change) == pytest.approx(expected, rel=1e-4)
        else:
            assert bool((found == -torch.inf).all())
        checked += 1
    return checked


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("deterministic", [True, False])
def test_every_prefix_of_every_string_has_the_mass_of_its_completions(
    model: str, deterministic: bool
) -> None:
    checked = 0
    for seed in SEEDS:
        fa = random_automaton(seed, deterministic=deterministic)
        for length in (1, 2, 3):
            checked += check_every_prefix(MODELS[model](seed), fa, length)
    assert checked > 200


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("model", MODELS)
def test_constraints_padded_with_eos(name: str, model: str) -> None:
    assert sum(check_every_prefix(MODELS[model](3), PADDED[name], n) for n in (1, 2, 3, 4)) > 0


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_engine_agrees_with_the_queries_of_the_circuit_product(deterministic: bool) -> None:
    length, checked = 4, 0
    for seed in SEEDS:
        hmm, fa = random_hmm(seed), random_automaton(seed, deterministic=deterministic)
        product = hmm.to(dtype=torch.float64) * fa
        engine = ChainEngine(hmm, fa)
        if engine.log_mass(length) == -math.inf:
            continue
        close(torch.tensor(engine.log_mass(length)), product.log_partition(length))
        for prefix in ([], [0], [1], [2, 1], [3, 3, 0]):
            tokens = torch.tensor([prefix + [-1] * (length - len(prefix))])
            expected = product.log_marginal(tokens)
            state = after(engine.start([length]), prefix)
            if bool(torch.isneginf(expected)):
                assert state.log_lookahead().item() == -math.inf
                continue
            mass = state.log_prefix + state.log_lookahead()
            close(mass, expected + product.log_partition(length))
            evidence = torch.tensor([prefix], dtype=torch.long).reshape(1, -1)
            close(
                state.next_tokens().dense(VOCAB_SIZE),
                product.next_token_log_probs(evidence, length=length),
            )
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("name", PADDED)
def test_the_support_is_the_mask_of_gcd(name: str) -> None:
    fa = PADDED[name]
    engine = ChainEngine(random_hmm(1), fa)
    for budget in range(5):
        if engine.log_mass(budget) == -math.inf:
            continue
        for length in range(budget + 1):
            for prefix in strings(length):
                state, live = after(engine.start([budget]), prefix), fa.start_states
                for token in prefix:
                    live = fa.advance(live, token)
                mask = fa.mask(live, budget - length)
                found = state.next_tokens().dense(VOCAB_SIZE)[0].isfinite().numpy()
                alive = bool((fa.distance_to_accept[list(live)] <= budget - length).any())
                assert state.live_states[0] == live
                assert bool(state.viable()) == alive
                np.testing.assert_array_equal(found, mask if alive else np.zeros_like(mask))


def test_allowed_tokens_without_mass_keep_the_smallest_weight() -> None:
    emission = torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    hmm = HMM(torch.tensor([0.5, 0.5]), torch.full((2, 2), 0.5), emission)
    engine = ChainEngine(hmm, PADDED["star"])
    state = engine.start([4])
    found = state.next_tokens().dense(VOCAB_SIZE)[0]
    smallest = math.log(torch.finfo(torch.float32).tiny)
    assert found.isneginf().tolist() == [False, True, False, False]
    ended = state.advance([3])  # the HMM never ends a text
    assert ended.log_prefix.item() == -math.inf
    assert ended.log_lookahead().item() == state.log_lookahead().item()
    assert ended.next_tokens().dense(VOCAB_SIZE)[0].tolist() == [-math.inf] * 3 + [0.0]
    middle = engine.start([3]).advance([0])
    assert middle.log_lookahead().item() == pytest.approx(smallest)
    exact = engine.start([2]).next_tokens().dense(VOCAB_SIZE)[0]
    assert exact[0].item() == pytest.approx(0.0, abs=1e-6)
    assert exact[[2, 3]].tolist() == pytest.approx([smallest, smallest])


def test_a_row_without_mass_falls_back_to_the_mask() -> None:
    hmm = HMM(torch.tensor([1.0]), torch.ones(1, 1), torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
    state = ChainEngine(hmm, PADDED["one or two"]).start([2])
    found = state.next_tokens().dense(VOCAB_SIZE)[0].exp()
    assert found.tolist() == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert state.log_lookahead().item() == pytest.approx(math.log(torch.finfo().tiny))
    assert state.advance([1]).log_lookahead().item() == state.log_lookahead().item()


def test_a_token_that_is_not_allowed_kills_the_row() -> None:
    state = ChainEngine(random_hmm(0), PADDED["literal"]).start([3]).advance([1])
    assert state.live_states == ((),)
    assert state.log_lookahead().item() == -math.inf
    assert bool(state.next_tokens().dense(VOCAB_SIZE).isneginf().all())
    assert state.advance([0]).live_states == ((),)
    late = ChainEngine(random_hmm(0), PADDED["literal"]).start([2])
    assert not late.advance([0]).viable()  # no time is left for "ba" in one token
    assert late.advance([0]).viable(within_budget=False)
    assert late.advance([0]).log_lookahead().item() == -math.inf


def test_impossible_budgets_name_the_smallest() -> None:
    engine = ChainEngine(random_hmm(0), PADDED["literal"])
    assert engine.log_mass(1) == -math.inf
    with pytest.raises(EmptyLanguageError, match="smallest budget that works is 2") as caught:
        engine.start([5, 1])
    assert (caught.value.length, caught.value.shortest_length) == (1, 2)
    nothing = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=VOCAB_SIZE, initial=0, accepting=[], edges=[(0, 0, [1])]
    )
    with pytest.raises(EmptyLanguageError, match="accepts no sequence"):
        ChainEngine(random_hmm(0), nothing).start([3])


def test_the_empty_text_needs_no_tokens() -> None:
    engine = ChainEngine(random_hmm(0), PADDED["star"])
    assert engine.log_mass(0) == 0.0
    state = engine.start([0])
    assert state.log_lookahead().item() == 0.0
    assert bool(state.next_tokens().dense(VOCAB_SIZE).isneginf().all())


def test_vocabularies_must_agree() -> None:
    with pytest.raises(VocabularyMismatchError, match="7 tokens and the automaton 4"):
        ChainEngine(random_hmm(0, vocab_size=7), PADDED["star"])
    state = ChainEngine(random_hmm(0), PADDED["star"]).start([2])
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.3"):
        state.advance([4])
    with pytest.raises(InvalidParameterError, match="one token for each"):
        state.advance([0, 0])
    with pytest.raises(InvalidParameterError, match="number of tokens"):
        ChainEngine(random_hmm(0), PADDED["star"]).prepare(-1)


def test_counts_of_paths_may_grow_without_bound() -> None:
    """Two states with every edge between them: 2 ** t paths to each after t tokens."""
    edges = [(s, t, range(VOCAB_SIZE)) for s in range(2) for t in range(2)]
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=VOCAB_SIZE, initial=[0, 1], accepting=[1], edges=edges
    )
    engine, length = ChainEngine(random_hmm(2), fa), 3000
    assert engine.log_mass(length) == pytest.approx(length * math.log(2), rel=1e-7)
    state = engine.start([length])
    for step in range(length):
        state = state.advance([step % VOCAB_SIZE])
    assert state.log_lookahead().item() == pytest.approx(length * math.log(2), rel=1e-10)

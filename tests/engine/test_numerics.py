"""Long texts, little memory, other types: the same numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pcgcd import HMM, FiniteAutomaton
from pcgcd.engine import ChainEngine
from pcgcd.errors import InvalidParameterError
from tests.engine.worlds import padded_automata, random_automaton, random_hmm

VOCAB_SIZE = 9
PADDED = padded_automata()


def long_automaton() -> FiniteAutomaton:
    """Token 1 at least three times, 2 is for the end only; a rare and a frequent way to go on."""
    return FiniteAutomaton.from_edges(
        num_states=5,
        vocab_size=VOCAB_SIZE,
        initial=0,
        accepting=[4],
        edges=[
            *((s, s, {0, 3, 4, 5, 6, 7}) for s in range(4)),
            *((s, s + 1, {1}) for s in range(3)),
            (3, 3, {0, 1, 8}),
            (3, 4, {2}),
            (4, 4, {2}),
        ],
    )


def dense_levels(hmm: HMM, fa: FiniteAutomaton, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Messages on all (state, hidden state) in float64 and their scales, by matrices."""
    emission = hmm.emission.double().numpy()
    transition = hmm.transition.double().numpy()
    move = np.zeros((fa.num_states, fa.num_states, hmm.num_hidden))
    for source, target, label in zip(fa.source, fa.target, fa.label):
        move[source, target] = emission[:, fa.labels.tokens(int(label))].sum(1)
    message = np.repeat(fa.accepting_mask[:, None].astype(float), hmm.num_hidden, 1)
    levels, scales = [message], [0.0]
    for _ in range(length - 1):
        message = np.einsum("sth,th->sh", move, message) @ transition.T
        largest = message.max()
        message = message / largest
        levels.append(message)
        scales.append(scales[-1] + math.log(largest))
    return np.array(levels), np.array(scales)


def test_4096_tokens_without_underflow() -> None:
    length = 4096
    hmm, fa = random_hmm(1, 16, VOCAB_SIZE), long_automaton()
    levels, scales = dense_levels(hmm, fa, length)
    engine = ChainEngine(hmm, fa)
    state, rng = engine.start([length]), np.random.default_rng(0)
    emission = hmm.emission.double().numpy()
    transition = hmm.transition.double().numpy()
    message, log_prefix, here, total = hmm.initial.double().numpy(), 0.0, 0, 0.0
    for step in range(length):
        weights = np.zeros(VOCAB_SIZE)
        for source, target, label in zip(fa.source, fa.target, fa.label):
            if source == here:
                tokens = fa.labels.tokens(int(label))
                weights[tokens] = (message * levels[length - step - 1][target]) @ emission[
                    :, tokens
                ]
        mass = weights.sum()
        if step == 0:
            expected = math.log(mass) + scales[length - 1]
            assert expected < -200
            assert engine.log_mass(length) == pytest.approx(expected, abs=1e-3)
        if step % 64 < 2 or step > length - 20:
            found = state.next_tokens().dense(VOCAB_SIZE)[0].double().exp().numpy()
            np.testing.assert_allclose(found, weights / mass, atol=1e-5, rtol=1e-4)
            assert state.log_prefix.item() == pytest.approx(log_prefix, abs=1e-3, rel=1e-6)
        token = int(rng.choice(VOCAB_SIZE, p=weights / mass))
        total += math.log(weights[token] / mass)
        state = state.advance([token])
        message = message * emission[:, token]
        log_prefix += math.log(message.sum())
        message = message / message.sum() @ transition
        (here,) = fa.advance((here,), token)
    assert state.log_lookahead().item() == pytest.approx(0.0, abs=1e-6)
    assert state.log_prefix.item() - engine.log_mass(length) == pytest.approx(total, rel=1e-5)


def test_the_chain_rule() -> None:
    """The product of the conditionals is p(x) * paths / mass."""
    rng, checked = np.random.default_rng(3), 0
    for seed in range(30):
        fa, hmm, length = random_automaton(seed, 6), random_hmm(seed, 8, 6), 12
        engine = ChainEngine(hmm, fa)
        if engine.log_mass(length) == -math.inf:
            continue
        state, total = engine.start([length]), 0.0
        for _ in range(length):
            found = state.next_tokens().dense(6)[0].double()
            assert found.logsumexp(0).item() == pytest.approx(0.0, abs=1e-5)
            chances = found.exp().numpy()
            token = int(rng.choice(6, p=chances / chances.sum()))
            total += found[token].item()
            state = state.advance([token])
        mass = (state.log_prefix + state.log_lookahead()).item() - engine.log_mass(length)
        assert total == pytest.approx(mass, abs=1e-4)
        checked += 1
    assert checked > 15


def test_little_memory_gives_the_same() -> None:
    rng, checked = np.random.default_rng(4), 0
    for seed in range(10):
        fa, hmm, length = random_automaton(seed, 6), random_hmm(seed, 8, 6), 23
        full, little = ChainEngine(hmm, fa), ChainEngine(hmm, fa, memory_limit=1)
        if full.log_mass(length) == -math.inf:
            continue
        assert little.log_mass(length) == full.log_mass(length)
        assert little.message_bytes < full.message_bytes
        budgets = [n for n in (length, length - 6) if full.log_mass(n) > -math.inf]
        states = [engine.start(budgets) for engine in (full, little)]
        for _ in range(min(budgets)):
            a, b = (state.next_tokens().dense(6) for state in states)
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)
            tokens = [int(rng.choice(np.flatnonzero(row.isfinite().numpy()))) for row in a]
            states = [state.advance(tokens) for state in states]
            torch.testing.assert_close(states[0].log_lookahead(), states[1].log_lookahead())
        checked += 1
    assert checked > 4


@pytest.mark.parametrize("memory_limit", [1, 4000, 1 << 30])
def test_a_larger_budget_adds_what_is_missing(memory_limit: int) -> None:
    hmm, fa = random_hmm(2, 8, VOCAB_SIZE), long_automaton()
    grown = ChainEngine(hmm, fa, memory_limit=memory_limit)
    direct = ChainEngine(hmm, fa)
    direct.prepare(30)
    for budget in (4, 5, 9, 30, 12):
        assert grown.log_mass(budget) == pytest.approx(direct.log_mass(budget), abs=1e-6)
        a, b = grown.start([budget]), direct.start([budget])
        for token in (1, 0, 1):
            torch.testing.assert_close(
                a.next_tokens().dense(VOCAB_SIZE), b.next_tokens().dense(VOCAB_SIZE)
            )
            a, b = a.advance([token]), b.advance([token])


def test_messages_of_float64_are_exact_and_of_bfloat16_are_near() -> None:
    hmm = random_hmm(3, 8, VOCAB_SIZE).to(dtype=torch.float64)
    fa, length = long_automaton(), 20
    exact = (hmm * fa).log_partition(length).item()
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        engine = ChainEngine(hmm, fa, message_dtype=dtype)
        assert engine.log_mass(length) == pytest.approx(exact, abs=error)
        found = engine.start([length]).next_tokens().dense(VOCAB_SIZE).double()
        expected = (hmm * fa).next_token_log_probs(torch.zeros(1, 0, dtype=torch.long), length)
        torch.testing.assert_close(found, expected, atol=max(error, 1e-6), rtol=1e-6)
    with pytest.raises(InvalidParameterError, match="float32, float64 or bfloat16"):
        ChainEngine(hmm, fa, message_dtype=torch.float16)


@pytest.mark.parametrize("unused", [0, 60])
def test_weights_far_below_the_largest_are_exact(unused: int) -> None:
    """After token 0 only the rare token is left, again and again: exp(-30 * 20) of the rest.

    With many tokens that are never allowed the result is a list, otherwise a row.
    """
    rare = 1e-13
    emission = torch.zeros(1, 3 + unused, dtype=torch.float64)
    emission[0, :3] = torch.tensor([0.5, 0.5 - rare, rare])
    hmm = HMM(torch.ones(1, dtype=torch.float64), torch.ones(1, 1).double(), emission)
    fa = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=3 + unused,
        initial=0,
        accepting=[1, 2],
        edges=[(0, 1, {0}), (0, 2, {1}), (1, 1, {2}), (2, 2, {0, 1, 2})],
    )
    length = 21
    scored = ChainEngine(hmm, fa).start([length]).next_tokens()
    assert (scored.tokens is None) == (unused == 0)
    found = scored.dense(3 + unused)[0]
    assert bool(found[2:].isneginf().all())
    assert found[0].item() == pytest.approx((length - 1) * math.log(rare), rel=1e-5)
    assert found[1].item() == pytest.approx(0.0, abs=1e-6)

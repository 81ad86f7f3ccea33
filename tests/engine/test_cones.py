"""Messages of large automata: only those that prefixes need, few of them kept, the same numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcgcd import HMM, FiniteAutomaton
from pcgcd.engine import ChainEngine, start_batch
from pcgcd.engine.backends import BackendName
from pcgcd.engine.chain_state import ChainState
from pcgcd.engine.cones import ladder
from pcgcd.engine.recursion import Level, Recursion
from tests.engine.worlds import Oracle, random_automaton, random_hmm

V = 6


def uneven_automaton(seed: int, num_states: int = 40, *, weighted: bool = False) -> FiniteAutomaton:
    """An NFA with choices, loops, shortcuts and long ways; some states lead nowhere."""
    rng = np.random.default_rng(seed)
    edges: list[tuple[int, int, list[int]]] = []
    for source in range(num_states):
        targets = {source + 1, *(source + rng.geometric(0.4, rng.integers(0, 3)))}
        targets |= {source} if rng.random() < 0.2 else set()
        targets |= {int(rng.integers(0, source + 1))} if rng.random() < 0.1 else set()
        for target in sorted(int(t) for t in targets if t < num_states):
            tokens = np.flatnonzero(rng.random(V) < 0.5)
            edges.append((source, target, tokens.tolist() or [source % V]))
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=V,
        initial=[0, 1],
        accepting=[num_states - 1, num_states // 2],
        edges=edges,
        weights=rng.uniform(0.1, 3.0, len(edges)).tolist() if weighted else None,
    )


def hmm_with_zeros(seed: int, num_hidden: int = 7) -> HMM:
    """Half of the transitions and emissions are impossible."""
    generator = torch.Generator().manual_seed(seed)

    def rows(*shape: int) -> torch.Tensor:
        weights = torch.rand(shape, generator=generator, dtype=torch.float64)
        weights *= torch.rand(shape, generator=generator) < 0.5
        weights[..., 0] += 0.1
        return weights / weights.sum(-1, keepdim=True)

    return HMM(rows(num_hidden), rows(num_hidden, num_hidden), rows(num_hidden, V))


def budgets_of(engine: ChainEngine, *wanted: int) -> list[int]:
    return [n for n in wanted if engine.log_mass(n) > -math.inf]


def assert_same(a: ChainState, b: ChainState, tolerance: float) -> torch.Tensor:
    """Exact zeros in the same places, and the same numbers elsewhere; return the weights."""
    found, expected = (state.next_token_log_probs().dense(V) for state in (a, b))
    assert torch.equal(found.isneginf(), expected.isneginf())
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    for name in ("log_mass", "log_prefix"):
        values = (getattr(state, name) for state in (a, b))
        torch.testing.assert_close(*values, atol=tolerance, rtol=tolerance)
    return expected


def followed(states: list[ChainState], rng: Any, tolerance: float) -> list[list[ChainState]]:
    """Go to the end with tokens at random; some rows are resampled on the way."""
    history = [states]
    while states[0].remaining.max() > 0:
        weights = assert_same(states[0], states[1], tolerance)
        ahead = [i for i, n in enumerate(states[0].remaining) if n > 0]
        if not len(ahead) or bool(weights[ahead].isneginf().all()):
            break
        states = [state.select(ahead) for state in states]
        chances = weights[ahead].double().exp().nan_to_num().numpy()
        tokens = [int(rng.choice(V, p=row / row.sum())) if row.sum() > 0 else 0 for row in chances]
        states = [state.advance(tokens) for state in states]
        if rng.random() < 0.3:
            rows = rng.integers(0, len(ahead), len(ahead)).tolist()
            states = [state.select(rows) for state in states]
        history.append(states)
    return history


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("memory_limit", [1, 5_000, 20_000])
def test_cones_are_exact(memory_limit: int, weighted: bool) -> None:
    """Against all levels, in float64: several budgets in a batch, resampling, going back."""
    checked = 0
    for seed in range(4):
        fa, hmm = uneven_automaton(seed, weighted=weighted), hmm_with_zeros(seed)
        full = ChainEngine(hmm, fa, dtype=torch.float64)
        cones = ChainEngine(hmm, fa, dtype=torch.float64, memory_limit=memory_limit)
        budgets = budgets_of(full, 41, 33, 41, 26)
        if not budgets:
            continue
        assert [cones.log_mass(n) for n in budgets] == pytest.approx(
            [full.log_mass(n) for n in budgets], abs=1e-11
        )
        assert full.messages.is_complete
        assert not cones.messages.is_complete
        rng = np.random.default_rng(seed)
        history = followed([cones.start(budgets), full.start(budgets)], rng, 1e-10)
        for states in history[:: -max(1, len(history) // 5)]:
            assert_same(states[0], states[1], 1e-10)
        checked += len(history) > 10
    assert checked >= 2


def test_parts_of_a_level_are_computed_like_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    fa, hmm = uneven_automaton(3), hmm_with_zeros(3)
    whole, parts = (ChainEngine(hmm, fa, dtype=torch.float64) for _ in range(2))
    expected = whole.start([40]).next_token_log_probs().dense(V)
    monkeypatch.setattr("pcgcd.engine.recursion._STATES_AT_A_TIME", 3)
    found = parts.start([40]).next_token_log_probs().dense(V)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_cones_agree_with_enumeration(seed: int) -> None:
    fa, hmm, length = random_automaton(seed), random_hmm(seed), 5
    oracle = Oracle(hmm, fa, length)
    engine = ChainEngine(hmm, fa, dtype=torch.float64, memory_limit=1)
    expected = math.log(oracle.mass()) if oracle.mass() else -math.inf
    assert engine.log_mass(length) == pytest.approx(expected, abs=1e-6)
    if not oracle.mass():
        return
    for prefix in oracle.prefixes():  # shortest first, so that levels are left and come back
        if len(prefix) == length:
            break
        state = engine.start([length])
        for token in prefix:
            state = state.advance([token])
        found = state.next_token_log_probs().dense(fa.vocab_size)[0].double()
        torch.testing.assert_close(found, oracle.next_tokens(prefix), atol=1e-6, rtol=1e-6)
        assert state.log_mass.item() == pytest.approx(math.log(oracle.mass(prefix)), abs=1e-6)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("message_dtype", [torch.float32, torch.bfloat16])
def test_backends_agree(backend: BackendName, message_dtype: torch.dtype) -> None:
    fa, hmm = uneven_automaton(3), hmm_with_zeros(3)
    engines = [
        ChainEngine(hmm, fa, backend=backend, message_dtype=message_dtype, memory_limit=limit)
        for limit in (2_000, 1 << 30)
    ]
    budgets = budgets_of(engines[1], 40, 31)
    assert budgets
    states = [engine.start(budgets) for engine in engines]
    tolerance = 1e-5 if message_dtype == torch.float32 else 1e-2
    assert len(followed(states, np.random.default_rng(0), tolerance)) > 10


def test_several_engines_share_a_batch() -> None:
    hmm, automata = hmm_with_zeros(5), [uneven_automaton(seed) for seed in (0, 3)]
    batches = []
    for limit in (1, 1 << 30):
        engines = [ChainEngine(hmm, fa, memory_limit=limit) for fa in automata]
        items = [(engine, n) for engine in engines for n in budgets_of(engine, 38, 29)]
        state = start_batch(items)
        assert isinstance(state, ChainState)
        batches.append(state)
    assert batches[0].num_rows >= 3
    assert len(followed(batches, np.random.default_rng(1), 1e-5)) > 10


class Counter:
    """Counts the messages that are computed, by level."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slots: list[tuple[int, int]] = []
        rows = Recursion.rows

        def counted(this: Recursion, r: int, slots: Any, below: Level | None) -> Any:
            self.slots.append((r, len(slots)))
            return rows(this, r, slots, below)

        monkeypatch.setattr(Recursion, "rows", counted)

    def taken(self) -> list[tuple[int, int]]:
        taken, self.slots = [pair for pair in self.slots if pair[1]], []
        return taken


@pytest.fixture(name="counter")
def _counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def branches(length: int) -> FiniteAutomaton:
    """Token 0 or 1, and then one of two chains of states, with tokens 2 to 5."""
    ends = (length, 2 * length)
    edges = [(0, 1, {0}), (0, length + 1, {1})]
    for end in ends:
        states = range(end - length + 1, end)
        edges += [(s, s, {2}) for s in states] + [(s, s + 1, {3, 4, 5}) for s in states]
        edges.append((end, end, {2, 3}))
    return FiniteAutomaton.from_edges(
        num_states=2 * length + 1, vocab_size=V, initial=0, accepting=ends, edges=edges
    )


def test_what_was_written_rules_messages_out(counter: Counter) -> None:
    length, num = 16, 64
    engine = ChainEngine(random_hmm(0, 4, V), branches(length), memory_limit=3_000)
    state = engine.start([num])
    state.next_tokens()
    first = counter.taken()
    assert len(first) == num
    assert max(size for _, size in first) == 2 * length
    state = state.advance([0])
    for _ in range(num - 1):
        state = state.advance([3])
        state.log_lookahead()
    again = counter.taken()
    assert again
    assert max(size for _, size in again) <= length  # of one branch


def test_walking_on_computes_a_level_a_logarithmic_number_of_times(counter: Counter) -> None:
    num = 128
    engine = ChainEngine(random_hmm(0, 4, V), branches(9), memory_limit=1)
    state = engine.start([num])
    for token in [0] + [3] * (num - 1):
        state.next_tokens()
        state = state.advance([token])
    levels = [r for r, _ in counter.taken()]
    assert max(levels.count(r) for r in set(levels)) <= 1 + math.log2(num)


def test_texts_begun_later_use_what_there_is(counter: Counter) -> None:
    num = 64
    engine = ChainEngine(random_hmm(0, 4, V), branches(9), memory_limit=4_000)
    counts = []
    for budget in (num, num, num - 7):
        state = engine.start([budget])
        state.next_tokens()
        counts.append(len(counter.taken()))
        state.advance([1]).next_tokens()
    assert counts[0] == num
    assert counts[1] == 0
    assert counts[2] < num // 2


def test_memory_stays_within_the_limit() -> None:
    fa, hmm = uneven_automaton(3, 80), random_hmm(1, 16, V)
    limit = 60_000
    full, cones = ChainEngine(hmm, fa), ChainEngine(hmm, fa, memory_limit=limit)
    (budget,) = budgets_of(full, 100)
    state = cones.start([budget])
    rng = np.random.default_rng(0)
    most = 0
    for _ in range(budget):
        weights = state.next_tokens().dense(V)[0].double().exp().numpy()
        most = max(most, cones.message_bytes)
        state = state.advance([int(rng.choice(V, p=weights / weights.sum()))])
    assert most <= limit
    assert full.message_bytes > 4 * limit


def test_automata_that_no_prefix_is_in_make_room() -> None:
    hmm, limit = random_hmm(1, 16, V), 20_000
    automata = [uneven_automaton(seed, 80) for seed in (3, 4, 5, 6)]
    engines = [ChainEngine(hmm, fa, memory_limit=limit) for fa in automata]
    held, found = [], []
    for engine in engines:
        state = engine.start([90])
        found.append(state.next_tokens().dense(V))
        if engine is engines[1]:
            held.append(state.advance([int(found[-1].argmax())]))
    sizes = [engine.message_bytes for engine in engines]
    assert sizes[0] == 0
    assert all(size > 0 for size in (sizes[1], sizes[3]))
    assert bool(held[0].viable().all())
    for engine, expected in zip(engines, found):
        torch.testing.assert_close(engine.start([90]).next_tokens().dense(V), expected)


@given(
    st.dictionaries(st.integers(0, 60), st.integers(1, 20), min_size=1),
    st.integers(0, 400),
    st.data(),
)
def test_ladders(sizes: dict[int, int], limit: int, data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(sizes)), min_size=1, max_size=4))
    kept = ladder(sizes, sorted(chosen), limit)
    assert chosen <= kept <= set(sizes)
    if sum(sizes.values()) <= limit:
        assert sizes.keys() == kept
    # No room at all: halves of halves below each wanted level, and nothing above.
    few = ladder(sizes, sorted(chosen), -1)
    assert len(few) <= len(chosen) * (1 + math.ceil(math.log2(62)))
    assert max(few) == max(chosen)

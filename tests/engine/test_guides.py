"""Every kind of circuit as a guide, against sums over every string in plain numpy."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from pcgcd import HMM, FiniteAutomaton
from pcgcd.circuits import CircuitLike
from pcgcd.engine import (
    ChainEngine,
    LayeredEngine,
    PrefixState,
    compile_circuit,
    parts_of,
    start_batch,
)
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, VocabularyMismatchError
from tests.engine.guides import KINDS, LENGTH, Example
from tests.engine.worlds import VOCAB_SIZE, random_automaton, strings

FAST = ("dense", "zeros", "monarch", "mixture", "kronecker", "multiple", "own operator")


def path_weights(fa: FiniteAutomaton) -> Callable[[Sequence[int]], float]:
    """The weight of the accepting paths of a string, by matrices that are filled edge by edge."""
    weights = np.ones(fa.num_edges) if fa.weight is None else fa.weight
    moves = np.zeros((fa.vocab_size, fa.num_states, fa.num_states))
    for source, target, label, weight in zip(fa.source, fa.target, fa.label, weights):
        for token in fa.labels.tokens(int(label)):
            moves[token, source, target] += weight

    def weigh(x: Sequence[int]) -> float:
        count = fa.initial_mask.astype(float)
        for token in x:
            count = count @ moves[token]
        return float(count @ fa.accepting_mask)

    return weigh


class Sums:
    """All strings of LENGTH with g and g f, summed over those that share a beginning."""

    def __init__(self, example: Example, automata: Sequence[FiniteAutomaton]) -> None:
        self.guide: dict[tuple[int, ...], float] = {}
        self.whole: dict[tuple[int, ...], float] = {}
        weighers = [path_weights(fa) for fa in automata]
        for x in strings(LENGTH):
            g = example.value(x)
            f = math.prod(weigh(x) for weigh in weighers)
            for t in range(LENGTH + 1):
                self.guide[x[:t]] = self.guide.get(x[:t], 0.0) + g
                self.whole[x[:t]] = self.whole.get(x[:t], 0.0) + g * f


def log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def check(state: PrefixState, prefix: tuple[int, ...], sums: Sums) -> None:
    whole, guide = sums.whole[prefix], sums.guide[prefix]
    assert state.log_mass.item() == pytest.approx(log(whole), abs=2e-5)
    assert state.log_prefix.item() == pytest.approx(log(guide), abs=2e-5)
    if whole > 0:
        assert state.log_lookahead().item() == pytest.approx(math.log(whole / guide), abs=2e-5)
    if len(prefix) == LENGTH or whole == 0:
        return
    exact = state.next_token_log_probs().dense(VOCAB_SIZE)[0].double().exp()
    ahead = state.next_lookaheads().dense(VOCAB_SIZE)[0].double().exp()
    loose = state.next_tokens().dense(VOCAB_SIZE)[0]
    for token in range(VOCAB_SIZE):
        after = (*prefix, token)
        assert exact[token].item() == pytest.approx(sums.whole[after] / whole, abs=1e-5)
        if sums.whole[after] > 0:
            assert bool(loose[token].isfinite())
            change = (sums.whole[after] / sums.guide[after]) / (whole / guide)
            assert ahead[token].item() == pytest.approx(change, rel=1e-3, abs=1e-7)


def check_everywhere(circuit: CircuitLike, sums: Sums) -> None:
    states: dict[tuple[int, ...], PrefixState] = {(): circuit.start([LENGTH])}
    while states:
        prefix, state = states.popitem()
        check(state, prefix, sums)
        for token in range(VOCAB_SIZE) if len(prefix) < LENGTH else ():
            if sums.guide[(*prefix, token)] > 0:
                states[(*prefix, token)] = state.advance([token])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [3, 5])
def test_a_guide_times_an_automaton(kind: str, seed: int) -> None:
    example, fa = KINDS[kind](VOCAB_SIZE), random_automaton(seed)
    sums = Sums(example, [fa])
    assert sums.whole[()] > 0
    check_everywhere(example.guide * fa, sums)


@pytest.mark.parametrize("kind", KINDS)
def test_a_guide_alone_allows_everything(kind: str) -> None:
    example = KINDS[kind](VOCAB_SIZE)
    check_everywhere(example.guide, Sums(example, []))
    assert parts_of(example.guide).automata == ()


@pytest.mark.parametrize("kind", ["dense", "kronecker", "tree"])
def test_several_automata_hold_together_and_paths_multiply(kind: str) -> None:
    example = KINDS[kind](VOCAB_SIZE)
    first, second = random_automaton(3), random_automaton(5)
    sums = Sums(example, [first, second])
    assert sums.whole[()] > 0
    check_everywhere(example.guide * first * second, sums)
    check_everywhere(first * (example.guide * second), sums)


def weighted(seed: int) -> FiniteAutomaton:
    """An automaton whose edges weigh something, parallel ones with tokens in common included."""
    plain, rng = random_automaton(seed), np.random.default_rng(seed)
    edges = [
        (int(s), int(t), plain.labels.tokens(int(label)).tolist())
        for s, t, label in zip(plain.source, plain.target, plain.label)
    ]
    edges += [edges[0], edges[-1]]
    return FiniteAutomaton.from_edges(
        num_states=plain.num_states,
        vocab_size=VOCAB_SIZE,
        initial=np.flatnonzero(plain.initial_mask).tolist(),
        accepting=np.flatnonzero(plain.accepting_mask).tolist(),
        edges=edges,
        weights=(3 * rng.random(len(edges))).tolist(),
    )


@pytest.mark.parametrize("kind", ["dense", "mixture", "own operator", "tree"])
def test_weights_of_an_automaton_multiply_along_paths(kind: str) -> None:
    example, fa = KINDS[kind](VOCAB_SIZE), weighted(3)
    sums = Sums(example, [fa])
    check_everywhere(example.guide * fa, sums)
    both = Sums(example, [fa, random_automaton(5)])
    check_everywhere(example.guide * fa * random_automaton(5), both)


def test_an_automaton_alone_counts_its_paths() -> None:
    one = Example(random_automaton(3), lambda x: 1.0)
    check_everywhere(
        random_automaton(3) * random_automaton(5),
        Sums(one, [random_automaton(3), random_automaton(5)]),
    )
    check_everywhere(weighted(3), Sums(one, [weighted(3)]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_structure_chooses_the_engine(kind: str) -> None:
    example = KINDS[kind](VOCAB_SIZE)
    engine = compile_circuit(example.guide * random_automaton(3))
    assert isinstance(engine, ChainEngine if kind in FAST else LayeredEngine)


def test_a_chain_whose_emissions_are_too_large_to_write_out_is_read_lazily(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pcgcd.engine.compiling._TABLE_LIMIT", 10)
    example, fa = KINDS["kronecker"](VOCAB_SIZE), random_automaton(3)
    circuit = example.guide * fa
    assert isinstance(compile_circuit(circuit), LayeredEngine)
    check_everywhere(circuit, Sums(example, [fa]))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_are_selected_and_repeated(kind: str) -> None:
    example, fa = KINDS[kind](VOCAB_SIZE), random_automaton(3)
    sums = Sums(example, [fa])
    words = [x for x in strings(3) if sums.whole[x] > 0][:6]
    state = (example.guide * fa).start([LENGTH] * len(words))
    order = list(range(len(words)))
    rng = np.random.default_rng(0)
    for t in range(3):
        state = state.advance([words[i][t] for i in order])
        chosen = rng.integers(0, len(order), len(order)).tolist()
        state, order = state.select(chosen), [order[i] for i in chosen]
        for row, i in enumerate(order):
            check(state.select([row]), words[i][: t + 1], sums)


def test_circuits_of_different_kinds_share_a_batch() -> None:
    fa = random_automaton(3)
    names = ["dense", "tree", "kronecker", "inhomogeneous", "tree", "dense"]
    examples = [KINDS[name](VOCAB_SIZE) for name in names]
    every = [Sums(example, [fa]) for example in examples]
    state = start_batch([(compile_circuit(e.guide * fa), LENGTH) for e in examples])
    word = next(x for x in strings(LENGTH) if all(sums.whole[x] > 0 for sums in every))
    for t in range(LENGTH + 1):
        for row, sums in enumerate(every):
            check(state.select([row]), word[:t], sums)
        if t < LENGTH:
            whole = state.next_tokens().dense(VOCAB_SIZE).exp()
            ahead = state.next_lookaheads().dense(VOCAB_SIZE).exp()
            mass, prefix = state.log_mass, state.log_prefix
            for row in range(len(names)):
                one = state.select([row])
                torch.testing.assert_close(one.next_tokens().dense(VOCAB_SIZE).exp()[0], whole[row])
                torch.testing.assert_close(
                    one.next_lookaheads().dense(VOCAB_SIZE).exp()[0], ahead[row]
                )
                torch.testing.assert_close(one.log_mass[0], mass[row])
                torch.testing.assert_close(one.log_prefix[0], prefix[row])
            state = state.advance([word[t]] * len(names))
            state = state.select([5, 1, 2, 3, 4, 0])
            every = [every[i] for i in (5, 1, 2, 3, 4, 0)]


# -- the algebra is as fast as the decoder, because it is the decoder ---------------------------


@pytest.mark.parametrize("kind", FAST)
def test_queries_about_prefixes_go_through_the_engine(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pcgcd.circuits import queries

    example, fa = KINDS[kind](VOCAB_SIZE), random_automaton(3)
    circuit = example.guide * fa
    sums = Sums(example, [fa])
    general = circuit.unroll(LENGTH)
    prefixes = [x for x in strings(2) if sums.whole[x] > 0]
    x = torch.tensor(prefixes)
    expected_next = queries.next_token_log_probs(general, x)
    expected_marginal = queries.log_marginal(general, x)

    def refuse(*arguments: object) -> None:
        raise AssertionError("a general query was asked")

    for name in ("next_token_log_probs", "log_marginal", "sample"):
        monkeypatch.setattr(queries, name, refuse)
    found = circuit.next_token_log_probs(x, length=LENGTH)
    torch.testing.assert_close(found.exp(), expected_next.exp(), rtol=1e-4, atol=1e-6)
    marginal = circuit.log_marginal(x, length=LENGTH)
    torch.testing.assert_close(marginal.float(), expected_marginal, rtol=1e-4, atol=1e-5)
    for row, prefix in enumerate(prefixes):
        share = sums.whole[prefix] / sums.whole[()]
        assert marginal[row].exp().item() == pytest.approx(share, rel=1e-4)
    drawn = circuit.sample(
        3000,
        LENGTH,
        evidence=torch.tensor([*prefixes[0], -1, -1]),
        generator=torch.Generator().manual_seed(0),
    )
    assert drawn.shape == (3000, LENGTH)
    counts: dict[tuple[int, ...], int] = {}
    for row in drawn.tolist():
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    for word in itertools.product(range(VOCAB_SIZE), repeat=2):
        share = sums.whole[(*prefixes[0], *word)] / sums.whole[prefixes[0]]
        error = 5 * math.sqrt(share * (1 - share) / 3000) + 1e-9
        assert counts.get((*prefixes[0], *word), 0) / 3000 == pytest.approx(share, abs=error)


def test_gradients_and_missing_tokens_are_left_to_the_general_queries() -> None:
    example, fa = KINDS["dense"](VOCAB_SIZE), random_automaton(3)
    guide = example.guide
    assert isinstance(guide, HMM)
    emission = guide.emission.clone().requires_grad_()
    learnt = HMM(guide.initial, guide.transition, emission, validate=False) * fa
    x = torch.tensor([[0]])
    (-learnt.next_token_log_probs(x, length=3).exp()[0, 0]).backward()
    assert emission.grad is not None
    assert bool((emission.grad != 0).any())
    gaps = torch.tensor([[0, -1, 2, -1]])
    sums = Sums(example, [fa])
    total = sum(sums.whole[(0, a, 2, b)] for a in range(VOCAB_SIZE) for b in range(VOCAB_SIZE))
    found = (guide * fa).log_marginal(gaps).exp().item()
    assert found == pytest.approx(total / sums.whole[()], rel=1e-4)


def test_the_engine_sees_tensors_that_are_changed_in_place() -> None:
    example, fa = KINDS["dense"](VOCAB_SIZE), random_automaton(3)
    guide = example.guide
    assert isinstance(guide, HMM)
    circuit = guide * fa
    before = circuit.start([3]).log_mass.item()
    guide.emission.mul_(2.0)
    assert circuit.start([3]).log_mass.item() == pytest.approx(before + 3 * math.log(2), abs=1e-4)


# -- errors ------------------------------------------------------------------------------------


def test_errors_say_what_to_do() -> None:
    tree, fa = KINDS["tree"](VOCAB_SIZE).guide, random_automaton(3)
    with pytest.raises(InvalidParameterError, match="over 4 tokens, so that is its budget"):
        (tree * fa).start([5])
    dead = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=VOCAB_SIZE, initial=0, accepting=[], edges=[]
    )
    with pytest.raises(EmptyLanguageError, match="accepts no sequence"):
        (tree * dead).start([4])
    state = (tree * fa).start([4])
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.3"):
        state.advance([4])
    with pytest.raises(InvalidParameterError, match="rows must lie"):
        state.select([1])
    for _ in range(4):
        state = state.advance([0])
    with pytest.raises(InvalidParameterError, match="complete"):
        state.advance([0])
    exactly = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=VOCAB_SIZE,
        initial=0,
        accepting={2},
        edges=[(0, 1, {0}), (1, 2, {0})],
    )
    with pytest.raises(EmptyLanguageError, match=r"in exactly 1 tokens; .* works is 2"):
        exactly.start([1])


def test_answers_do_not_depend_on_what_was_imported() -> None:
    code = """if True:
        import sys, torch
        from pcgcd import HMM
        if sys.argv[1:]:
            import pcgcd.engine
        hmm = HMM.random(3, 5, generator=torch.Generator().manual_seed(0))
        print(hmm.sample(4, 8, generator=torch.Generator().manual_seed(1)).tolist())
    """
    found = [
        subprocess.run([sys.executable, "-c", code, *more], capture_output=True, check=True).stdout
        for more in ([], ["engine first"])
    ]
    assert found[0] == found[1]

"""Circuits, automata and weights as targets: what constrains, what guides, and what is aimed at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

import pcgcd
from pcgcd import FiniteAutomaton, Vocabulary
from pcgcd.automata import length_preference, preferring
from pcgcd.automata.padding import is_padded, padded
from pcgcd.circuits import Chain, CircuitLike
from pcgcd.constraints import regex
from pcgcd.decoding import (
    PGCD,
    SMC,
    Generator,
    Population,
    Request,
    Target,
)
from pcgcd.decoding.requests import choose
from pcgcd.decoding.targets import given
from pcgcd.engine import compile_circuit
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HMM, Copying
from pcgcd.lm import TableLM
from tests.decoding import worlds
from tests.decoding.test_exactness import limit, worst_z
from tests.engine.guides import KINDS

BUDGET = 4
RUNS = 4000


def smc_runs(
    circuit: CircuitLike, lm: TableLM, method: str, particles: int = 3, runs: int = RUNS
) -> Population:
    """Many independent runs, as tasks of one batch."""
    plan = choose(method, w=0.4)
    target = Target.of(circuit, lm.vocabulary)
    start = target.engine(guided=plan.needs_guide).start([BUDGET]).select([0] * runs)
    smc = SMC(particles, "systematic", 0.5)
    steps = smc.steps(lm, [()] * runs, start, plan.proposal, plan.potential, seed=5)
    return list(steps)[-1].population


# P-GCD hardly ever draws what a guide deems impossible, so that its error cannot be estimated.
CASES = [
    (kind, method)
    for kind in KINDS
    for method in ("pgcd", "twisted")
    if (kind, method) != ("zeros", "pgcd")
]


@pytest.mark.parametrize(("kind", "method"), CASES)
def test_the_weight_of_every_text_is_unbiased_with_every_kind_of_guide(
    kind: str, method: str
) -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["ambiguous"]
    circuit = KINDS[kind](worlds.SIZE).guide * fa
    runs = RUNS if kind not in ("tree", "inhomogeneous") else RUNS // 4
    population = smc_runs(circuit, lm, method, runs=runs)
    z, bins = worst_z(population, worlds.target(lm, fa, BUDGET), share=0.05)
    assert z < limit(bins, len(CASES)), f"{kind}: off by {z:.1f} standard errors"


@pytest.mark.parametrize(
    "make",
    [
        lambda hmm, fa: hmm * fa,
        lambda hmm, fa: fa * hmm,
        lambda hmm, fa: 0.5 * (hmm * fa),
        lambda hmm, fa: (0.3 * hmm + 0.7 * worlds.hmm(3)) * fa,
        lambda hmm, fa: hmm * worlds.hmm(3) * fa,
    ],
)
def test_a_product_generates_texts_of_its_automaton(
    make: Callable[[Chain, FiniteAutomaton], CircuitLike],
) -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["constraint"]
    gamma = worlds.target(lm, fa, BUDGET)
    result = pcgcd.generate(lm, make(worlds.hmm(7), fa), budget=BUDGET, particles=400, seed=0)
    assert result.method == "twisted"
    assert all(result.satisfied)
    assert set(result.token_ids) <= set(gamma)
    assert math.exp(result.log_evidence) == pytest.approx(sum(gamma.values()), rel=0.15)


def test_a_product_and_its_parts_give_the_same_run() -> None:
    lm, hmm, fa = worlds.table(), worlds.hmm(7), worlds.AUTOMATA["constraint"]
    one = pcgcd.generate(lm, hmm * fa, budget=BUDGET, particles=20, seed=1)
    other = pcgcd.generate(lm, fa, hmm=hmm, budget=BUDGET, particles=20, seed=1)
    assert one.token_ids == other.token_ids
    assert one.log_weights == other.log_weights


def test_both_automata_of_a_product_hold() -> None:
    lm = worlds.table()
    first, second = (regex(p).compile(worlds.VOCABULARY) for p in ("(a|b)*b", "a(a|b)*"))
    gamma = {x: p for x, p in worlds.target(lm, first, BUDGET).items() if second.accepts(x)}
    for circuit in (worlds.hmm(7) * first * second, first * second):
        result = pcgcd.generate(lm, circuit, budget=BUDGET, particles=1000, seed=0)
        assert set(result.token_ids) <= set(gamma)
        assert math.exp(result.log_evidence) == pytest.approx(sum(gamma.values()), rel=0.15)


def test_without_an_automaton_everything_is_allowed_and_the_guide_guides() -> None:
    lm, hmm = worlds.table(), worlds.hmm(7)
    result = pcgcd.generate(lm, hmm, budget=BUDGET, particles=2000, w=0.5, seed=0)
    assert result.method == "twisted"
    assert all(result.satisfied)
    assert math.exp(result.log_evidence) == pytest.approx(1.0, rel=0.05)
    total = {x: math.exp(worlds.log_prob(lm, x)) for x in worlds.leaves(2)}
    short = pcgcd.generate(lm, hmm, budget=2, particles=4000, w=0.5, seed=0)
    weights: dict[tuple[int, ...], float] = {}
    for x, weight in zip(short.token_ids, short.weights, strict=True):
        weights[x] = weights.get(x, 0.0) + weight
    for x, expected in total.items():
        assert weights.get(x, 0.0) == pytest.approx(expected, abs=0.03)


def test_the_method_follows_from_the_target() -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["constraint"]
    assert pcgcd.generate(lm, fa, budget=BUDGET, seed=0).method == "gcd"
    assert pcgcd.generate(lm, fa, hmm=worlds.hmm(), budget=BUDGET, seed=0).method == "twisted"
    requests = [Request(fa, budget=BUDGET), Request(worlds.hmm() * fa, budget=BUDGET)]
    results = Generator(lm, smc=SMC(2)).run(requests, seed=0)
    assert [result.method for result in results] == ["gcd", "gcd"]
    with pytest.raises(InvalidParameterError, match="needs a guide"):
        pcgcd.generate(lm, fa, budget=BUDGET, method="twisted")
    with pytest.raises(InvalidParameterError, match="hmm= must be left out"):
        pcgcd.generate(lm, worlds.hmm() * fa, hmm=worlds.hmm(), budget=BUDGET)


def test_a_sum_constrains_only_by_what_all_its_operands_have() -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["constraint"]
    gamma = worlds.target(lm, fa, BUDGET)
    circuit = 0.5 * (worlds.hmm(7) * fa) + 0.5 * (worlds.hmm(3) * fa)
    result = pcgcd.generate(lm, circuit, budget=BUDGET, particles=400, seed=0)
    assert set(result.token_ids) <= set(gamma)
    assert math.exp(result.log_evidence) == pytest.approx(sum(gamma.values()), rel=0.15)
    other = worlds.AUTOMATA["deterministic"]
    for mixed in (worlds.hmm(7) * fa + worlds.hmm(3) * other, worlds.hmm(7) + fa, fa + other):
        with pytest.raises(InvalidParameterError, match="different automata"):
            pcgcd.generate(lm, mixed, budget=BUDGET)


def test_rejection_refuses_weights() -> None:
    lm, wanted = worlds.table(), soft([2.0, 0.5, 1.5])
    with pytest.raises(InvalidParameterError, match="the target is weighted"):
        pcgcd.generate(lm, wanted, budget=BUDGET, method="rejection")
    exact = sum(
        math.exp(worlds.log_prob(lm, x) + log_weight(wanted, x)) for x in worlds.leaves(BUDGET)
    )
    result = pcgcd.generate(
        lm, wanted, budget=BUDGET, method="unconstrained", smc=False, particles=4000, seed=0
    )
    assert math.exp(result.log_evidence) == pytest.approx(exact, rel=0.1)


def test_a_circuit_of_one_length_is_its_own_budget() -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["deterministic"]
    guide = KINDS["tree"](worlds.SIZE).guide
    result = pcgcd.generate(lm, guide * fa, particles=50, seed=0)
    assert all(result.satisfied)
    assert max(map(len, result.token_ids)) <= 4
    unrolled = worlds.hmm(7).unroll(3) * fa
    assert max(map(len, pcgcd.generate(lm, unrolled, particles=20, seed=0).token_ids)) <= 3
    for circuit in (guide * fa, unrolled):
        with pytest.raises(InvalidParameterError, match="so that is its budget"):
            pcgcd.generate(lm, circuit, budget=7)


# -- "within n tokens" and "in exactly n steps" -------------------------------------------------

AB = Vocabulary.from_bytes([b"a", None], eos_ids=1)


@pytest.mark.parametrize("method", ["gcd", "pgcd", "twisted"])
def test_an_automaton_without_padding_means_within_n_tokens(method: str) -> None:
    """LM = {a: .5, EOS: .5}; a* EOS within 8 tokens: all but the eight a."""
    lm = TableLM(AB, lambda prefix: torch.tensor([0.5, 0.5], dtype=torch.float64))
    raw = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=2, initial=0, accepting={1}, edges=[(0, 0, {0}), (0, 1, {1})]
    )
    hmm = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.5, 0.5]]))
    result = pcgcd.generate(lm, raw, hmm=hmm, budget=8, particles=2000, method=method, seed=0)
    # Four deviations of P-GCD, whose estimates vary most; without padding it would be 1 / 256.
    assert math.exp(result.log_evidence) == pytest.approx(1 - 0.5**8, abs=0.16)
    assert result.posterior()[""] == pytest.approx(0.5, abs=0.13)
    assert result.posterior()["a"] == pytest.approx(0.25, abs=0.13)


def test_texts_end_where_the_automaton_accepts_and_nowhere_else() -> None:
    """EOS on an edge in the middle of words ends no text; without EOS edges, it may follow."""
    lm = TableLM(AB, lambda prefix: torch.tensor([0.5, 0.5], dtype=torch.float64))
    careless = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=2,
        initial=0,
        accepting={2},
        edges=[(0, 1, {0, 1}), (1, 2, {0})],
    )
    result = pcgcd.generate(lm, careless, budget=4, particles=50, seed=0)
    assert set(result.texts) == {"aa"}
    assert all(result.satisfied)
    assert math.exp(result.log_evidence) == pytest.approx(0.125)
    never = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=2, initial=0, accepting={1}, edges=[(0, 1, {1}), (1, 1, {0})]
    )
    assert set(pcgcd.generate(lm, never, budget=4, particles=50, seed=0).texts) == {""}
    nothing = FiniteAutomaton.from_edges(
        num_states=3, vocab_size=2, initial=0, accepting={2}, edges=[(0, 1, {1}), (1, 2, {0})]
    )
    with pytest.raises(EmptyLanguageError):
        pcgcd.generate(lm, nothing, budget=4)


def test_padding_keeps_the_texts_of_a_word_automaton() -> None:
    """Words without a second EOS, cut behind the first: by enumeration, and padded only once."""
    for name, fa in worlds.AUTOMATA.items():
        assert is_padded(fa, worlds.VOCABULARY.eos_ids), name
        assert padded(fa, worlds.VOCABULARY.eos_ids) is fa
    raw = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=worlds.SIZE,
        initial=[0, 2],
        accepting={1, 2},
        edges=[(0, 0, {0, 3}), (0, 1, {1, 5}), (1, 0, {2}), (1, 1, {3}), (2, 2, {4})],
    )
    result = padded(raw, worlds.VOCABULARY.eos_ids)
    assert is_padded(result, worlds.VOCABULARY.eos_ids)
    for text in worlds.leaves(4):
        body = text[:-1] if text[-1] in worlds.EOS else text
        expected = raw.accepts(text) or raw.accepts(body)
        assert result.accepts(text) == expected, text
        if text[-1] in worlds.EOS:
            assert result.accepts((*text, 3, 5)) == expected


# -- weights -----------------------------------------------------------------------------------


def soft(weights: Sequence[float]) -> FiniteAutomaton:
    """Texts over a and b: each a, each b and each switch between them weighs something."""
    a, b, ab = weights
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=worlds.SIZE,
        initial=0,
        accepting={0, 1},
        edges=[(0, 0, {0, 4}), (0, 1, {1}), (1, 1, {1}), (1, 0, {0, 4}), (0, 0, {2}), (1, 1, {2})],
        weights=[a, b * ab, b, a * ab, 1.0, 0.5],
    )


def log_weight(fa: FiniteAutomaton, tokens: tuple[int, ...]) -> float:
    body = tuple(token for token in tokens if token not in worlds.EOS)
    return fa.log_weight(body)


@pytest.mark.parametrize("method", ["gcd", "pgcd", "twisted", "lcd"])
@pytest.mark.parametrize("hard", [None, "ambiguous", "constraint"])
def test_with_weights_the_target_is_the_model_times_the_weight(
    method: str, hard: str | None
) -> None:
    lm, wanted, hmm = worlds.table(), soft([2.0, 0.5, 1.5]), worlds.hmm(7)
    gamma = {
        x: math.exp(worlds.log_prob(lm, x) + log_weight(wanted, x))
        for x in worlds.leaves(BUDGET)
        if hard is None or worlds.AUTOMATA[hard].accepts(x)
    }
    circuit = hmm * wanted if hard is None else hmm * worlds.AUTOMATA[hard] * wanted
    z, bins = worst_z(smc_runs(circuit, lm, method), gamma, share=0.05)
    assert z < limit(bins, 12), f"off by {z:.1f} standard errors"


def test_a_length_preference_weighs_every_token() -> None:
    lm = worlds.table()
    fa = worlds.AUTOMATA["constraint"]
    plain = worlds.target(lm, fa, BUDGET)
    for weight in (0.25, 3.0):
        preference = length_preference(worlds.VOCABULARY, weight)
        exact = sum(
            p * weight ** sum(token not in worlds.EOS for token in x) for x, p in plain.items()
        )
        result = pcgcd.generate(lm, fa * preference, budget=BUDGET, particles=3000, seed=0)
        assert math.exp(result.log_evidence) == pytest.approx(exact, rel=0.1)


def test_preferred_words_weigh_more_than_allowed_ones() -> None:
    lm = worlds.table()
    allowed = regex("(a|b){1,3}").compile(worlds.VOCABULARY)
    preferred = regex("(a|b)*bb").compile(worlds.VOCABULARY)
    plain = worlds.target(lm, allowed, BUDGET)
    wanted = preferring(allowed, preferred, 5.0)
    exact = sum(p * (5.0 if preferred.accepts(x) else 1.0) for x, p in plain.items())
    for circuit in (wanted, worlds.hmm(7) * wanted):
        result = pcgcd.generate(lm, circuit, budget=BUDGET, particles=3000, seed=0)
        assert math.exp(result.log_evidence) == pytest.approx(exact, rel=0.1)
        share = sum(
            weight
            for x, weight in zip(result.token_ids, result.weights, strict=True)
            if preferred.accepts(x)
        )
        heavy = sum(5.0 * p for x, p in plain.items() if preferred.accepts(x))
        assert share == pytest.approx(heavy / exact, abs=0.06)


# -- guides that know nothing, and guides that know the prompt ----------------------------------


def test_tokens_that_a_guide_does_not_know_are_neutral() -> None:
    """The look-ahead before and after such a token is the same, whatever it was."""
    vocabulary = worlds.VOCABULARY
    emission = torch.tensor([[0.4, 0.4, 0.1, 0.1, 0.0, 0.0]])
    guide = HMM(torch.ones(1), torch.ones(1, 1), emission)
    fa = regex("(a|b)(a|b)a").compile(vocabulary)
    state = compile_circuit(guide * fa).start([4])
    ahead = state.next_lookaheads().dense(worlds.SIZE)[0]
    assert ahead[4].item() == 0.0  # the second token for "a" has no mass in the guide
    assert state.advance([4]).log_lookahead().item() == pytest.approx(state.log_lookahead().item())
    known = state.advance([0]).log_lookahead().item()
    assert known - state.log_lookahead().item() == pytest.approx(ahead[0].item(), abs=1e-5)


def test_every_hmm_in_a_guide_is_given_the_prompt() -> None:
    copying = Copying(torch.tensor([0.5, 0.5]), torch.ones(worlds.SIZE))
    plain = HMM.random(2, worlds.SIZE, generator=torch.Generator().manual_seed(0))
    hmm = HMM(plain.initial, plain.transition, plain.emission, copying=copying)
    x, prompt = torch.tensor([[1, 1, 0]]), (1, 2)
    told = hmm.given(prompt).log_value(x).exp()
    untold = plain.log_value(x).exp()
    assert not torch.allclose(told, untold)
    for guide, expected in (
        (hmm, told),
        (0.3 * hmm + 0.7 * plain, 0.3 * told + 0.7 * untold),
        (hmm * plain, told * untold),
        (2.0 * hmm, 2.0 * told),
    ):
        torch.testing.assert_close(given(guide, prompt).log_value(x).exp(), expected)
    assert given(plain * plain, prompt) is not None
    mixture = 0.5 * plain + 0.5 * plain
    assert given(mixture, prompt) is mixture


def test_generation_conditions_the_guide_on_the_prompt() -> None:
    """With the right prompt the proposal is exact, so all weights are equal; else they are not."""
    copying = Copying(torch.full((1,), 0.9), torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    plain = HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 6), 1 / 6))
    hmm = HMM(plain.initial, plain.transition, plain.emission, copying=copying)
    fa = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=6,
        initial=0,
        accepting={2},
        edges=[(0, 1, {0, 1}), (1, 2, {0, 1})],
    )
    chances = hmm.given([1]).emission[0].double()
    lm = TableLM(worlds.VOCABULARY, lambda prefix: chances)

    def spread(prompt: tuple[int, ...]) -> float:
        result = pcgcd.generate(
            lm,
            fa,
            hmm=hmm,
            prompt=prompt,
            budget=2,
            particles=64,
            method=PGCD(0.0),
            smc=False,
            seed=0,
        )
        return max(result.log_weights) - min(result.log_weights)

    assert spread((1,)) == pytest.approx(0.0, abs=1e-4)
    assert spread((0,)) > 1.0


def test_widths_must_agree() -> None:
    lm = worlds.table()
    two = HMM.random(2, 3) * HMM.random(2, 3)
    with pytest.raises(VocabularyMismatchError, match="the guide has 3"):
        pcgcd.generate(lm, two, budget=3)


def test_nothing_but_eos_follows_an_eos() -> None:
    """One state that takes everything: it can end anywhere, but text may follow its EOS."""
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=2, initial=0, accepting={0}, edges=[(0, 0, [0, 1])]
    )
    found = padded(fa, [1])
    assert found.accepts([0, 1, 1])
    assert not found.accepts([0, 1, 0])

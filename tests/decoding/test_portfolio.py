"""Portfolios: weights that no guide can spoil, and that stay exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import pcgcd
from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.constraints import regex
from pcgcd.decoding import (
    GCD,
    LCD,
    PGCD,
    RESAMPLERS,
    SMC,
    Generator,
    LookAhead,
    NextStep,
    Population,
    Portfolio,
    Potential,
    PrefixValidity,
    Proposal,
    Randomness,
    Request,
    Twisted,
    Unconstrained,
    extend,
    resample,
)
from pcgcd.decoding.portfolio import draw, shares_of
from pcgcd.engine import ChainEngine
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import TableLM
from tests.decoding import worlds
from tests.decoding.test_exactness import limit, worst_z

BUDGET = 4


def wrong_hmms() -> dict[str, HMM]:
    """Guides with which nobody should trust a sample: over the tokens of :mod:`worlds`."""
    generator = torch.Generator().manual_seed(5)
    plain = HMM.random(3, worlds.SIZE, generator=generator)
    zeros = plain.emission.clone()
    zeros[:, [1, 4]] = 0  # no b, and one of the two a
    zeros /= zeros.sum(1, keepdim=True)
    tiny = plain.emission.clone()
    tiny[:, 1] = 1e-12
    tiny /= tiny.sum(1, keepdim=True)
    certain = torch.zeros(2, worlds.SIZE)
    certain[0, 0] = certain[1, 3] = 1.0  # "a", then the end
    return {
        "zeros": HMM(plain.initial, plain.transition, zeros),
        "tiny": HMM(plain.initial, plain.transition, tiny),
        "deterministic": HMM(
            torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [0.0, 1.0]]), certain
        ),
        "wrong": absorbing(
            HMM.random(2, worlds.SIZE, generator=generator, concentration=0.05), worlds.EOS
        ),
    }


GUIDES = wrong_hmms()
PORTFOLIOS: dict[str, tuple[Proposal, Potential]] = {
    "twisted": (Portfolio((GCD(), Twisted(0.5)), (0.5, 0.5)), PrefixValidity()),
    "P-GCD": (Portfolio((GCD(), PGCD(0.3)), (0.25, 0.75)), PrefixValidity()),
    "three": (Portfolio((GCD(), Twisted(0.0), LCD()), (0.5, 0.3, 0.2)), PrefixValidity()),
    "ahead": (Portfolio((GCD(), Twisted(0.8)), (0.5, 0.5)), LookAhead(0.8)),
}
# Every guide with every portfolio; resamplers, thresholds and numbers of particles in turn.
CASES = [
    (guide, name, [*RESAMPLERS, None][i % 5], [0.5, 1.0, 0.8][i % 3], [1, 2, 5, 8][i % 4])
    for i, (guide, name) in enumerate(itertools.product(GUIDES, PORTFOLIOS))
]


def final(
    guide: HMM,
    fa: FiniteAutomaton,
    parts: tuple[Proposal, Potential],
    resampling: str | None,
    threshold: float,
    particles: int,
    runs: int,
) -> Population:
    start = ChainEngine(guide, fa).start([BUDGET] * runs)
    smc = SMC(particles, resampling, threshold)
    *_, last = smc.steps(worlds.table(), [()] * runs, start, *parts, seed=3)
    return last.population


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_weight_of_every_text_is_unbiased_whatever_the_guide_believes(
    case: tuple[str, str, str | None, float, int],
) -> None:
    guide, name, *settings, particles = case
    fa = worlds.AUTOMATA["deterministic"]
    gamma = worlds.target(worlds.table(), fa, BUDGET)
    population = final(
        GUIDES[guide], fa, PORTFOLIOS[name], *settings, particles, runs=800 // particles
    )
    z, count = worst_z(population, gamma)
    assert z < limit(count, len(CASES)), f"{case}: off by {z:.1f} standard errors"


@pytest.mark.parametrize("guide", GUIDES)
def test_no_weight_exceeds_that_of_gcd_over_its_share(guide: str) -> None:
    """Without resampling, text by text: w(x) <= w_gcd(x) / share, and GCD's by hand."""
    fa, lm, share = worlds.AUTOMATA["deterministic"], worlds.table(), 0.25
    parts = (Portfolio((GCD(), PGCD(0.0)), (share, 1 - share)), PrefixValidity())
    population = final(GUIDES[guide], fa, parts, None, 0.5, 400, runs=1)
    longest = 0.0
    for text, log_weight in zip(population.tokens, population.log_weights.tolist(), strict=True):
        gcd = 1.0  # the mass that masks have left, step by step
        for t in range(len(text)):
            chances = lm.log_probs([text[:t]])[0].double().exp().numpy()
            allowed = [v for v in range(worlds.SIZE) if completable(fa, (*text[:t], v))]
            gcd *= float(chances[allowed].sum())
        assert log_weight <= math.log(gcd / share) + 1e-5
        longest = max(longest, math.exp(log_weight) / (gcd / share))
    assert longest > 0.1  # the bound is not idle


def completable(fa: FiniteAutomaton, prefix: tuple[int, ...]) -> bool:
    return any(fa.accepts(text) for text in worlds.leaves(BUDGET) if text[: len(prefix)] == prefix)


AB = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)


@pytest.mark.parametrize("chance", [0.0, 1e-12])
@pytest.mark.parametrize("method", ["pgcd", "twisted", None])
def test_a_guide_cannot_hide_the_text_that_the_language_model_wants(
    method: str | None, chance: float
) -> None:
    """The language model says b with probability .9, the HMM never or almost never."""
    lm = TableLM(AB, lambda prefix: torch.tensor([[0.1, 0.9, 0.0], [0, 0, 1.0]])[int(bool(prefix))])
    first = torch.tensor([1 - chance, chance, 0.0])
    hmm = HMM(
        torch.tensor([1.0, 0.0]),
        torch.tensor([[0.0, 1.0], [0.0, 1.0]]),
        torch.stack([first, torch.tensor([0.0, 0.0, 1.0])]),
    )
    result = pcgcd.generate(
        lm, regex("a|b"), budget=2, particles=200, method=method, hmm=hmm, seed=0
    )
    assert math.exp(result.log_evidence) == pytest.approx(1.0, abs=0.1)
    assert result.posterior()["b"] == pytest.approx(0.9, abs=0.07)
    alone = pcgcd.generate(
        lm, regex("a|b"), budget=2, particles=200, method="pgcd", gcd_share=0.0, hmm=hmm, seed=0
    )
    assert set(alone.texts) == {"a"}  # what the portfolio is for


def test_stretches_are_mixed_and_not_tokens() -> None:
    """Two parts, two tokens: the exact density of each text, in fractions.

    Part one draws a with 1/4 at each step, part two with 3/4; after "a" part two is the likelier
    one, so that "aa" has (1/16 + 9/16) / 2, not ((1/4 + 3/4) / 2)^2.
    """
    lm = TableLM(AB, lambda prefix: torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64))
    other = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.75, 0.25, 0.0]]))
    fa = FiniteAutomaton.from_edges(
        num_states=3, vocab_size=3, initial=0, accepting={2}, edges=[(0, 1, [0, 1]), (1, 2, [0, 1])]
    )
    runs = 400
    start = ChainEngine(other, fa).start([2])
    mixture = Portfolio((GCD(), PGCD(0.0)), (0.5, 0.5))
    *_, last = SMC(runs, None).steps(lm, [()], start, mixture, PrefixValidity(), seed=0)
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    seen = set()
    for text, log_weight in zip(
        last.population.tokens, last.population.log_weights.tolist(), strict=True
    ):
        parts = [math.prod(q if v == 0 else 1 - q for v in text) for q in (quarter, 3 * quarter)]
        expected = Fraction(parts[0]) / (half * parts[0] + half * parts[1])
        assert math.exp(log_weight) == pytest.approx(float(expected), rel=1e-5)
        seen.add(text)
    assert len(seen) == 4


def test_parts_draw_their_shares_of_the_particles() -> None:
    """At the first token of a stretch exactly; the parts here hardly ever draw the same token."""
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 1, [0, 1])]
    )
    lm = TableLM(AB, lambda prefix: torch.tensor([1 - 1e-12, 1e-12, 0.0], dtype=torch.float64))
    hmm = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.0, 1.0, 0.0]]))
    state = ChainEngine(hmm, fa).start([1] * 20)
    step = NextStep(state, lm.log_probs([()] * 20))
    mixture = Portfolio((GCD(), PGCD(0.0)), (0.3, 0.7))
    groups, log_shares = [0] * 10 + [1] * 10, torch.tensor([[0.3, 0.7]] * 20).double().log()
    firsts = np.zeros(20)
    for seed in range(200):
        found = draw(mixture, step, log_shares, groups, Randomness(seed))
        first = (found.token == 0).numpy()
        assert first[:10].sum() == first[10:].sum() == 3
        firsts += first
    # Each place is as likely as any other: a binomial of 200 with .3 has a deviation of 6.5.
    assert np.abs(firsts - 60).max() < 4 * 6.5


def test_a_part_without_tokens_leaves_its_share_to_the_others() -> None:
    class Nothing:
        needs_guide = False

        def weigh(self, step: NextStep) -> pcgcd.engine.Candidates:
            return step.masked().with_weights(torch.full_like(step.log_probs, -torch.inf))

    lm, fa = worlds.table(), worlds.AUTOMATA["ambiguous"]
    start = ChainEngine(worlds.hmm(), fa).start([BUDGET])
    mixture = Portfolio((Nothing(), Unconstrained()), (0.9, 0.1))
    plain = Population.start(start.select([0] * 6), [0] * 6, shares_of(mixture))
    after = extend(
        plain,
        lm.log_probs([()] * 6),
        mixture,
        PrefixValidity(),
        Randomness(0),
        eos_ids=worlds.EOS,
    )
    assert all(len(text) == 1 for text in after.tokens)
    alive = after.log_weights[after.log_weights > -math.inf]
    assert torch.allclose(alive, torch.zeros_like(alive), atol=1e-6)


def test_a_stretch_begins_anew_after_resampling() -> None:
    """With the shares that the last one has taught; else the bound would be that of whole texts."""
    lm, fa = worlds.table(), worlds.AUTOMATA["ambiguous"]
    start = ChainEngine(GUIDES["wrong"], fa).start([BUDGET])
    mixture = Portfolio((GCD(), Twisted(0.5)), (0.4, 0.6))
    settings = (mixture, PrefixValidity(), Randomness(0))
    first = Population.start(start.select([0] * 6), [0] * 6, shares_of(mixture))
    after = extend(first, lm.log_probs([()] * 6), *settings, eos_ids=worlds.EOS)
    anew, ancestors = resample(after, RESAMPLERS["systematic"], 1.0, Randomness(1))
    assert ancestors is not None
    weights, parts = np.exp(after.log_weights.numpy()), np.exp(after.log_parts.numpy())
    assert np.ptp(parts[:, 0] / parts.sum(1)) > 0.05  # the particles differ in who drew them
    found = (weights[:, None] * parts / parts.sum(1, keepdims=True)).sum(0) / weights.sum()
    shares = 0.2 * np.array([0.4, 0.6]) + 0.8 * found
    assert np.allclose(anew.log_parts.exp().numpy(), np.broadcast_to(shares, (6, 2)), atol=1e-6)

    going = [anew.tokens[i] for i in anew.active]
    again = extend(anew, lm.log_probs(going), *settings, eos_ids=worlds.EOS)
    # At the first token of a stretch, the mixture is that of the shares.
    active = list(anew.active)
    gain = (again.log_probs - anew.log_probs)[active] - again.log_parts[active].logsumexp(1)
    alive = again.log_weights[active] > -math.inf
    moved = (again.log_weights - anew.log_weights)[active]
    assert torch.allclose(moved[alive], gain[alive], atol=1e-6)


def test_shares_follow_the_part_that_is_right_and_never_vanish() -> None:
    """Ten resamplings in a world where the guide wants what the language model never says."""
    lm = TableLM(AB, lambda prefix: torch.tensor([0.999, 0.001, 0.0], dtype=torch.float64))
    wrong = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.01, 0.99, 0.0]]))
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=3, initial=0, accepting={0}, edges=[(0, 0, [0, 1])]
    )
    start = ChainEngine(wrong, fa).start([10])
    mixture = Portfolio((GCD(), PGCD(0.0)), (0.25, 0.75))
    population = Population.start(start.select([0] * 40), [0] * 40, shares_of(mixture))
    for _ in range(9):
        texts = [population.tokens[i] for i in population.active]
        population = extend(
            population, lm.log_probs(texts), mixture, PrefixValidity(), Randomness(0), eos_ids=[2]
        )
        population, _ = resample(population, RESAMPLERS["systematic"], 1.0, Randomness(1))
        shares = population.log_parts.exp()
        assert torch.allclose(shares.sum(1), torch.ones(40).double())
        assert 0.8 < float(shares[0, 0]) <= 0.85 + 1e-9  # the other keeps a fifth of its share


@pytest.mark.parametrize(
    ("parts", "shares", "message"),
    [
        ((), (), "needs a share for each"),
        ((GCD(),), (0.5, 0.5), "needs a share for each"),
        ((GCD(), LCD()), (1.0, 0.0), "positive and sum to 1"),
        ((GCD(), LCD()), (0.4, 0.4), "positive and sum to 1"),
        ((GCD(), "lcd"), (0.5, 0.5), "a proposal is a name or an object with a method weigh"),
    ],
)
def test_bad_portfolios_are_refused(
    parts: tuple[Proposal, ...], shares: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Portfolio(parts, shares)


def test_a_share_of_one_is_gcd_and_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match='method="gcd"'):
        pcgcd.generate(worlds.table(), regex("a"), budget=3, gcd_share=1.0)


# -- guides that are adapted to the prompt --------------------------------------------------------


def test_adapted_guides_keep_the_evidence_unbiased() -> None:
    """Pilot texts change the proposal of each run, and the mean of the runs is exact."""
    lm, fa = worlds.table(), worlds.AUTOMATA["deterministic"]
    exact = sum(worlds.target(lm, fa, BUDGET).values())
    runs = 150
    generator = Generator(lm, hmm=GUIDES["wrong"], adapt=3, smc=SMC(2))
    results = generator.run([Request(fa, (), BUDGET)] * runs, seed=5)
    found = np.exp([result.log_evidence for result in results])
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(runs)
    assert all(result.model_seconds > 0 for result in results)


def test_a_guide_is_adapted_to_texts_of_the_language_model() -> None:
    """After the pilots the guide knows the model's habits: its proposal is nearly exact."""
    lm = TableLM(AB, lambda prefix: torch.tensor([0.05, 0.85, 0.1], dtype=torch.float64))
    hmm = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.85, 0.05, 0.1]]))

    def spread(adapt: int) -> float:
        result = pcgcd.generate(
            lm,
            regex("[ab]{3}"),
            hmm=hmm,
            method=PGCD(0.0),
            adapt=adapt,
            budget=4,
            particles=100,
            smc=False,
            seed=0,
        )
        return float(np.std(result.log_weights))

    assert spread(64) < 0.5 * spread(0)


def test_a_number_of_pilots_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="adapt, the number of continuations,"):
        Generator(worlds.table(), adapt=-1)

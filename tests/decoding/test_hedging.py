"""Hedged potentials: resampling that a wrong look-ahead cannot spoil, and that stays exact."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.decoding import (
    GCD,
    RESAMPLERS,
    SMC,
    Hedged,
    LookAhead,
    Population,
    Portfolio,
    Potential,
    PrefixValidity,
    SpelledPotential,
    Spelling,
    Twisted,
)
from pcgcd.decoding.potentials import hedged
from pcgcd.decoding.requests import choose
from pcgcd.engine import ChainEngine
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from tests.decoding import worlds
from tests.decoding.test_exactness import limit, worst_z
from tests.decoding.test_portfolio import GUIDES, final

SHARES = (0.1, 0.5, 1.0)
CASES = [
    (guide, share, name, [0.5, 1.0][i % 2], [2, 5, 8][i % 3])
    for i, (guide, share, name) in enumerate(itertools.product(GUIDES, SHARES, RESAMPLERS))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_weight_of_every_text_is_unbiased_whatever_the_potential_believes(
    case: tuple[str, float, str, float, int],
) -> None:
    guide, share, resampling, threshold, particles = case
    fa = worlds.AUTOMATA["deterministic"]
    gamma = worlds.target(worlds.table(), fa, 4)
    parts = (Portfolio((GCD(), Twisted(0.3)), (0.3, 0.7)), Hedged(LookAhead(0.3), share))
    population = final(
        GUIDES[guide], fa, parts, resampling, threshold, particles, runs=800 // particles
    )
    z, count = worst_z(population, gamma)
    assert z < limit(count, len(CASES)), f"{case}: off by {z:.1f} standard errors"


def test_chances_mix_the_weights_with_the_potential_and_those_with_the_trusted_one() -> None:
    rng = np.random.default_rng(0)
    weight, trusted, twist = rng.random(6), rng.random(6), 10.0 ** rng.integers(-12, 0, 6)
    weight[2] = twist[4] = trusted[4] = 0.0
    full, safe = weight * twist, weight * trusted
    logs = [torch.tensor(each).log() for each in (full, twist, trusted)]
    assert torch.equal(hedged(*logs, 0.0), logs[0])
    for share in (0.2, 0.7, 1.0):
        found = hedged(*logs, share).exp().numpy()
        expected = share * safe / safe.sum() + (1 - share) * full / full.sum()
        assert np.allclose(found, expected * safe.sum(), rtol=1e-12)


def test_where_all_particles_are_dead_nothing_is_mixed() -> None:
    dead, alive = torch.full((3,), -torch.inf, dtype=torch.float64), torch.zeros(3).double()
    assert torch.equal(hedged(dead, dead, dead, 0.5), dead)
    assert torch.equal(hedged(dead, alive, alive, 0.5), dead)


ENDS = Vocabulary.from_bytes([b"a", b"b", b"x", None], eos_ids=3)


def forked() -> tuple[TableLM, ChainEngine]:
    """Two texts, ax and bx, of equal probability; the guide believes that x hardly follows a."""
    first, then, end = (0.5, 0.5, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)
    lm = TableLM(ENDS, lambda prefix: torch.tensor((first, then, end)[min(len(prefix), 2)]))
    fa = FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=4,
        initial=0,
        accepting={3},
        edges=[(0, 1, [0, 1]), (1, 2, [2]), (2, 3, [3]), (3, 3, [3])],
    )
    hidden = torch.tensor([0.5, 0.5, 0.0, 0.0])
    moves = torch.tensor([[0, 0, 1e-9, 1 - 1e-9], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]])
    guide = HMM(hidden, moves.float(), torch.eye(4))
    return lm, ChainEngine(guide, fa)


def run(potential: Potential, particles: int, seed: int) -> Population:
    lm, engine = forked()
    smc = SMC(particles, "systematic", 0.9)
    *_, last = smc.steps(lm, [()], engine.start([3]), GCD(), potential, seed=seed)
    return last.population


def test_a_potential_alone_drops_what_it_thinks_hopeless_and_a_hedged_one_does_not() -> None:
    for seed in range(10):
        alone, kept = run(LookAhead(), 64, seed), run(Hedged(LookAhead(), 0.25), 64, seed)
        assert {text[0] for text in alone.tokens} == {1}
        assert {text[0] for text in kept.tokens} == {0, 1}
        share = kept.log_weights.softmax(0)[[text[0] == 0 for text in kept.tokens]].sum()
        assert 0.2 < float(share) < 0.8
        assert kept.total_log_evidence(0) == pytest.approx(0.0, abs=0.3)
    # The evidence of the potential alone is about half, in every run: its loss does not show.
    assert run(LookAhead(), 64, 0).total_log_evidence(0) == pytest.approx(math.log(0.5), abs=0.3)


def test_every_particle_keeps_its_share_of_offspring() -> None:
    """At least what it would have without the potential, times the share, up to rounding."""
    for share in (0.25, 0.5):
        for seed in range(5):
            count = sum(text[0] == 0 for text in run(Hedged(LookAhead(), share), 64, seed).tokens)
            without = sum(text[0] == 0 for text in run(PrefixValidity(), 64, seed).tokens)
            assert count >= math.floor(share * without)


def test_a_hedge_of_one_resamples_as_without_the_potential() -> None:
    kept, plain = run(Hedged(LookAhead(), 1.0), 16, 3), run(PrefixValidity(), 16, 3)
    assert kept.tokens == plain.tokens
    assert kept.total_log_evidence(0) == pytest.approx(plain.total_log_evidence(0), abs=1e-6)
    assert torch.allclose(kept.log_weights, plain.log_weights, atol=1e-6)


def test_a_hedge_of_zero_is_the_potential_itself() -> None:
    kept, plain = run(Hedged(LookAhead(0.5), 0.0), 16, 3), run(LookAhead(0.5), 16, 3)
    assert kept.tokens == plain.tokens
    assert torch.equal(kept.log_weights, plain.log_weights)


def test_guides_are_hedged_by_the_share_of_gcd_and_the_spelling_is_not() -> None:
    for method in ("pgcd", "twisted"):
        alone = choose(method, gcd_share=0.0).potential
        assert choose(method, gcd_share=0.3).potential == Hedged(alone, 0.3)
    assert choose("gcd").potential == PrefixValidity()
    assert choose("pgcd", "prefix").potential == PrefixValidity()
    spelling = Spelling(ENDS, lambda text: (0,))
    unguided = choose("gcd", spelling=spelling, spelled=True).potential
    assert isinstance(unguided, SpelledPotential)
    assert unguided.potential == PrefixValidity()
    both = choose("twisted", spelling=spelling, particles=4).potential
    assert isinstance(both, Hedged)
    assert both.share == 0.25
    for each, inner in ((both.potential, LookAhead(0.5)), (both.trusted, PrefixValidity())):
        assert isinstance(each, SpelledPotential)
        assert each.potential == inner


def test_beside_a_guide_at_least_one_particle_of_several_is_gcds() -> None:
    spelling = Spelling(ENDS, lambda text: (0,))
    for particles, share in ((1, 0.1), (2, 0.5), (4, 0.25), (8, 0.125), (16, 0.1)):
        for method in ("pgcd", "twisted"):
            proposal = choose(method, particles=particles).proposal
            assert isinstance(proposal, Portfolio)
            assert proposal.shares == (share, 1 - share)
        unguided = choose("gcd", particles=particles, spelling=spelling, spelled=True).proposal
        assert isinstance(unguided, Portfolio)
        assert unguided.shares == (0.1, 0.9)


def test_bad_shares_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"share must lie in \[0, 1\], but is 1.5"):
        Hedged(LookAhead(), 1.5)

"""Hedged potentials: resampling that a wrong look-ahead cannot spoil, and that stays exact."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import pcgcd
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


def test_chances_mix_what_the_weights_are_with_and_without_the_potential() -> None:
    rng = np.random.default_rng(0)
    weight, twist = rng.random(6), 10.0 ** rng.integers(-12, 0, 6)
    weight[2] = twist[4] = 0.0
    full = weight * twist
    for share in (0.0, 0.2, 0.7, 1.0):
        found = hedged(torch.tensor(full).log(), torch.tensor(twist).log(), share).exp().numpy()
        alive = np.where(twist > 0, weight, 0.0)
        expected = alive * (share + (1 - share) * twist * alive.sum() / full.sum())
        expected = full if share == 0 else expected
        assert np.allclose(found, expected, rtol=1e-12)
        if share:
            assert found.sum() == pytest.approx(alive.sum())


def test_where_all_particles_are_dead_nothing_is_mixed() -> None:
    dead = torch.full((3,), -torch.inf, dtype=torch.float64)
    assert torch.equal(hedged(dead, dead, 0.5), dead)
    assert torch.equal(hedged(dead, torch.zeros(3).double(), 0.5), dead)


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


def test_methods_that_look_ahead_are_hedged_by_the_share_of_gcd() -> None:
    for method in ("pgcd", "twisted"):
        assert choose(method, gcd_share=0.3).potential == Hedged(
            choose(method, gcd_share=0.0).potential, 0.3
        )
    assert choose("gcd").potential == PrefixValidity()


def test_bad_shares_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"share must lie in \[0, 1\], but is 1.5"):
        pcgcd.decoding.Hedged(LookAhead(), 1.5)

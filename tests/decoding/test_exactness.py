"""SMC aims at p_lm(x) 1{x in C}, text by text, whatever the proposal and the potential."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest
import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.decoding import (
    GCD,
    LCD,
    PGCD,
    RESAMPLERS,
    SMC,
    LookAhead,
    Population,
    Potential,
    PrefixValidity,
    Proposal,
    Terminal,
    Twisted,
    Unconstrained,
)
from pcgcd.engine import ChainEngine
from pcgcd.lm import LanguageModel
from tests.decoding import worlds

Case: TypeAlias = tuple[str, str, str | None, float, int]

BUDGET = 4
GUIDE = worlds.hmm(7)
PROPOSALS: dict[str, Proposal] = {
    "lm": Unconstrained(),
    "lcd": LCD(),
    "gcd": GCD(),
    "pgcd 0.3": PGCD(0.3),
    "pgcd 0.6": PGCD(0.6),
    "twisted": Twisted(0.4),
}
POTENTIALS: dict[str, Potential] = {
    "terminal": Terminal(),
    "local": PrefixValidity(within_budget=False),
    "prefix": PrefixValidity(),
    "pgcd": LookAhead(),
    "tempered": LookAhead(0.4),
}


def final(
    lm: LanguageModel,
    fa: FiniteAutomaton,
    proposal: Proposal,
    potential: Potential,
    *,
    replicates: int,
    particles: int,
    resampling: str | None = "systematic",
    ess_threshold: float = 1.0,
    seed: int = 0,
    budget: int = BUDGET,
) -> Population:
    """The last population of many independent runs, which are tasks of one batch."""
    smc = SMC(particles, resampling, ess_threshold)
    start = ChainEngine.of(GUIDE, fa).start([budget] * replicates)
    steps = smc.steps(lm, [()] * replicates, start, proposal, potential, seed=seed)
    return list(steps)[-1].population


def estimates(population: Population, bins: Sequence[frozenset[tuple[int, ...]]]) -> torch.Tensor:
    """(1 / k) sum_i w_i 1{x_i in bin} of each replicate, (replicates, bins)."""
    place = {tokens: i for i, members in enumerate(bins) for tokens in members}
    result = torch.zeros(population.num_tasks, len(bins), dtype=torch.float64)
    count = len(population.tokens) // population.num_tasks
    for i, tokens in enumerate(population.tokens):
        log_weight = float(population.log_weights[i])
        if log_weight > -math.inf:
            task = population.task[i]
            weight = math.exp(log_weight + population.log_evidence[task])
            result[task, place[tokens]] += weight / count
    return result


def bins_of(
    gamma: dict[tuple[int, ...], float], share: float = 0.03
) -> list[frozenset[tuple[int, ...]]]:
    """One bin for each text, those under a share of the mass together.

    A text that few runs reach has a standard error that cannot be estimated.
    """
    total = sum(gamma.values())
    rare = frozenset(x for x, mass in gamma.items() if mass < share * total)
    return [frozenset([x]) for x in gamma if x not in rare] + ([rare] if rare else [])


def worst_z(
    population: Population,
    gamma: dict[tuple[int, ...], float],
    *,
    weights: bool = True,
    share: float = 0.03,
) -> tuple[float, int]:
    """The largest deviation from gamma in standard errors, and the number of bins."""
    bins = bins_of(gamma, share)
    if not weights:  # as many particles as there are, all of the same weight
        total = math.log(sum(gamma.values()))
        population = replace(
            population,
            log_weights=torch.zeros_like(population.log_weights),
            log_evidence=(total,) * population.num_tasks,
        )
        population = _without_dead(population, gamma)
    values = estimates(population, bins)
    exact = torch.tensor([sum(gamma[x] for x in members) for members in bins])
    error = values.std(0) / math.sqrt(len(values))
    deviation = (values.mean(0) - exact).abs()
    z = torch.where(deviation <= 1e-6 * exact, 0.0, deviation / error)
    return float(z.max()), len(bins)


def _without_dead(population: Population, gamma: dict[tuple[int, ...], float]) -> Population:
    kept = [i for i, tokens in enumerate(population.tokens) if tokens not in gamma]
    log_weights = population.log_weights.clone()
    log_weights[kept] = -math.inf
    return replace(population, log_weights=log_weights)


def limit(num_bins: int, num_cases: int) -> float:
    """Bonferroni: all bins of all cases together fail once in 1,000 seeds."""
    return -statistics.NormalDist().inv_cdf(1e-3 / (2 * num_bins * num_cases))


def chi_square_p_value(counts: torch.Tensor, expected: torch.Tensor) -> float:
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2)
    return float(torch.special.gammaincc(freedom, statistic / 2))


GRID = list(itertools.product(PROPOSALS, POTENTIALS, [*RESAMPLERS, None], [0.5, 1.0], [1, 2, 5]))


def check_unbiased(name: str, case: Case, runs: int, share: float) -> None:
    proposal, potential, resampling, threshold, particles = case
    lm, fa = worlds.table(), worlds.AUTOMATA[name]
    gamma = worlds.target(lm, fa, BUDGET)
    population = final(
        lm,
        fa,
        PROPOSALS[proposal],
        POTENTIALS[potential],
        replicates=runs,
        particles=particles,
        resampling=resampling,
        ess_threshold=threshold,
        seed=11,
    )
    z, count = worst_z(population, gamma, share=share)
    assert z < limit(count, len(GRID)), f"{case}: off by {z:.1f} standard errors"


# Every value of every setting, and every pair of proposal and potential.
FEW = [
    (p, q, [*RESAMPLERS, None][(i + j) % 5], [0.5, 1.0][(i + j) % 2], [1, 2, 5][(i + 2 * j) % 3])
    for i, p in enumerate(PROPOSALS)
    for j, q in enumerate(POTENTIALS)
]


@pytest.mark.parametrize("case", FEW, ids=str)
def test_the_weight_of_every_text_is_unbiased(
    case: tuple[str, str, str | None, float, int],
) -> None:
    check_unbiased("ambiguous", case, 1500 // case[-1], share=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", worlds.AUTOMATA)
@pytest.mark.parametrize("case", GRID[::12], ids=str)
def test_the_weight_of_every_text_is_unbiased_everywhere(case: Case, name: str) -> None:
    check_unbiased(name, case, 12_000 // case[-1], share=0.01)


@pytest.mark.parametrize("proposal", ["lcd", "gcd", "pgcd 0.6"])
def test_without_weights_the_same_test_fails(proposal: str) -> None:
    lm, fa = worlds.table(), worlds.AUTOMATA["constraint"]
    gamma = worlds.target(lm, fa, BUDGET)
    population = final(
        lm,
        fa,
        PROPOSALS[proposal],
        PrefixValidity(),
        replicates=1000,
        particles=2,
        resampling=None,
        seed=5,
    )
    z, count = worst_z(population, gamma)
    assert z < limit(count, 1)
    z, count = worst_z(population, gamma, weights=False)
    assert z > 2 * limit(count, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("proposal", [PGCD(0.0), Twisted(0.0)], ids=str)
@pytest.mark.parametrize("name", ["deterministic", "constraint"])
def test_with_the_model_itself_as_hmm_all_weights_are_the_evidence(
    name: str, proposal: Proposal, seed: int
) -> None:
    fa, budget = worlds.AUTOMATA[name], 5
    lm = worlds.hmm_lm(7)
    evidence = sum(worlds.target(lm, fa, budget).values())
    population = final(
        lm, fa, proposal, LookAhead(), replicates=20, particles=4, seed=seed, budget=budget
    )
    # Resampling does not change equal weights: each particle alone is the evidence.
    moved = torch.tensor([population.log_evidence[task] for task in population.task])
    weights = (population.log_weights + moved).exp()
    assert torch.allclose(weights, torch.tensor(evidence, dtype=torch.float64), rtol=1e-5)
    assert evidence == pytest.approx(
        math.exp(float((worlds.hmm(7) * fa).log_partition(budget))), rel=1e-5
    )


@pytest.mark.parametrize("name", worlds.AUTOMATA)
def test_samples_by_weight_follow_the_posterior(name: str) -> None:
    """Chi-square: P-GCD, one text drawn from each of many runs."""
    lm, fa = worlds.table(3), worlds.AUTOMATA[name]
    gamma = worlds.target(lm, fa, BUDGET)
    population = final(
        lm, fa, PGCD(0.6), LookAhead(), replicates=300, particles=16, seed=2, ess_threshold=0.5
    )
    bins = bins_of(gamma)
    place = {tokens: i for i, members in enumerate(bins) for tokens in members}
    counts = torch.zeros(len(bins))
    generator = torch.Generator().manual_seed(0)
    for task in range(population.num_tasks):
        members = population.members(task)
        weights = population.log_weights[members].softmax(0)
        chosen = members[int(torch.multinomial(weights, 1, generator=generator))]
        counts[place[population.tokens[chosen]]] += 1
    exact = torch.tensor([sum(gamma[x] for x in members) for members in bins])
    expected = exact / exact.sum() * population.num_tasks
    assert chi_square_p_value(counts, expected) > 1e-5
    # The test can fail: the same counts are not uniform over the bins.
    assert chi_square_p_value(counts, torch.full_like(expected, float(expected.mean()))) < 1e-5


def test_equivalent_automata_give_the_same_distribution() -> None:
    """The same texts, more paths: the estimates have the same expectation, run by run weights."""
    lm = worlds.table(1)
    first = worlds.target(lm, worlds.AUTOMATA["ambiguous"], BUDGET)
    assert first == pytest.approx(worlds.target(lm, worlds.AUTOMATA["deterministic"], BUDGET))
    for name in ("ambiguous", "deterministic"):
        population = final(
            lm, worlds.AUTOMATA[name], PGCD(0.3), LookAhead(), replicates=400, particles=4, seed=9
        )
        z, count = worst_z(population, first)
        assert z < limit(count, 2)


def test_a_proposal_with_masks_only_does_not_see_which_automaton_it_is() -> None:
    lm = worlds.table(1)
    runs = [
        final(lm, worlds.AUTOMATA[name], GCD(), PrefixValidity(), replicates=30, particles=4)
        for name in ("ambiguous", "deterministic")
    ]
    assert runs[0].tokens == runs[1].tokens
    assert torch.equal(runs[0].log_weights, runs[1].log_weights)

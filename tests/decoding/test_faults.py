"""What once went wrong without a word: one test for each."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest
import torch

import pcgcd
from pcgcd.automata import Vocabulary
from pcgcd.constraints import regex
from pcgcd.decoding import GCD, PGCD, SMC, Generator, NextStep, PrefixValidity, Randomness, Request
from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.population import Population, resample
from pcgcd.decoding.rejection import reject
from pcgcd.decoding.resampling import systematic
from pcgcd.decoding.results import Generation
from pcgcd.engine import ChainEngine
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from tests.decoding import worlds

AB = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)


def constant(*probabilities: float) -> TableLM:
    return TableLM(AB, lambda prefix: torch.tensor(probabilities, dtype=torch.float64))


# -- rejection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("max_attempts", [3, 9])
@pytest.mark.parametrize("wanted", [1, 2, 4])
def test_the_evidence_of_rejection_is_unbiased(wanted: int, max_attempts: int) -> None:
    """Over all ways in which the attempts can go, in fractions."""
    chance = Fraction(1, 7)
    mean = Fraction(0)
    for fates in itertools.product([True, False], repeat=max_attempts):
        script = iter(fates)

        def attempt(count: int, script: Iterator[bool] = script) -> Generation:
            log_weights = tuple(0.0 if next(script) else -math.inf for _ in range(count))
            blank = (True,) * count
            return Generation(
                texts=("",) * count,
                token_ids=((),) * count,
                log_weights=log_weights,
                log_probs=(0.0,) * count,
                log_values=(0.0,) * count,
                log_evidence=0.0,
                prompt_ids=(),
                effective_sample_sizes=(),
                satisfied=blank,
                ended=blank,
                genealogy=Genealogy(()),
                method="",
            )

        rate = reject(attempt, wanted, max_attempts).acceptance_rate
        assert rate is not None
        probability = math.prod(chance if fate else 1 - chance for fate in fates)
        mean += probability * Fraction(rate).limit_denominator(100)
    assert mean == chance


def test_requests_of_one_rejecting_batch_draw_different_texts() -> None:
    lm = constant(0.4, 0.4, 0.2)
    requests = [Request(regex("[ab]{6}"), (), 7)] * 3
    results = Generator(lm, method="rejection", smc=SMC(4)).run(requests, seed=0)
    assert len({result.texts for result in results}) == 3


# -- P-GCD's w, and when resampling happens ------------------------------------------------------


@pytest.mark.parametrize("w", [0.0, 0.2, 0.7, 1.0])
def test_w_weighs_the_language_model_and_one_minus_w_the_circuit(w: float) -> None:
    """One token and its end, in plain arithmetic: p_lm(v)^w (p_hmm(v) / sum)^(1 - w)."""
    lm_says, hmm_says = (0.7, 0.1, 0.2), (0.3, 0.6, 0.1)
    hmm = HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([hmm_says]))
    fa = regex("[ab]").compile(AB)
    state = ChainEngine(hmm, fa).start([2])
    found = PGCD(w).weigh(NextStep(state, torch.tensor([lm_says]).log()))
    weights = found.dense(3)[0].double().softmax(0).tolist()
    expected = [lm_says[v] ** w * hmm_says[v] ** (1 - w) for v in (0, 1)]
    assert weights[:2] == pytest.approx([value / sum(expected) for value in expected], rel=1e-5)
    assert weights[2] == 0.0


@pytest.mark.parametrize(
    ("weights", "threshold", "resampled"),
    [
        ((1.0, 1.0, 1.0, 1.0), 0.99, False),  # ESS 4
        ((1.0, 1.0, 1.0, 1.0), 1.0, True),
        ((1.0, 1.0, 0.0, 0.0), 0.5, True),  # ESS 2
        ((1.0, 1.0, 0.0, 0.0), 0.49, False),
        ((1.0, 0.0, 0.0, 0.0), 0.25, True),  # ESS 1
        ((1.0, 0.0, 0.0, 0.0), 0.2, False),
    ],
)
def test_resampling_happens_at_or_below_the_threshold(
    weights: tuple[float, ...], threshold: float, resampled: bool
) -> None:
    start = ChainEngine(worlds.hmm(), worlds.deterministic()).start([3] * 4)
    population = Population.start(start, [0] * 4)
    log_weights = torch.tensor(weights, dtype=torch.float64).log()
    population = Population(**{**vars(population), "log_weights": log_weights})
    after, ancestors = resample(population, systematic, threshold, Randomness(0))
    assert (ancestors is not None) == resampled
    if ancestors is not None:
        assert Counter(ancestors) == Counter(systematic_counts(weights))
        assert after.log_evidence[0] == pytest.approx(math.log(sum(weights) / 4))
        assert after.log_weights.tolist() == [0.0] * 4


def systematic_counts(weights: tuple[float, ...]) -> list[int]:
    """Weights that divide four evenly have exactly their share of descendants."""
    return [i for i, weight in enumerate(weights) for _ in range(round(4 * weight / sum(weights)))]


def test_a_low_threshold_resamples_less_often() -> None:
    lm, fa = worlds.table(2), worlds.AUTOMATA["constraint"]
    start = ChainEngine(worlds.hmm(), fa).start([6])

    def count(threshold: float) -> int:
        steps = SMC(16, "systematic", threshold).steps(
            lm, [()], start, GCD(), PrefixValidity(), seed=3
        )
        return sum(step.ancestors is not None for step in steps)

    counts = [count(threshold) for threshold in (0.0, 0.3, 0.6, 1.0)]
    assert all(a <= b for a, b in pairwise(counts))
    assert counts[0] < counts[-1] == 5


# -- texts ---------------------------------------------------------------------------------------


def test_a_stream_of_invalid_utf8_repeats_nothing() -> None:
    """0xC3 is the beginning of a character that never comes; then an "a"."""
    vocabulary = Vocabulary.from_bytes([b"\xc3", b"a", None], eos_ids=2)
    script = {(): 0, (0,): 1, (0, 1): 0, (0, 1, 0): 1}
    lm = TableLM(
        vocabulary,
        lambda prefix: torch.eye(3, dtype=torch.float64)[script.get(prefix, 2)],
    )
    free = pcgcd.FiniteAutomaton.from_edges(
        num_states=1, vocab_size=3, initial=0, accepting={0}, edges=[(0, 0, {0, 1})]
    )
    for particles in (1, 3):
        generator = Generator(lm, method="gcd", smc=SMC(particles))
        stream = generator.stream(Request(free, (), 6), seed=0)
        text = "".join(stream)
        assert stream.result is not None
        assert stream.result.best == "�a�a"
        assert stream.result.best.startswith(text)
        assert text.count("a") <= 2


def test_a_particle_that_dies_without_a_candidate_counts_no_further_token() -> None:
    """After "b" the language model wants what the constraint forbids."""
    rows = {(): [0.5, 0.5, 0.0], (0,): [0.0, 0.0, 1.0], (1,): [0.0, 1.0, 0.0]}
    lm = TableLM(AB, lambda prefix: torch.tensor(rows.get(prefix, [0.0, 0.0, 1.0])).double())
    result = pcgcd.generate(
        lm, regex("a|ba"), budget=3, particles=32, method="gcd", smc=False, seed=0
    )
    assert set(result.texts) == {"a", "b"}
    for text, log_prob in zip(result.texts, result.log_probs, strict=True):
        assert log_prob == pytest.approx(math.log(0.5)), text

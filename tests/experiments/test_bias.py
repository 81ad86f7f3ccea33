"""Posteriors that are known: against numpy, and against what the methods find."""

from __future__ import annotations

import math
import re
from itertools import product
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from rich.table import Table

from pcgcd.constraints import regex
from pcgcd.decoding import Target
from pcgcd.errors import AutomatonTooLargeError
from pcgcd.experiments import bias
from pcgcd.experiments.bias_worlds import (
    RANDOM_LANGUAGES,
    Language,
    World,
    coarsened,
    enumerated,
    random_world,
)
from pcgcd.experiments.cars import cars
from pcgcd.experiments.harness.methods import METHODS
from pcgcd.experiments.harness.rows import Key
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from tests.experiments.sampled import tiny_vocabulary


def by_hand(world: World, language: Language) -> dict[tuple[int, ...], float]:
    """Every string of three letters, scored with numpy and kept by ``re``."""
    own = world.guides["own"]
    initial, transition, emission = (
        tensor.double().numpy() for tensor in (own.initial, *own.transition_factors, own.emission)
    )
    found = {}
    for length in range(language.budget + 1):
        for letters in product("abc", repeat=length):
            text = "".join(letters)
            if not re.fullmatch(language.pattern, text):
                continue
            tokens = tuple("abc".index(letter) for letter in letters)
            if length < language.budget:
                tokens = (*tokens, 3)
            alpha = initial * emission[:, tokens[0]]
            for token in tokens[1:]:
                alpha = (alpha @ transition) * emission[:, token]
            found[tokens] = float(alpha.sum())
    return {tokens: p for tokens, p in found.items() if p > 0}


@pytest.mark.parametrize("language", RANDOM_LANGUAGES, ids=lambda language: language.name)
def test_the_posterior_is_that_of_all_strings(language: Language) -> None:
    world = random_world(language)
    expected = by_hand(world, language)
    total = sum(expected.values())
    assert world.log_evidence == pytest.approx(math.log(total), abs=1e-9)
    assert world.posterior.keys() == expected.keys()
    for tokens, p in expected.items():
        assert world.posterior[tokens] == pytest.approx(p / total, rel=1e-9)


def test_a_model_that_is_cut_down_gives_texts_the_probabilities_of_the_whole_one() -> None:
    """All spellings of a few words over 265 tokens, scored one by one."""
    vocabulary = tiny_vocabulary()
    lm = TableLM.random(vocabulary, seed=3, order=2)
    language = Language("words", "(name|pet|true)ing", 8)
    guide = HMM.random(3, vocabulary.logits_size, generator=torch.Generator().manual_seed(0))
    world = enumerated("table", lm, language, (), {"hmm": guide})
    (end,) = vocabulary.eos_ids
    weights = {}
    for text in ("nameing", "peting", "trueing"):
        for tokens in vocabulary.tokenizations(text):
            whole = (*tokens, end) if len(tokens) < 8 else tokens
            if len(whole) <= 8:
                logs = [float(lm.log_probs([whole[:t]])[0, token]) for t, token in enumerate(whole)]
                weights[whole] = math.exp(math.fsum(logs))
    total = sum(weights.values())
    assert world.log_evidence == pytest.approx(math.log(total), abs=1e-9)
    used = world.lm.vocabulary
    found = {(used.decode(x), len(x)): p for x, p in world.posterior.items()}
    merged: dict[tuple[bytes, int], float] = {}
    for tokens, weight in weights.items():
        key = (vocabulary.decode(tokens), len(tokens))
        merged[key] = merged.get(key, 0.0) + weight / total
    assert len(world.posterior) == len(weights)
    assert math.fsum(found.values()) <= 1 + 1e-9
    assert found.keys() == merged.keys()
    small = world.guides["hmm"]
    assert small.vocab_size == used.size < 40
    torch.testing.assert_close(small.emission.sum(1), torch.ones(3, dtype=torch.float64))
    whole_fa = Target.of(regex(language.pattern), vocabulary).automaton
    assert world.automaton.shortest_length() == whole_fa.shortest_length()


def test_a_language_that_cannot_be_enumerated_is_refused() -> None:
    lm = TableLM.random(tiny_vocabulary(), order=0)
    with pytest.raises(AutomatonTooLargeError, match="prefixes"):
        enumerated("table", lm, Language("all", "[a-z]*", 5), (), {})


def test_a_coarser_hmm_is_an_hmm_that_ends_alike() -> None:
    world = random_world(RANDOM_LANGUAGES[0])
    own = world.guides["own"]
    assert isinstance(own, HMM)
    coarse = coarsened(own, 3)
    assert coarse.num_hidden <= 4 < own.num_hidden
    for rows in (coarse.initial, coarse.transition, coarse.emission):
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows.sum(-1)))
    assert int(coarse.ended.sum()) == int(own.ended.sum()) == 1


def test_distances() -> None:
    p, q = {(0,): 0.5, (1,): 0.5}, {(0,): 0.25, (1,): 0.75}
    assert bias.total_variation(p, q) == pytest.approx(0.25)
    assert bias.total_variation(p, {(2,): 1.0}) == 1
    assert bias.divergence(p, p) == pytest.approx(0)
    mixed = [0.99 * 0.25 + 0.01 * 0.5, 0.99 * 0.75 + 0.01 * 0.5]
    expected = sum(0.5 * math.log(0.5 / m) for m in mixed)
    assert bias.divergence(q, p) == pytest.approx(expected)
    assert math.isfinite(bias.divergence({}, p))


def test_pooled_runs_are_near_and_locally_constrained_texts_are_not() -> None:
    """4,096 particles: exact samples and SMC come near, LCD without weights does not."""
    world = random_world(RANDOM_LANGUAGES[0])

    def row(runs: list[bias.Run]) -> dict[str, float]:
        found = bias.row_of(Key("", "", "", 16, 0), world, runs, 0.0)
        return dict(found.measures)

    exact = row(bias._exact_runs(world, 16, 0))
    smc = row(bias._method_runs(METHODS["GCD+SMC"], "", None, world, 16, 1))
    local = row(bias._method_runs(METHODS["LCD"], "", None, world, 16, 1))
    own = row(bias._method_runs(METHODS["twisted+SMC"], "own", None, world, 16, 1))
    assert exact["tv"] < 0.07
    assert smc["tv"] < 0.09
    assert local["tv"] > 2 * smc["tv"]
    assert own["var_z"] < smc["var_z"]
    assert exact["var_z"] == 0
    assert abs(np.log1p(smc["log_z_error"])) < 0.1
    dead = bias.row_of(Key("", "", "", 1, 0), world, [bias.Run({}, -math.inf)] * 3, 0.0)
    assert dead.score is None
    assert dead.measures == {"alive": 0, "var_z": 1}


@pytest.mark.parametrize("language", RANDOM_LANGUAGES, ids=lambda language: language.name)
def test_rejection_that_learns_draws_exact_samples_with_few_calls(language: Language) -> None:
    """A chi-squared test of the first text and of the twentieth, which knows what to avoid."""
    world = random_world(language)
    rng = np.random.default_rng(5)
    runs = [cars(world, 20, rng) for _ in range(400)]
    assert all(len(run.texts) == 20 for run in runs)
    expected = by_hand(world, language)
    total = sum(expected.values())
    for place in (0, 19):
        counts = dict.fromkeys(expected, 0)
        for run in runs:
            counts[run.texts[place]] += 1
        likely = [x for x, p in expected.items() if 400 * p / total >= 5]
        cells = [(counts[x], 400 * expected[x] / total) for x in likely]
        rest = 400 - sum(wanted for _, wanted in cells)
        cells.append((400 - sum(found for found, _ in cells), rest))
        statistic = sum((found - wanted) ** 2 / wanted for found, wanted in cells if wanted > 1e-9)
        freedom = len(cells) - 1  # Wilson and Hilferty: the quantile of one in 10,000
        spread = 2 / (9 * freedom)
        assert statistic < freedom * (1 - spread + 3.72 * spread**0.5) ** 3
    attempts = np.mean([run.attempts for run in runs])
    assert 20 <= attempts < 20 / total  # plain rejection needs 20 / p(C)
    assert all(1 <= run.calls <= len(world.rows) for run in runs)
    assert len(cars(world, 20, rng, most=1).texts) <= 1
    row = bias.row_of(Key("", "", bias.CARS, 4, 0), world, bias._cars_runs(world, 4, 0), 0.0)
    assert row.score == pytest.approx(0.03, abs=0.03)
    assert "var_z" not in row.measures
    assert row.measures["calls"] > 0


def test_a_method_that_never_found_a_text_is_shown_without_a_distance() -> None:
    world = random_world(RANDOM_LANGUAGES[0])
    dead = bias.row_of(Key("a", "s", "rejection", 4, 0), world, [bias.Run({}, -math.inf)] * 2, 0.0)
    good = bias.row_of(Key("a", "s", "posterior", 4, 0), world, bias._exact_runs(world, 4, 0), 0.0)
    shown = bias.report([dead, good], {"pooled": 8})
    needed = shown.parts[1]
    assert isinstance(needed, Table)
    assert [list(column.cells) for column in needed.columns][2:] == [["–", "4"]] * 2 + [["–", ANY]]

"""Copying learnt from answers and their prompts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pcgcd import HMM
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import Copying
from pcgcd.hmm.absorbing import absorbing
from pcgcd.learning.distillation.copying import copying_log_likelihood, learn_copying

V, EOS, LENGTH = 12, 0, 6


def model(seed: int = 0) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return absorbing(HMM.random(3, V, concentration=0.5, generator=generator), [EOS])


def answers(hmm: HMM, count: int, seed: int = 1) -> tuple[torch.Tensor, list[tuple[int, ...]]]:
    """Answers to random prompts of three tokens."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    prompts = [
        tuple((torch.randperm(V - 1, generator=generator)[:3] + 1).tolist()) for _ in range(count)
    ]
    rows = [hmm.given(prompt).sample(1, length=LENGTH)[0] for prompt in prompts]
    return torch.stack(rows), prompts


def with_copying(hmm: HMM, rate: float) -> HMM:
    ends = hmm.emission[:, EOS] > 0.999
    weights = torch.ones(V)
    weights[EOS] = 0.0
    copying = Copying(torch.where(ends, 0.0, rate), weights)
    return HMM(hmm.initial, hmm.transition, hmm.emission, copying=copying)


def test_the_likelihood_is_that_of_the_hmm_given_each_prompt() -> None:
    hmm = with_copying(model(), 0.3)
    tokens, prompts = answers(hmm, 20)
    expected, count = 0.0, 0
    for row, prompt in zip(tokens, prompts, strict=True):
        expected += float(hmm.given(prompt).log_value(row.unsqueeze(0)))
        ended = (row == EOS).nonzero()
        count += int(ended[0]) + 1 if len(ended) else LENGTH
    assert hmm.copying is not None
    found = copying_log_likelihood(hmm, hmm.copying, tokens, prompts, [EOS])
    assert found == pytest.approx(expected / count, rel=1e-4)


def test_one_round_counts_copies_as_enumeration_does() -> None:
    """From the first guess, rates move to the posterior share of copies, with the prior's."""
    hmm = model(3)
    tokens, prompts = answers(with_copying(hmm, 0.4), 3, seed=5)
    tokens = tokens[:, :3]
    copies, visits = torch.zeros(hmm.num_hidden), torch.zeros(hmm.num_hidden)
    ends = hmm.emission[:, EOS] > 0.999
    for row, prompt in zip(tokens.tolist(), prompts, strict=True):
        length = row.index(EOS) + 1 if EOS in row else len(row)
        paths = {}
        states, flags = range(hmm.num_hidden), (False, True)
        for path in itertools.product(itertools.product(states, flags), repeat=length):
            chance, before = 1.0, None
            for (state, copied), token in zip(path, row):
                step = hmm.initial[state] if before is None else hmm.transition[before, state]
                rate = 0.0 if ends[state] else 0.05
                emitted = (
                    rate * (token in prompt) / len(prompt)
                    if copied
                    else (1 - rate) * float(hmm.emission[state, token])
                )
                chance, before = chance * float(step) * emitted, state
            paths[path] = chance
        total = math.fsum(paths.values())
        for path, chance in paths.items():
            for state, copied in path:
                visits[state] += chance / total
                copies[state] += chance / total * copied
    expected = torch.where(ends, 0.0, (copies + 0.25) / (visits + 5))
    found = learn_copying(hmm, tokens, prompts, [EOS], rounds=1)
    torch.testing.assert_close(found.rates, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_rates_of_a_known_model_are_recovered(rate: float) -> None:
    hmm = model()
    tokens, prompts = answers(with_copying(hmm, rate), 600)
    found = learn_copying(hmm, tokens, prompts, [EOS], rounds=20)
    ends = hmm.emission[:, EOS] > 0.999
    assert bool((found.rates[ends] == 0).all())
    assert float(found.weights[EOS]) == 0
    assert float((found.rates[~ends] - rate).abs().max()) < 0.15
    before = copying_log_likelihood(hmm, Copying(torch.zeros(len(ends)), found.weights), tokens,
                                    prompts, [EOS])  # fmt: skip
    after = copying_log_likelihood(hmm, found, tokens, prompts, [EOS])
    assert after > before + 0.1 if rate else after > before - 0.02


def test_answers_need_a_prompt_each() -> None:
    with pytest.raises(InvalidParameterError, match="2 answers and 1 prompts"):
        learn_copying(model(), torch.zeros(2, 3, dtype=torch.long), [(1,)], [EOS])


def test_answers_that_are_impossible_teach_nothing_and_have_no_likelihood() -> None:
    """State 0 says 1 or 2, then the text ends; 3 is only possible if it is copied."""
    hmm = HMM(
        torch.tensor([1.0, 0.0]),
        torch.tensor([[0.0, 1.0], [0.0, 1.0]]),
        torch.tensor([[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]]),
    )
    tokens = torch.tensor([[3, 0], [1, 0], [3, 0], [1, 1]])
    prompts = [(3,), (1, 2), (2,), (2,)]
    possible = learn_copying(hmm, tokens[:2], prompts[:2], [EOS], rounds=3)
    found = learn_copying(hmm, tokens, prompts, [EOS], rounds=3)
    assert torch.equal(found.rates, possible.rates)
    assert torch.equal(found.weights, possible.weights)
    assert copying_log_likelihood(hmm, found, tokens, prompts, [EOS]) == -math.inf
    value = copying_log_likelihood(hmm, found, tokens[:2], prompts[:2], [EOS])
    rate = float(found.rates[0])
    share = float(found.weights[1] / (found.weights[1] + found.weights[2]))
    expected = math.log(rate) + math.log((1 - rate) * 0.5 + rate * share)
    assert value == pytest.approx(expected / 4, rel=1e-5)

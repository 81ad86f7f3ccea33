"""Single steps of SMC: every choice enumerated, every state recomputed from the beginning."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

from pcgcd.automata import FiniteAutomaton
from pcgcd.decoding import (
    GCD,
    LCD,
    PGCD,
    SMC,
    Draw,
    LookAhead,
    Population,
    Potential,
    PrefixValidity,
    Proposal,
    Randomness,
    Step,
    Terminal,
    Twisted,
    Unconstrained,
    extend,
)
from pcgcd.decoding.randomness import log_total
from pcgcd.engine import ChainEngine, PrefixState, start_batch
from pcgcd.lm import LanguageModel, LMSession
from tests.decoding import worlds

BUDGET = 4


class OneChoice(Randomness):
    """Always the same column, and how many there were."""

    def __init__(self, column: int) -> None:
        self.column, self.count = column, 0

    def categorical(self, log_weights: Tensor) -> Draw:
        self.count = log_weights.shape[1]
        column = torch.full((len(log_weights),), self.column)
        log_q = log_weights[:, self.column].double() - log_total(log_weights)
        return Draw(column, log_q)


def state_at(fa: FiniteAutomaton, tokens: tuple[int, ...], budget: int = BUDGET) -> PrefixState:
    """All that is known of one prefix, from scratch."""
    state: PrefixState = ChainEngine(worlds.hmm(7), fa).start([budget])
    for token in tokens:
        state = state.advance([token])
    return state


@pytest.mark.parametrize("name", worlds.AUTOMATA)
@pytest.mark.parametrize(
    "proposal",
    [Unconstrained(), LCD(), GCD(), PGCD(0.0), PGCD(0.5), Twisted(0.0), Twisted(0.5)],
    ids=str,
)
@pytest.mark.parametrize(
    "potential", [Terminal(), PrefixValidity(), LookAhead(), LookAhead(0.5)], ids=str
)
def test_over_all_choices_the_weights_sum_to_the_next_target(
    name: str, proposal: Proposal, potential: Potential
) -> None:
    """sum_v q(v) w(v) = sum_v p_lm(v) psi(x v) / psi(x), by the tree of all choices."""
    fa, lm = worlds.AUTOMATA[name], worlds.table(4)
    text = [t for t in range(worlds.SIZE) if t not in worlds.EOS]
    for length in range(BUDGET):
        for tokens in itertools.islice(itertools.product(text, repeat=length), 0, None, 5):
            state = state_at(fa, tokens)
            if not bool(state.viable()):
                continue
            log_probs = lm.log_probs([tokens])
            before = potential.log_twist(state).double()
            population = Population.start(state, [0])
            population = replace(population, log_twist=before)
            total, column, count = 0.0, 0, 1
            while column < count:
                rng = OneChoice(column)
                after = extend(population, log_probs, proposal, potential, rng, eos_ids=worlds.EOS)
                count, column = rng.count, column + 1
                candidates = proposal.weigh(_next_step(state, log_probs))
                log_q = candidates.log_weights[0, column - 1] - log_total(candidates.log_weights)
                if float(after.log_weights) > -math.inf:
                    total += math.exp(float(log_q) + float(after.log_weights))
            expected = 0.0
            for token in range(worlds.SIZE):
                following = state.advance([token])
                if token in worlds.EOS or length + 1 == BUDGET:
                    log_psi = float(following.log_final())
                else:
                    log_psi = float(potential.log_twist(following))
                if log_psi > -math.inf and _covered(proposal, state, token):
                    expected += math.exp(float(log_probs[0, token]) + log_psi - float(before))
            assert total == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("w", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", worlds.AUTOMATA)
def test_with_its_potential_a_twisted_weight_does_not_depend_on_the_token(
    name: str, w: float
) -> None:
    """Before the last step: w(v) = p_lm(v) psi(x v) / (psi(x) q(v)) is the same for every v."""
    fa, lm, potential = worlds.AUTOMATA[name], worlds.table(4), LookAhead(w)
    text = [t for t in range(worlds.SIZE) if t not in worlds.EOS]
    for tokens in itertools.product(text, repeat=2):
        state = state_at(fa, tokens)
        if not bool(state.viable()):
            continue
        log_probs = lm.log_probs([tokens])
        weights = Twisted(w).weigh(_next_step(state, log_probs)).dense(worlds.SIZE)[0]
        before = float(potential.log_twist(state))
        for token in text:
            after = float(potential.log_twist(state.advance([token])))
            expected = float(log_probs[0, token]) + after - before
            assert math.exp(float(weights[token])) == pytest.approx(math.exp(expected), rel=1e-4)


def _next_step(state: PrefixState, log_probs: Tensor):  # type: ignore[no-untyped-def]
    from pcgcd.decoding import NextStep

    return NextStep(state, log_probs)


def _covered(proposal: Proposal, state: PrefixState, token: int) -> bool:
    """GCD leaves out only what the end of the text forbids in any case."""
    if isinstance(proposal, Unconstrained):
        return True
    within = not isinstance(proposal, LCD)
    allowed = state.allowed(within_budget=within).dense(worlds.SIZE)
    return bool(allowed[0, token] > -math.inf)


class Watched(LanguageModel):
    """A language model whose sessions can be looked at from outside."""

    def __init__(self, inner: LanguageModel) -> None:
        self.inner, self.vocabulary = inner, inner.vocabulary
        self.session: LMSession | None = None

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        return self.inner.log_probs(prefixes)

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        self.session = self.inner.start(prompts)
        return self.session


Task: TypeAlias = tuple[tuple[int, ...], FiniteAutomaton, int]


def check_from_scratch(step: Step, lm: Watched, tasks: Sequence[Task]) -> None:
    population = step.population
    if not population.active:
        return
    assert lm.session is not None
    prefixes = [(*tasks[population.task[i]][0], *population.tokens[i]) for i in population.active]
    assert torch.allclose(lm.session.log_probs(), lm.log_probs(prefixes))
    state = population.state
    dense = state.next_tokens().dense(worlds.SIZE)
    for row, particle in enumerate(population.active):
        _, fa, budget = tasks[population.task[particle]]
        alone = state_at(fa, population.tokens[particle], budget)
        assert alone.live_states == (state.live_states[row],)
        assert alone.remaining.tolist() == [state.remaining[row]]
        assert torch.allclose(alone.next_tokens().dense(worlds.SIZE)[0], dense[row], atol=1e-4)
        assert float(alone.log_prefix) == pytest.approx(float(state.log_prefix[row]), abs=1e-4)
        assert float(alone.log_lookahead()) == pytest.approx(
            float(state.log_lookahead()[row]), abs=1e-4
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("inner", [worlds.table(2), worlds.hmm_lm(2)], ids=["table", "hmm"])
def test_all_parts_of_a_particle_stay_in_step(inner: LanguageModel, seed: int) -> None:
    """Several prompts of different lengths, constraints and budgets in one batch."""
    chance = random.Random(seed)
    tasks = [
        (prompt, worlds.AUTOMATA[name], budget)
        for prompt, name, budget in [
            ((), "ambiguous", 7),
            ((1, 0, 2), "constraint", 5),
            ((4,), "deterministic", 9),
        ]
    ]
    lm = Watched(inner)
    smc = SMC(4, "multinomial", ess_threshold=1.0)
    hmm = worlds.hmm(7)
    start = start_batch([(ChainEngine.of(hmm, fa), budget) for _, fa, budget in tasks])
    prompts = [prompt for prompt, _, _ in tasks]
    for step in smc.steps(lm, prompts, start, PGCD(0.5), LookAhead(), seed=seed):
        if chance.random() < 0.7:
            check_from_scratch(step, lm, tasks)
    assert all(step.population.ended)


def test_the_weights_are_those_of_their_definition() -> None:
    """Without resampling: w = p_lm(x) 1{x in C} / q(x), q recomputed token by token."""
    lm, fa, proposal = worlds.table(6), worlds.AUTOMATA["ambiguous"], PGCD(0.3)
    start = state_at(fa, ())
    *_, last = SMC(40, None).steps(lm, [()], start, proposal, LookAhead(), seed=3)
    population = last.population
    for tokens, log_weight, log_p in zip(
        population.tokens, population.log_weights, population.log_probs, strict=True
    ):
        log_q = 0.0
        for t, token in enumerate(tokens):
            state = state_at(fa, tokens[:t])
            weights = proposal.weigh(_next_step(state, lm.log_probs([tokens[:t]])))
            log_q += float(weights.dense(worlds.SIZE)[0, token] - log_total(weights.log_weights))
        assert float(log_p) == pytest.approx(worlds.log_prob(lm, tokens))
        assert float(log_weight) == pytest.approx(float(log_p) - log_q, abs=1e-4)

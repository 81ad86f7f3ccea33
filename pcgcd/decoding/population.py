"""Weighted particles, and the two pure steps of SMC: extend them, resample them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from pcgcd.decoding.contracts import check_ancestors, check_log_twist
from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.portfolio import draw, shares_after
from pcgcd.decoding.potentials import Hedged, Potential, hedged
from pcgcd.decoding.proposals import Proposal
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.resampling import Resampler, effective_sample_size
from pcgcd.engine.state import PrefixState

T = TypeVar("T")

Stop: TypeAlias = Callable[[int, tuple[int, ...]], bool]
"""The rule by which a text of a task that satisfies the constraint ends without EOS."""

Check: TypeAlias = Callable[[int, tuple[int, ...]], bool]
"""Whether the whole text of a task's tokens passes what the automaton of the task leaves open."""


@dataclass(frozen=True, eq=False)
class Population:
    """The particles of one or several tasks at a step. Immutable.

    Particles that have ended, or died, need no language model any more: only the others are
    active.

    Attributes:
        tokens: The tokens of each particle.
        task: The task of each particle; those of a task stand together.
        log_weights: (N,) float64, since the last resampling.
        log_probs: log p_lm of the tokens, (N,) float64.
        log_twist: log psi of the prefix, (N,) float64.
        log_trusted: That of the potential that is not doubted, (N,) float64; see
            :class:`pcgcd.decoding.Hedged`.
        log_parts: log shares[j] q_j of the tokens since the last resampling, for each part j of a
            portfolio, (N, m) float64; see :mod:`pcgcd.decoding.portfolio`.
        shares: The shares of the parts at the start, (m,) float64.
        ended: Whether each text has ended.
        accepted: Whether it ended in an accepting state.
        active: The particles that go on.
        state: The prefixes, one row for each active particle.
        log_evidence: What resampling has moved from the weights to the evidence, by task.
        hedge: How much of the resampling goes by the potential that is not doubted.
    """

    tokens: tuple[tuple[int, ...], ...]
    task: tuple[int, ...]
    log_weights: Tensor
    log_probs: Tensor
    log_twist: Tensor
    log_trusted: Tensor
    log_parts: Tensor
    shares: Tensor
    ended: tuple[bool, ...]
    accepted: tuple[bool, ...]
    active: tuple[int, ...]
    state: PrefixState
    log_evidence: tuple[float, ...]
    hedge: float = 0.0

    @classmethod
    def start(
        cls,
        state: PrefixState,
        task: Sequence[int],
        shares: Tensor | None = None,
        hedge: float = 0.0,
    ) -> Population:
        """Before the first token, all weights one.

        Args:
            state: The empty prefixes.
            task: The task of each.
            shares: Those of the parts of the proposal; by default it has one part.
            hedge: How much of the resampling goes by the potential that is not doubted.
        """
        count = state.num_rows
        shares = torch.ones(1, dtype=torch.float64) if shares is None else shares
        zeros = torch.zeros(count, dtype=torch.float64)
        return cls(
            tokens=((),) * count,
            task=tuple(task),
            log_weights=zeros,
            log_probs=zeros,
            log_twist=zeros,
            log_trusted=zeros,
            log_parts=shares.log().expand(count, -1),
            shares=shares,
            ended=(False,) * count,
            accepted=(False,) * count,
            active=tuple(range(count)),
            state=state,
            log_evidence=(0.0,) * (max(task, default=-1) + 1),
            hedge=hedge,
        )

    @property
    def num_tasks(self) -> int:
        """The number of tasks."""
        return len(self.log_evidence)

    @cached_property
    def _members(self) -> list[list[int]]:
        result: list[list[int]] = [[] for _ in range(self.num_tasks)]
        for i, task in enumerate(self.task):
            result[task].append(i)
        return result

    def members(self, task: int) -> list[int]:
        """Return the particles of a task."""
        return self._members[task]

    @cached_property
    def _chances(self) -> list[Tensor]:
        return [
            hedged(self.log_weights[m], self.log_twist[m], self.log_trusted[m], self.hedge)
            for m in self._members
        ]

    def log_chances(self, task: int) -> Tensor:
        """What the particles of a task are resampled by: their weights, hedged; (k,)."""
        return self._chances[task]

    @cached_property
    def _sizes(self) -> list[float]:
        return [effective_sample_size(chances) for chances in self._chances]

    def effective_sample_size(self, task: int) -> float:
        """How many equally weighted particles these are worth when they are resampled."""
        return self._sizes[task]

    def total_log_evidence(self, task: int) -> float:
        """Return the estimate of log sum_x p_lm(x) f(x); its exponential is unbiased at the end."""
        return self.log_evidence[task] + _log_mean(self.log_weights[self.members(task)])


def _log_mean(log_weights: Tensor) -> float:
    return float(log_weights.logsumexp(0)) - math.log(len(log_weights))


def extend(
    population: Population,
    log_probs: Tensor,
    proposal: Proposal,
    potential: Potential,
    rng: Randomness,
    *,
    eos_ids: Collection[int],
    stop: Stop | None = None,
    check: Check | None = None,
) -> Population:
    """Propose one more token for each active particle and weigh it.

    Args:
        population: The particles.
        log_probs: The language model's next-token log-probabilities of the active ones, (k, V).
        proposal: What the tokens are drawn from.
        potential: What rates the prefixes that go on.
        rng: The source of randomness.
        eos_ids: The tokens that end a text.
        stop: An additional end of texts.
        check: Of a text that fails, f is zero.
    """
    active = list(population.active)
    step = NextStep(population.state, log_probs)
    tasks = [population.task[i] for i in active]
    found = draw(proposal, step, population.log_parts[active], tasks, rng)
    log_p = log_probs.gather(1, found.token.unsqueeze(1)).squeeze(1).double().cpu()
    log_q, tokens = found.log_q, found.token.tolist()

    state = population.state.advance(tokens)
    texts = [(*population.tokens[i], t) for i, t in zip(active, tokens, strict=True)]
    ended, log_final, log_twist, log_trusted = rate(
        state, texts, tasks, potential, eos_ids=eos_ids, stop=stop, check=check
    )

    before = population.log_twist[active]
    gain = log_p - log_q + log_twist - before
    # Impossible in any of these ways: no candidate, no probability, no way to go on.
    dead = (log_q == -math.inf) | (log_p == -math.inf) | (log_twist == -math.inf)
    gain = torch.where(dead, -math.inf, gain)

    going = [row for row, died in enumerate(dead.tolist()) if not ended[row] and not died]
    # Where there was no candidate, nothing was drawn: the text stays as it was.
    drawn = [row for row, value in enumerate(log_q.tolist()) if value > -math.inf]
    places = [active[row] for row in drawn]
    index = torch.tensor(active)
    return replace(
        population,
        tokens=_put(population.tokens, places, [texts[row] for row in drawn]),
        log_weights=population.log_weights.index_add(0, index, gain),
        log_probs=population.log_probs.index_add(0, torch.tensor(places).long(), log_p[drawn]),
        log_twist=population.log_twist.index_copy(0, index, log_twist),
        log_trusted=population.log_trusted.index_copy(0, index, log_trusted),
        log_parts=population.log_parts.index_add(0, index, found.log_parts),
        ended=_put(population.ended, places, [ended[row] for row in drawn]),
        accepted=_put(population.accepted, places, [log_final[row] > -math.inf for row in drawn]),
        active=tuple(active[row] for row in going),
        state=state.select(going),
    )


class Outcome(NamedTuple):
    """What has become of prefixes that grew by one token.

    Attributes:
        ended: Whether each is a whole text.
        log_final: The log of f(x) of each as a whole text.
        log_twist: The log of psi of each: that of f where it has ended, (k,) float64.
        log_trusted: Likewise of the potential that is not doubted.
    """

    ended: list[bool]
    log_final: list[float]
    log_twist: Tensor
    log_trusted: Tensor


def rate(
    state: PrefixState,
    texts: Sequence[tuple[int, ...]],
    tasks: Sequence[int],
    potential: Potential,
    *,
    eos_ids: Collection[int],
    stop: Stop | None = None,
    check: Check | None = None,
) -> Outcome:
    """Say which prefixes have ended, and rate all of them.

    Args:
        state: The prefixes.
        texts: Their tokens.
        tasks: The task of each.
        potential: What rates those that go on.
        eos_ids: The tokens that end a text.
        stop: An additional end of texts.
        check: Of a text that fails, f is zero.
    """
    log_final, remaining = state.log_final().tolist(), state.remaining.tolist()
    ended = [
        text[-1] in eos_ids
        or remaining[row] <= 0
        or (stop is not None and log_final[row] > -math.inf and stop(tasks[row], text))
        for row, text in enumerate(texts)
    ]
    log_twist = check_log_twist(potential.log_twist(state), len(texts), potential)
    log_trusted = log_twist
    if isinstance(potential, Hedged):
        safe = potential.trusted
        log_trusted = check_log_twist(safe.log_twist(state), len(texts), safe)
    for row, end in enumerate(ended):
        if end:
            if (
                check is not None
                and log_final[row] > -math.inf
                and not check(tasks[row], texts[row])
            ):
                log_final[row] = -math.inf
            log_twist[row] = log_trusted[row] = log_final[row]
    return Outcome(ended, log_final, log_twist, log_trusted)


def _put(values: tuple[T, ...], places: Sequence[int], new: Sequence[T]) -> tuple[T, ...]:
    result = list(values)
    for place, value in zip(places, new, strict=True):
        result[place] = value
    return tuple(result)


def resample(
    population: Population, method: Resampler, threshold: float, rng: Randomness
) -> tuple[Population, tuple[int, ...] | None]:
    """Resample the tasks whose effective sample size is at most a share of their particles.

    Returns:
        The particles and the ancestor of each; None if nothing was resampled.
    """
    ancestors = list(range(len(population.tokens)))
    evidence = list(population.log_evidence)
    log_weights, log_parts = population.log_weights.clone(), population.log_parts.clone()
    going = {population.task[i] for i in population.active}
    happened = False
    for task in range(population.num_tasks):
        members = population.members(task)
        size = population.effective_sample_size(task)
        if task not in going or size == 0 or size > threshold * len(members) * (1 + 1e-9):
            continue
        happened = True
        chances = population.log_chances(task)
        weights = (chances - chances.logsumexp(0)).exp()
        chosen = check_ancestors(method(weights.clone(), rng), weights, method)
        evidence[task] += _log_mean(chances)
        log_weights[members] = (population.log_weights[members] - chances)[list(chosen)]
        log_parts[members] = shares_after(log_parts[members], weights, population.shares).log()
        for place, parent in zip(members, chosen, strict=True):
            ancestors[place] = members[parent]
    if not happened:
        return population, None
    row_of = {particle: row for row, particle in enumerate(population.active)}
    active = tuple(i for i, parent in enumerate(ancestors) if parent in row_of)
    return (
        Population(
            tokens=tuple(population.tokens[i] for i in ancestors),
            task=population.task,
            log_weights=log_weights,
            log_probs=population.log_probs[ancestors],
            log_twist=population.log_twist[ancestors],
            log_trusted=population.log_trusted[ancestors],
            log_parts=log_parts,
            shares=population.shares,
            ended=tuple(population.ended[i] for i in ancestors),
            accepted=tuple(population.accepted[i] for i in ancestors),
            active=active,
            state=population.state.select([row_of[ancestors[i]] for i in active]),
            log_evidence=tuple(evidence),
            hedge=population.hedge,
        ),
        tuple(ancestors),
    )

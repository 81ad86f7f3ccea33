"""Temperature 0: the most probable texts under the constraint, by beam search.

With one particle this is greedy decoding: the argmax of what the method allows. With k particles
the k best prefixes are kept at each step, all different. A prefix counts p_lm(x_1:t) psi(x_1:t)
with the potential psi of the method: the model's probability alone for GCD, the guide's look-ahead
included for P-GCD. A text that has ended competes with its p_lm(x) f(x).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.decoding.contracts import check_candidates
from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.population import Check, Population, Stop, rate
from pcgcd.decoding.potentials import Potential
from pcgcd.decoding.proposals import Proposal


class _Entry(NamedTuple):
    """A text that competes for a place in the beam.

    Attributes:
        score: The logarithm of p_lm(x) psi(x).
        parent: The particle that it was, or comes from.
        child: Its number among the children; None for a text that had ended before.
        tokens: Its tokens.
    """

    score: float
    parent: int
    child: int | None
    tokens: tuple[int, ...]


def widen(
    population: Population,
    log_probs: Tensor,
    proposal: Proposal,
    potential: Potential,
    *,
    eos_ids: Collection[int],
    stop: Stop | None = None,
    check: Check | None = None,
) -> tuple[Population, tuple[int, ...]]:
    """Give each task the best of its texts and of their extensions by one token.

    The weights become p_lm(x) psi(x), and the evidence their sum: a lower bound of what it is for
    all texts. A place for which there is no text has the weight zero.

    Args:
        population: The particles; equal ones count once.
        log_probs: The language model's next-token log-probabilities of the active ones, (k, V).
        proposal: Its most likely tokens are tried, as many as the beam is wide.
        potential: What rates the prefixes that go on.
        eos_ids: The tokens that end a text.
        stop: An additional end of texts.
        check: Of a text that fails, f is zero.

    Returns:
        The particles, and which one each of them comes from.
    """
    active = population.active
    width = len(population.tokens) // max(population.num_tasks, 1)
    step = NextStep(population.state, log_probs)
    candidates = check_candidates(proposal.weigh(step), step, proposal)
    best = candidates.log_weights.topk(min(width, candidates.log_weights.shape[1]), dim=-1)
    tried = best.indices
    if candidates.tokens is not None:
        tried = candidates.tokens.gather(1, tried)
    gain = log_probs.gather(1, tried).double().cpu()
    possible = (best.values > -torch.inf).cpu() & (gain > -torch.inf)
    rows, columns = (axis.tolist() for axis in possible.nonzero(as_tuple=True))
    tokens = tried.cpu()[rows, columns].tolist()
    parents = [active[row] for row in rows]
    texts = [(*population.tokens[i], token) for i, token in zip(parents, tokens, strict=True)]
    total = population.log_probs[parents] + gain[rows, columns]
    state = population.state.select(rows).advance(tokens)
    tasks = [population.task[i] for i in parents]
    outcome = rate(state, texts, tasks, potential, eos_ids=eos_ids, stop=stop, check=check)

    entries = [
        _Entry(float(population.log_weights[i]), i, None, population.tokens[i])
        for i in set(range(len(population.tokens))) - set(active)
    ]
    scores = (total + outcome.log_twist).tolist()
    entries += [
        _Entry(score, parent, child, text)
        for child, (score, parent, text) in enumerate(zip(scores, parents, texts, strict=True))
    ]
    places = _chosen(population, [entry for entry in entries if entry.score > -math.inf])

    count = len(places)
    log_weights = torch.full((count,), -math.inf, dtype=torch.float64)
    kept_probs, log_twist = log_weights.clone(), log_weights.clone()
    ended, accepted, ancestors = [True] * count, [False] * count, list(range(count))
    going: list[tuple[int, int]] = []
    for place, entry in enumerate(places):
        if entry is None:
            continue
        log_weights[place], ancestors[place] = entry.score, entry.parent
        if entry.child is None:
            kept_probs[place] = population.log_probs[entry.parent]
            log_twist[place] = population.log_twist[entry.parent]
            accepted[place] = population.accepted[entry.parent]
            continue
        kept_probs[place], log_twist[place] = total[entry.child], outcome.log_twist[entry.child]
        ended[place] = outcome.ended[entry.child]
        accepted[place] = outcome.log_final[entry.child] > -math.inf
        if not ended[place]:
            going.append((place, entry.child))
    widened = replace(
        population,
        tokens=tuple(() if entry is None else entry.tokens for entry in places),
        log_weights=log_weights,
        log_probs=kept_probs,
        log_twist=log_twist,
        log_trusted=log_twist,
        ended=tuple(ended),
        accepted=tuple(accepted),
        active=tuple(place for place, _ in going),
        state=state.select([child for _, child in going]),
        # The evidence is a mean of weights; here it is their sum.
        log_evidence=(math.log(width),) * population.num_tasks,
    )
    return widened, tuple(ancestors)


def _chosen(population: Population, entries: list[_Entry]) -> list[_Entry | None]:
    """The best different texts of each task, in the places of its particles."""
    result: list[_Entry | None] = [None] * len(population.tokens)
    by_task: dict[int, dict[tuple[int, ...], _Entry]] = {}
    for entry in entries:
        by_task.setdefault(population.task[entry.parent], {}).setdefault(entry.tokens, entry)
    for task, texts in by_task.items():
        ranked = sorted(texts.values(), key=lambda entry: (-entry.score, entry.tokens))
        for place, entry in zip(population.members(task), ranked):
            result[place] = entry
    return result

"""Temperature 0: the most probable texts under the constraint, by beam search.

With one particle this is greedy decoding: the argmax of what the method allows. With k particles
the k best prefixes are kept at each step, all different. A prefix counts p_lm(x_1:t) psi(x_1:t)
with the potential psi of the method: the model's probability alone for GCD, the guide's look-ahead
included for P-GCD.

Texts that have ended count p_lm(x) f(x), and have k places of their own: a prefix that has not paid
for its end yet does not drive them out. It goes on as long as it could still come to be among them.
Among the prefixes, half of the places go to the best ones of different states of the automaton: who
dawdles inside of a string has paid for nothing yet, and would drive out all who have closed theirs.
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
from pcgcd.engine.state import PrefixState


class _Entry(NamedTuple):
    """A text, or the beginning of one, that competes for a place in the beam.

    Attributes:
        score: The logarithm of p_lm(x) psi(x), of f where it has ended.
        log_prob: The logarithm of p_lm(x).
        tokens: Its tokens.
        parent: The particle that it was, or comes from.
        child: Its row among the extensions; None for a text that had ended before.
        ended: Whether it is a whole text.
        accepted: Whether f is not zero.
        group: The states of the automaton that a prefix has come to.
    """

    score: float
    log_prob: float
    tokens: tuple[int, ...]
    parent: int
    child: int | None
    ended: bool
    accepted: bool
    group: tuple[int, ...] = ()


def widen(
    population: Population,
    width: int,
    log_probs: Tensor,
    proposal: Proposal,
    potential: Potential,
    *,
    eos_ids: Collection[int],
    stop: Stop | None = None,
    check: Check | None = None,
) -> tuple[Population, tuple[int, ...]]:
    """Give each task the best of its texts, and of the prefixes that are one token longer.

    The weights become p_lm(x) psi(x), and the evidence their sum: a lower bound of what it is for
    all texts. A task for which there is nothing has one particle of weight zero.

    Args:
        population: The particles; equal ones count once.
        width: How many texts, and how many prefixes, each task may have.
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
        _Entry(
            float(population.log_weights[i]),
            float(population.log_probs[i]),
            population.tokens[i],
            i,
            None,
            True,
            population.accepted[i],
        )
        for i in sorted(set(range(len(population.tokens))) - set(active))
    ]
    entries += [
        _Entry(*row)
        for row in zip(
            (total + outcome.log_twist).tolist(),
            total.tolist(),
            texts,
            parents,
            range(len(texts)),
            outcome.ended,
            [value > -math.inf for value in outcome.log_final],
            [track.members for track in state.tracks],
            strict=True,
        )
    ]
    by_task: list[list[_Entry]] = [[] for _ in range(population.num_tasks)]
    for entry in entries:
        if entry.score > -math.inf:
            by_task[population.task[entry.parent]].append(entry)
    chosen = [
        _best(found, width) or [_nothing(population, task)] for task, found in enumerate(by_task)
    ]
    return _beam(population, chosen, state), tuple(
        entry.parent for task in chosen for entry in task
    )


def _best(entries: list[_Entry], width: int) -> list[_Entry]:
    """The best texts of a task, and the best prefixes that may still come to be among them."""
    different = {entry.tokens: entry for entry in entries}.values()
    ranked = sorted(different, key=lambda entry: (-entry.score, entry.tokens))
    texts = [entry for entry in ranked if entry.ended][:width]
    # No text is more probable than how it begins.
    least = texts[-1].score if len(texts) == width else -math.inf
    going = [
        entry for entry in ranked if not entry.ended and max(entry.score, entry.log_prob) > least
    ]
    leaders: dict[tuple[int, ...], _Entry] = {}
    for entry in going:
        leaders.setdefault(entry.group, entry)
    first = list(leaders.values())[: width // 2]
    others = [entry for entry in going if entry not in first]
    return texts + (first + others)[:width]


def _nothing(population: Population, task: int) -> _Entry:
    """The entry of a task that has neither a text nor a prefix left."""
    return _Entry(-math.inf, -math.inf, (), population.members(task)[0], None, True, False)


def _beam(population: Population, chosen: list[list[_Entry]], state: PrefixState) -> Population:
    """The population of what was chosen for each task."""
    entries = [entry for task in chosen for entry in task]
    going = [(place, entry) for place, entry in enumerate(entries) if not entry.ended]
    log_weights = torch.tensor([entry.score for entry in entries], dtype=torch.float64)
    log_probs = torch.tensor([entry.log_prob for entry in entries], dtype=torch.float64)
    log_twist = torch.where(log_weights > -torch.inf, log_weights - log_probs, -torch.inf)
    return replace(
        population,
        tokens=tuple(entry.tokens for entry in entries),
        task=tuple(task for task, found in enumerate(chosen) for _ in found),
        log_weights=log_weights,
        log_probs=log_probs,
        log_twist=log_twist,
        log_trusted=log_twist,
        ended=tuple(entry.ended for entry in entries),
        accepted=tuple(entry.accepted for entry in entries),
        active=tuple(place for place, _ in going),
        state=state.select([entry.child for _, entry in going if entry.child is not None]),
        # The evidence is a mean of weights; here it is their sum.
        log_evidence=tuple(math.log(len(found)) for found in chosen),
    )

"""Tiny worlds of texts: all of them written down, so that what SMC estimates is known exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.constraints import regex
from pcgcd.decoding import SMC, NextStep, Potential, Proposal, Target
from pcgcd.decoding.targets import Wanted
from pcgcd.engine import PrefixState
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import LanguageModel, TableLM
from pcgcd.testing.values import path_weight

# How many standard errors a mean may be off: one run in 150,000 with another seed.
Z_SCORE = 4.5


@dataclass(frozen=True, eq=False)
class TextWorld:
    """A language model, a target and a budget, over so few tokens that all texts can be listed.

    Attributes:
        lm: The language model.
        wanted: A constraint, an automaton over tokens, or a circuit with a guide, as for
            :func:`pcgcd.generate`.
        budget: The largest number of tokens.
        misleads: Whether the guide rules out what the language model says. What it then proposes
            is unbiased all the same, but no number of runs could show it.
    """

    lm: LanguageModel
    wanted: Wanted
    budget: int
    misleads: bool = False

    @cached_property
    def target(self) -> Target:
        """What is generated."""
        return Target.of(self.wanted, self.lm.vocabulary)

    def _unfinished(self, length: int) -> Iterator[tuple[int, ...]]:
        eos_ids, size = self.lm.vocabulary.eos_ids, self.lm.vocabulary.logits_size
        return itertools.product([t for t in range(size) if t not in eos_ids], repeat=length)

    def texts(self) -> Iterator[tuple[int, ...]]:
        """Every sequence of tokens that ends: by EOS, or by the budget."""
        for length in range(self.budget):
            for words in self._unfinished(length):
                for eos in self.lm.vocabulary.eos_ids:
                    yield (*words, eos)
        yield from self._unfinished(self.budget)

    def prefixes(self, length: int) -> list[tuple[int, ...]]:
        """List the unfinished prefixes with positive probability that can be completed."""
        completed = {text[:length] for text in self._weights}
        possible = (words for words in self._unfinished(length) if words in completed)
        return [words for words in possible if self._log_prob(words) > -math.inf]

    @cached_property
    def _weights(self) -> dict[tuple[int, ...], float]:
        """The texts that satisfy the constraint, and their weights f(x)."""
        fa = self.target.automaton
        found = {text: path_weight(fa, text) for text in self.texts()}
        return {text: w if fa.is_weighted else 1.0 for text, w in found.items() if w > 0}

    @cached_property
    def evidence(self) -> float:
        """The sum of p_lm(x) f(x) over all texts."""
        weights = self._weights.items()
        return math.fsum(math.exp(self._log_prob(text)) * weight for text, weight in weights)

    def _log_prob(self, tokens: Sequence[int]) -> float:
        rows = self.lm.log_probs([tokens[:t] for t in range(len(tokens))]).double()
        return float(rows[range(len(tokens)), list(tokens)].sum())

    def state(self, prefixes: Sequence[Sequence[int]], *, guided: bool = True) -> PrefixState:
        """What is known of prefixes of one length, with or without the target's guide."""
        state = self.target.engine(guided=guided).start([self.budget] * len(prefixes))
        for column in zip(*prefixes, strict=True):
            state = state.advance(column)
        return state

    def step(self, prefixes: Sequence[Sequence[int]], *, guided: bool = True) -> NextStep:
        """What a proposal sees of prefixes of one length."""
        return NextStep(self.state(prefixes, guided=guided), self.lm.log_probs(prefixes))

    def estimates(
        self, proposal: Proposal, potential: Potential, *, runs: int, particles: int, seed: int = 0
    ) -> Tensor:
        """Return the evidence as independent runs of SMC estimate it, (runs,)."""
        smc = SMC(particles, "multinomial", ess_threshold=1.0)
        start = self.target.engine().start([self.budget]).select([0] * runs)
        *_, last = smc.steps(self.lm, [()] * runs, start, proposal, potential, seed=seed)
        return torch.tensor([last.population.total_log_evidence(i) for i in range(runs)]).exp()


@lru_cache(maxsize=1)
def text_worlds() -> tuple[TextWorld, ...]:
    """Return a constraint, an ambiguous automaton, and a weighted one, each with a guide.

    "ab" can be spelled in two ways, and there are two ends of text. The language model rules out
    some tokens, and the guide of the last world another.
    """
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", None, None], eos_ids=[3, 4])
    a, text = {0}, {0, 1, 2}

    def row(prefix: tuple[int, ...]) -> list[float]:
        weights = np.random.default_rng([7, *prefix[-2:]]).gamma(1.0, size=5) + 0.01
        weights[2] *= prefix[-1:] != (0,)
        result: list[float] = (weights / weights.sum()).tolist()
        return result

    def guide(seed: int, impossible: Sequence[int] = ()) -> HMM:
        hmm = HMM.random(3, 5, generator=torch.Generator().manual_seed(seed))
        emission = hmm.emission.clone()
        emission[:, list(impossible)] = 0
        emission /= emission.sum(1, keepdim=True)
        return absorbing(HMM(hmm.initial, hmm.transition, emission), vocabulary.eos_ids)

    ambiguous = FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=5,
        initial=0,
        accepting={1, 2},
        edges=[(0, 0, a), (0, 1, a), (1, 1, text), (0, 2, {1}), (2, 2, {1, 2})],
    )
    weighted = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=5,
        initial=0,
        accepting={0, 1},
        edges=[(0, 0, text), (0, 1, {1}), (1, 1, {0, 2})],
        weights=[0.5, 2.0, 1.5],
    )
    constraint = regex("(a|b)*bb").compile(vocabulary)
    lm = TableLM(vocabulary, row)
    return (
        TextWorld(lm, guide(0) * constraint, 4),
        TextWorld(lm, guide(1) * ambiguous, 3),
        TextWorld(lm, guide(2) * weighted, 3),
        TextWorld(lm, guide(3, [1]) * ambiguous, 3, misleads=True),
    )

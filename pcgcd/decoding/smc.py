"""Sequential Monte Carlo: propose, weigh, resample, until every text has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcgcd.decoding.beam import widen
from pcgcd.decoding.contracts import check_language_model, check_log_probs, check_session
from pcgcd.decoding.population import Check, Population, Stop, extend, resample
from pcgcd.decoding.portfolio import shares_of
from pcgcd.decoding.potentials import Potential, hedge_of
from pcgcd.decoding.proposals import Proposal
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.resampling import Resampler, resampler
from pcgcd.decoding.transforms import Sharpening
from pcgcd.engine.state import PrefixState
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.lm import LanguageModel


@dataclass(frozen=True, eq=False)
class Step:
    """A record of one step.

    Attributes:
        number: 1 for the first token.
        population: The particles after the step, resampled if they were.
        log_weights: The log-weights before resampling, by particle.
        effective_sample_sizes: Before resampling, by task.
        ancestors: Where each particle comes from; None if there was no resampling.
        drawn: The token that each particle drew, before resampling; None where it drew none.
        seconds: The time of the step without the language model.
        model_seconds: The time of the language model.
    """

    number: int
    population: Population
    log_weights: tuple[float, ...]
    effective_sample_sizes: tuple[float, ...]
    ancestors: tuple[int, ...] | None
    drawn: tuple[int | None, ...]
    seconds: float
    model_seconds: float


@dataclass(frozen=True)
class SMC:
    """A set of particles that are extended together, and resampled when their weights differ.

    Attributes:
        particles: The number of particles k of each task.
        resampling: "multinomial", "stratified", "systematic", "residual", a function, or None for
            independent samples with importance weights.
        ess_threshold: Resample when the effective sample size is at most this share of k; 1
            resamples at every step, as the paper does.
        sharpening: Temperature, top-k and top-p; at temperature 0 the particles are a beam, and
            nothing is drawn or resampled.
    """

    particles: int = 8
    resampling: str | Resampler | None = "systematic"
    ess_threshold: float = 0.5
    sharpening: Sharpening = field(default_factory=Sharpening)

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.particles < 1:
            raise InvalidParameterError(
                f"at least one particle is needed, but particles is {self.particles}"
            )
        if not 0 <= self.ess_threshold <= 1:
            raise InvalidParameterError(
                f"ess_threshold must lie in [0, 1], but is {self.ess_threshold}"
            )
        if self.resampling is not None:
            resampler(self.resampling)

    def steps(
        self,
        lm: LanguageModel,
        prompts: Sequence[Sequence[int]],
        start: PrefixState,
        proposal: Proposal,
        potential: Potential,
        *,
        stop: Stop | None = None,
        check: Check | None = None,
        seed: int | Randomness | None = None,
    ) -> Iterator[Step]:
        """Run, one record for each token.

        Args:
            lm: The language model.
            prompts: The tokens that each task begins with; all tasks share the model's batches.
            start: The empty prefix of each task, one row each.
            proposal: What tokens are drawn from.
            potential: What rates unfinished texts.
            stop: Ends a text that satisfies the constraint; part of the target, as EOS is.
            check: Asked of each text that has ended; one that fails has the weight zero.
            seed: The same seed gives the same run.
        """
        rng = seed if isinstance(seed, Randomness) else Randomness(seed)
        check_language_model(lm)
        if start.num_rows and start.vocab_size != lm.vocabulary.logits_size:
            raise VocabularyMismatchError(
                f"the language model has {lm.vocabulary.logits_size} tokens, but the target has "
                f"{start.vocab_size}"
            )
        rows = [index for index in range(len(prompts)) for _ in range(self.particles)]
        population = Population.start(
            start.select(rows), rows, shares_of(proposal), hedge_of(potential)
        )
        clock = time.perf_counter()
        session = lm.start([tuple(prompts[index]) for index in rows])
        check_session(session)
        model_seconds = time.perf_counter() - clock
        eos_ids = frozenset(lm.vocabulary.eos_ids)
        ends: Any = {"eos_ids": eos_ids, "stop": stop, "check": check}
        number = 0
        while population.active:
            number += 1
            clock = time.perf_counter()
            found = session.log_probs()
            model_seconds += time.perf_counter() - clock

            clock = time.perf_counter()
            log_probs = check_log_probs(found, len(population.active), lm, normalised=number == 1)
            log_probs = self.sharpening.given(log_probs, population.state, proposal)
            old_row = {particle: row for row, particle in enumerate(population.active)}
            before = population.tokens
            ancestors = None
            if self.sharpening.is_greedy:
                population, ancestors = widen(
                    population, self.particles, log_probs, proposal, potential, **ends
                )
            else:
                population = extend(population, log_probs, proposal, potential, rng, **ends)
            log_weights = tuple(population.log_weights.tolist())
            sizes = tuple(map(population.effective_sample_size, range(len(prompts))))
            parents = range(len(before)) if ancestors is None else ancestors
            drawn = tuple(
                new[-1] if len(new) > len(before[parent]) else None
                for parent, new in zip(parents, population.tokens, strict=True)
            )
            if self.resampling is not None and not self.sharpening.is_greedy:
                population, ancestors = resample(
                    population, resampler(self.resampling), self.ess_threshold, rng
                )
            seconds = time.perf_counter() - clock

            clock = time.perf_counter()
            if population.active:
                going = population.active
                if ancestors is not None:
                    going = tuple(ancestors[i] for i in going)
                session.reindex([old_row[i] for i in going])
                session.advance([population.tokens[i][-1] for i in population.active])
            model_seconds += time.perf_counter() - clock
            yield Step(
                number, population, log_weights, sizes, ancestors, drawn, seconds, model_seconds
            )
            model_seconds = 0.0

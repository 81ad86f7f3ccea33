"""Sequential Monte Carlo: propose, weigh, resample, until every text has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pcgcd.automata import FiniteAutomaton
from pcgcd.decoding.population import Population, Stop, extend, resample
from pcgcd.decoding.potentials import Potential
from pcgcd.decoding.prefixes import Prefixes
from pcgcd.decoding.proposals import Proposal
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.resampling import Resampler, resampler
from pcgcd.decoding.tracking import AutomatonState, check_budget
from pcgcd.decoding.transforms import Sharpening
from pcgcd.engine import ProductEngine, start_batch
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HMM, MonarchHMM
from pcgcd.lm import LanguageModel

__all__ = ["SMC", "Step", "Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """What to generate.

    Attributes:
        prompt: The tokens of the prompt.
        automaton: The constraint, over tokens.
        budget: The largest number of tokens.
    """

    prompt: tuple[int, ...]
    automaton: FiniteAutomaton
    budget: int

    def __post_init__(self) -> None:
        """Check that some text fits.

        Raises:
            EmptyLanguageError: None does; it names the smallest budget that works.
        """
        if isinstance(self.budget, bool) or not isinstance(self.budget, int) or self.budget < 1:
            raise InvalidParameterError(
                f"the budget must be a positive number of tokens, but is {self.budget!r}"
            )
        check_budget(self.automaton, self.budget)


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
        tasks: Sequence[Task],
        proposal: Proposal,
        potential: Potential,
        *,
        hmm: HMM | MonarchHMM | None = None,
        stop: Stop | None = None,
        seed: int | Randomness | None = None,
    ) -> Iterator[Step]:
        """Run, one record for each token.

        Args:
            lm: The language model.
            tasks: What to generate; all of them share the language model's batches.
            proposal: What tokens are drawn from.
            potential: What rates unfinished texts.
            hmm: The HMM of P-GCD.
            stop: Ends a text that satisfies the constraint; part of the target, as EOS is.
            seed: The same seed gives the same run.
        """
        rng = seed if isinstance(seed, Randomness) else Randomness(seed)
        rows = [index for index in range(len(tasks)) for _ in range(self.particles)]
        _check_vocabulary(lm, tasks, hmm)
        prefixes = _start(tasks, rows, hmm if _needs_product(proposal, potential) else None)
        population = Population.start(prefixes, rows)
        clock = time.perf_counter()
        session = lm.start([tasks[index].prompt for index in rows])
        model_seconds = time.perf_counter() - clock
        eos_ids = frozenset(lm.vocabulary.eos_ids)
        number = 0
        while population.active:
            number += 1
            clock = time.perf_counter()
            log_probs = session.log_probs()
            model_seconds += time.perf_counter() - clock

            clock = time.perf_counter()
            log_probs = self.sharpening(log_probs)
            old_row = {particle: row for row, particle in enumerate(population.active)}
            before = population.tokens
            population = extend(
                population, log_probs, proposal, potential, rng, eos_ids=eos_ids, stop=stop
            )
            log_weights = tuple(population.log_weights.tolist())
            sizes = tuple(map(population.effective_sample_size, range(len(tasks))))
            drawn = tuple(
                new[-1] if len(new) > len(old) else None
                for old, new in zip(before, population.tokens, strict=True)
            )
            ancestors = None
            if self.resampling is not None:
                population, ancestors = resample(
                    population, resampler(self.resampling), self.ess_threshold, rng
                )
            seconds = time.perf_counter() - clock

            clock = time.perf_counter()
            if population.active:
                parents = population.active
                if ancestors is not None:
                    parents = tuple(ancestors[i] for i in parents)
                session.reindex([old_row[i] for i in parents])
                session.advance([population.tokens[i][-1] for i in population.active])
            model_seconds += time.perf_counter() - clock
            yield Step(
                number, population, log_weights, sizes, ancestors, drawn, seconds, model_seconds
            )
            model_seconds = 0.0


def _needs_product(proposal: Proposal, potential: Potential) -> bool:
    return proposal.needs_product or potential.needs_product


def _start(tasks: Sequence[Task], rows: Sequence[int], hmm: HMM | MonarchHMM | None) -> Prefixes:
    automata = [tasks[index].automaton for index in rows]
    budgets = [tasks[index].budget for index in rows]
    product = None
    if hmm is not None:
        models = {task.prompt: hmm.given(task.prompt) for task in tasks}
        engines = [ProductEngine.of(models[task.prompt], task.automaton) for task in tasks]
        product = start_batch([(engines[index], tasks[index].budget) for index in rows])
    return Prefixes(((),) * len(rows), AutomatonState.start(automata, budgets), product)


def _check_vocabulary(
    lm: LanguageModel, tasks: Sequence[Task], hmm: HMM | MonarchHMM | None
) -> None:
    width = lm.vocabulary.logits_size
    for name, size in [
        *(("the constraint's automaton", task.automaton.vocab_size) for task in tasks),
        *([] if hmm is None else [("the HMM", hmm.vocab_size)]),
    ]:
        if size != width:
            raise VocabularyMismatchError(
                f"the language model has {width} tokens, but {name} has {size}; compile the "
                f"constraint with lm.vocabulary, and use an HMM distilled from this model"
            )

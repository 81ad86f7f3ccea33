"""``generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.potentials import Potential, PrefixValidity
from pcgcd.decoding.proposals import GCD, PGCD, Proposal, Twisted
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.requests import (
    Request,
    choose_potential,
    choose_proposal,
    stop_rule,
)
from pcgcd.decoding.results import Generation
from pcgcd.decoding.smc import SMC, Step
from pcgcd.decoding.transforms import Sharpening
from pcgcd.errors import DeadEndError, InvalidParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from pcgcd.automata import FiniteAutomaton
    from pcgcd.constraints import Constraint
    from pcgcd.decoding.resampling import Resampler
    from pcgcd.hmm import HMM, MonarchHMM
    from pcgcd.lm import LanguageModel, Prompt

__all__ = ["Generator", "Stream", "generate"]


def generate(
    lm: LanguageModel,
    constraint: Constraint | FiniteAutomaton,
    *,
    prompt: Prompt = "",
    budget: int = 128,
    particles: int = 8,
    method: str | Proposal = "pgcd",
    hmm: HMM | MonarchHMM | None = None,
    w: float | None = None,
    potential: str | Potential | None = None,
    smc: bool = True,
    resampling: str | Resampler = "systematic",
    ess_threshold: float = 0.5,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: str | Sequence[str] | Callable[[bytes], bool] | None = None,
    max_attempts: int = 1000,
    seed: int | None = None,
    on_step: Callable[[Step], None] | None = None,
    progress: bool = False,
    cache: Path | str | None = None,
) -> Generation:
    """Generate texts that satisfy a constraint, with weights that aim at p_lm(x | C).

    With the methods "gcd", "pgcd" and "twisted" every text that ends satisfies the constraint
    within the budget, whatever the language model says.

    Args:
        lm: The language model.
        constraint: A constraint, or an automaton over the model's tokens.
        prompt: A text, token ids, or the messages of a chat.
        budget: The largest number of tokens, the one that ends the text included.
        particles: The number of texts k.
        method: "pgcd", "twisted", "gcd", "lcd", "unconstrained", "rejection", or a proposal of
            your own.
        hmm: The HMM of P-GCD and of "twisted", distilled from the language model. If it has learnt
            to copy from prompts, it is conditioned on this one.
        w: How far the language model is trusted rather than the HMM, from 0 to 1, which is GCD;
            by default 0.7 for P-GCD and 0.5 for "twisted".
        potential: "pgcd" (look ahead with the HMM), "prefix" (the text still fits in the budget),
            "local" (some text of any length is left), "terminal" (nothing before the end), or a
            potential of your own. By default the one that goes with the method.
        smc: Resample. Without it the texts are independent samples of the proposal; their
            importance weights are reported all the same.
        resampling: "systematic", "stratified", "residual", "multinomial", or a function.
        ess_threshold: Resample when the effective sample size is at most this share of k.
        temperature: Changes the target: the model at this temperature, given the constraint.
        top_k: Changes the target: the model's k most likely tokens only.
        top_p: Changes the target: the model's most likely tokens of this total probability.
        stop: Texts, or a rule over bytes: a text that satisfies the constraint ends where it
            contains one of them, without an end-of-sequence token. Changes the target.
        max_attempts: The cap of rejection sampling.
        seed: The same seed gives the same result.
        on_step: Called after each token.
        progress: Show a progress bar on the error stream.
        cache: A folder in which compiled automata are kept.

    Raises:
        EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        DeadEndError: The language model gives probability zero to everything that is allowed.
    """
    generator = Generator(
        lm,
        method=method,
        hmm=hmm,
        w=w,
        potential=potential,
        smc=SMC(
            particles,
            resampling if smc else None,
            ess_threshold,
            Sharpening(temperature, top_k, top_p),
        ),
        stop=stop,
        max_attempts=max_attempts,
        cache=cache,
    )
    request = Request(constraint, prompt, budget)
    return generator.run([request], seed=seed, on_step=on_step, progress=progress)[0]


@dataclass(frozen=True, eq=False)
class Generator:
    """The settings of :func:`generate`, to be used for many requests.

    Several requests in one call share the batches of the language model.

    Attributes:
        lm: The language model.
        method: See :func:`generate`.
        hmm: See :func:`generate`.
        w: See :func:`generate`.
        potential: See :func:`generate`.
        smc: The particles and how they are resampled.
        stop: See :func:`generate`.
        max_attempts: The cap of rejection sampling, for each request.
        cache: A folder in which compiled automata are kept.
    """

    lm: LanguageModel
    method: str | Proposal = "pgcd"
    hmm: HMM | MonarchHMM | None = None
    w: float | None = None
    potential: str | Potential | None = None
    smc: SMC = field(default_factory=SMC)
    stop: str | Sequence[str] | Callable[[bytes], bool] | None = None
    max_attempts: int = 1000
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        """Check that what the method needs is there."""
        proposal = choose_proposal(self.method, self.w)
        potential = choose_potential(self.potential, self.method, self.w)
        if self.hmm is None and (proposal.needs_product or potential.needs_product):
            raise InvalidParameterError(
                "looking ahead needs an HMM distilled from the language model: give hmm=, or use "
                'method="gcd", which needs none'
            )
        if self.max_attempts < 1:
            raise InvalidParameterError(
                f"max_attempts must be at least 1, but is {self.max_attempts}"
            )

    def run(
        self,
        requests: Sequence[Request],
        *,
        seed: int | None = None,
        on_step: Callable[[Step], None] | None = None,
        progress: bool = False,
    ) -> list[Generation]:
        """Generate for each request."""
        if self.method == "rejection":
            return [self._reject(request, seed) for request in requests]
        from pcgcd.decoding.progress import shown

        steps = self._steps(requests, Randomness(seed))
        records = []
        for step in shown(steps, max((r.budget for r in requests), default=0), progress):
            records.append(step)
            if on_step is not None:
                on_step(step)
        return self._results(requests, records)

    def stream(self, request: Request, *, seed: int | None = None) -> Stream:
        """Generate one request, and give out text as soon as no resampling can take it back."""
        if self.method == "rejection":
            raise InvalidParameterError("rejection sampling knows its texts only at the end")
        return Stream(self, request, seed)

    # -- inside -------------------------------------------------------------------------------

    def _steps(self, requests: Sequence[Request], rng: Randomness) -> Iterator[Step]:
        tasks = [request.task(self.lm, self.cache) for request in requests]
        return self.smc.steps(
            self.lm,
            tasks,
            choose_proposal(self.method, self.w),
            choose_potential(self.potential, self.method, self.w),
            hmm=self.hmm,
            stop=stop_rule(self.stop, self.lm.vocabulary),
            seed=rng,
        )

    def _results(self, requests: Sequence[Request], steps: Sequence[Step]) -> list[Generation]:
        results = [self._result(i, request, steps) for i, request in enumerate(requests)]
        if isinstance(choose_proposal(self.method, self.w), GCD | PGCD | Twisted):
            for result in results:
                if result.log_evidence == -math.inf:
                    raise DeadEndError(
                        "all particles died: after "
                        f"{max(map(len, result.token_ids))} tokens the language model gave "
                        "probability zero to every token that the constraint allows; a higher "
                        "temperature, no top_k or top_p, or more particles may help"
                    )
        return results

    def _result(self, task: int, request: Request, steps: Sequence[Step]) -> Generation:
        last = steps[-1].population
        members = last.members(task)
        vocabulary = self.lm.vocabulary
        token_ids = tuple(last.tokens[i] for i in members)
        return Generation(
            texts=tuple(map(self._text, token_ids)),
            token_ids=token_ids,
            log_weights=tuple(last.log_weights[members].tolist()),
            log_probs=tuple(last.log_probs[members].tolist()),
            log_evidence=last.total_log_evidence(task),
            effective_sample_sizes=tuple(s.effective_sample_sizes[task] for s in steps),
            satisfied=tuple(request.satisfied_by(ids, vocabulary) for ids in token_ids),
            ended=tuple(last.ended[i] for i in members),
            genealogy=Genealogy.of_task(steps, task),
            method=self.method if isinstance(self.method, str) else repr(self.method),
            seconds=sum(s.seconds for s in steps),
            model_seconds=sum(s.model_seconds for s in steps),
        )

    def _text(self, token_ids: Sequence[int]) -> str:
        return self.lm.vocabulary.decode(token_ids).decode("utf-8", "replace")

    def _reject(self, request: Request, seed: int | None) -> Generation:
        """Sample until there are enough texts; hopeless ones are given up early."""
        rng = Randomness(seed)
        wanted, attempts = self.smc.particles, 0
        accepted: list[tuple[tuple[int, ...], float]] = []
        seconds = model_seconds = 0.0
        while len(accepted) < wanted and attempts < self.max_attempts:
            size = min(max(wanted, 16), self.max_attempts - attempts)
            batch = Generator(
                self.lm,
                "unconstrained",
                potential=PrefixValidity(),
                smc=SMC(size, None, sharpening=self.smc.sharpening),
                stop=self.stop,
                cache=self.cache,
            )
            result = batch._results([request], list(batch._steps([request], rng)))[0]
            attempts += size
            seconds, model_seconds = seconds + result.seconds, model_seconds + result.model_seconds
            accepted += [
                (ids, log_p)
                for ids, log_p, log_weight in zip(
                    result.token_ids, result.log_probs, result.log_weights, strict=True
                )
                if log_weight > -math.inf
            ]
        rate = len(accepted) / attempts
        kept = accepted[:wanted]
        vocabulary = self.lm.vocabulary
        return Generation(
            texts=tuple(self._text(ids) for ids, _ in kept),
            token_ids=tuple(ids for ids, _ in kept),
            log_weights=(0.0,) * len(kept),
            log_probs=tuple(log_p for _, log_p in kept),
            log_evidence=math.log(rate) if rate else -math.inf,
            effective_sample_sizes=(),
            satisfied=tuple(request.satisfied_by(ids, vocabulary) for ids, _ in kept),
            ended=(True,) * len(kept),
            genealogy=Genealogy(()),
            method="rejection",
            acceptance_rate=rate,
            seconds=seconds,
            model_seconds=model_seconds,
        )


class Stream:
    """Pieces of text of a running generation; then its result.

    With one particle every token is final at once. With several, text is final when all living
    particles share it.

    Attributes:
        result: The generation, once the stream has ended.
    """

    def __init__(self, generator: Generator, request: Request, seed: int | None) -> None:
        self.result: Generation | None = None
        self._generator, self._request = generator, request
        # Bad requests raise here, not at the first piece.
        self._steps = generator._steps([request], Randomness(seed))

    def __iter__(self) -> Iterator[str]:
        vocabulary = self._generator.lm.vocabulary
        records, given = [], 0
        for step in self._steps:
            records.append(step)
            population = step.population
            if not population.active:
                break
            alive = [
                ids
                for ids, weight in zip(population.tokens, population.log_weights, strict=True)
                if weight > -math.inf
            ]
            text = _whole_characters(vocabulary.decode(_common_prefix(alive)))
            if len(text) > given:
                yield text[given:].decode("utf-8", "replace")
                given = len(text)
        self.result = self._generator._results([self._request], records)[0]
        final = self.result.best.encode()
        if len(final) > given and self._generator.smc.particles == 1:
            yield final[given:].decode("utf-8", "replace")


def _common_prefix(sequences: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if not sequences:
        return ()
    low, high = min(sequences), max(sequences)
    length = next(
        (i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]),
        min(len(low), len(high)),
    )
    return low[:length]


def _whole_characters(text: bytes) -> bytes:
    """Without the beginning of a character whose other bytes are still to come."""
    for length in range(1, min(4, len(text) + 1)):
        lead = text[-length]
        if lead >= 0xC0:
            size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return text[:-length] if size > length else text
        if lead < 0x80:
            break
    return text

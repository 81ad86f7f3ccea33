"""Many requests with the same settings, which share the batches of the language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pcgcd.basics.numbers import check_whole_number
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint
from pcgcd.decoding.contracts import check_language_model
from pcgcd.decoding.edges import Edge
from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.portfolio import components_of
from pcgcd.decoding.potentials import Potential, Terminal
from pcgcd.decoding.proposals import GCD, PGCD, Proposal, Twisted, Unconstrained
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.rejection import reject
from pcgcd.decoding.requests import Plan, Request, choose, stop_rule
from pcgcd.decoding.results import Generation
from pcgcd.decoding.smc import SMC, Step
from pcgcd.decoding.spelling import Spelled, Spelling
from pcgcd.decoding.streams import Stream
from pcgcd.decoding.targets import Target
from pcgcd.decoding.transforms import Sharpening
from pcgcd.engine import PrefixEngine, start_batch
from pcgcd.errors import DeadEndError, InvalidParameterError, PcgcdError

if TYPE_CHECKING:
    from pathlib import Path

    from pcgcd.lm import LanguageModel


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
        cache: See :func:`generate`.
        gcd_share: See :func:`generate`.
        adapt: See :func:`generate`.
        spelling: See :func:`generate`.
    """

    lm: LanguageModel
    method: str | Proposal | None = None
    hmm: CircuitLike | None = None
    w: float | None = None
    potential: str | Potential | None = None
    smc: SMC = field(default_factory=SMC)
    stop: str | Sequence[str] | Callable[[bytes], bool] | None = None
    max_attempts: int = 1000
    cache: Path | str | None = None
    gcd_share: float | None = None
    adapt: int = 0
    spelling: bool | None = None

    def __post_init__(self) -> None:
        """Check the settings, as far as they do not depend on a request."""
        check_language_model(self.lm)
        choose(self.method, self.potential, self.w, self.gcd_share, spelled=self.spelling)
        if self.spelling and Spelling.of(self.lm) is None:
            raise InvalidParameterError(
                "this language model does not say how it spells (see LanguageModel.spell), so "
                "spelling=True cannot be fulfilled"
            )
        check_whole_number("adapt, the number of continuations,", self.adapt, 0)
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
        """Generate for each request.

        A request that cannot be fulfilled does not keep the others from being so: its result has
        no text of any weight, and says why in :attr:`Generation.error`.
        """
        rng = Randomness(seed)
        if self.method == "rejection":
            return [self._reject(request, rng) for request in requests]
        from pcgcd.decoding.progress import shown

        run = _Run.start(self, requests)
        records = []
        for step in shown(
            run.steps(rng), max(run.budgets, default=0), progress and bool(run.tasks)
        ):
            records.append(step)
            if on_step is not None:
                on_step(step)
        return run.results(records)

    def stream(self, request: Request, *, seed: int | None = None) -> Stream:
        """Generate one request, and give out text as soon as no resampling can take it back."""
        if self.method == "rejection":
            raise InvalidParameterError("rejection sampling knows its texts only at the end")
        # Bad requests raise here, not at the first piece.
        run = _Run.start(self, [request])
        failed = next(iter(run.errors.values()), None)
        if failed is not None:
            raise failed
        return Stream(
            run.steps(Randomness(seed)),
            lambda steps: run.results(steps)[0],
            lambda tokens: run.text(0, tokens),
        )

    def _read(self, request: Request) -> tuple[Request, Edge]:
        """Encode a prompt; what is taken back of it begins the constraint."""
        prompt = request.encoded_by(self.lm)
        if self.method == "unconstrained" or isinstance(self.method, Unconstrained):
            return request, Edge(prompt)  # nothing would make it write that again
        edge = request.edge(self.lm, prompt)
        if not edge.taken or not isinstance(request.target, Constraint):
            return request, edge
        return replace(request, target=edge.before(request.target)), edge

    def _reject(self, request: Request, rng: Randomness) -> Generation:
        if self.smc.sharpening.is_greedy:
            raise InvalidParameterError(
                "rejection sampling draws texts, but temperature 0 draws nothing; use "
                'method="gcd", or a positive temperature'
            )
        batch = Generator(
            self.lm,
            "unconstrained",
            potential="prefix",
            smc=SMC(self.smc.particles, None, sharpening=self.smc.sharpening),
            stop=self.stop,
            cache=self.cache,
        )

        def attempt(count: int) -> Generation:
            smc = SMC(count, None, sharpening=self.smc.sharpening)
            run = _Run.start(replace(batch, smc=smc), [request])
            result = run.results(list(run.steps(rng)))[0]
            # That no sample is accepted is no error of the request's.
            if isinstance(result.error, PcgcdError) and not result.token_ids:
                raise result.error
            return result

        try:
            target = Target.of(request.target, self.lm.vocabulary, cache=self.cache)
            if target.is_weighted:
                raise InvalidParameterError(
                    "rejection sampling needs a constraint, but the target is weighted; use "
                    'method="unconstrained" with smc=False, which weighs the samples'
                )
            result = reject(attempt, self.smc.particles, self.max_attempts)
            return replace(result, reader=request.reader)
        except PcgcdError as error:
            return Generation.failed(error, "rejection")


@dataclass(frozen=True, eq=False)
class _Task:
    """A request that can be fulfilled.

    Attributes:
        place: Its place among all requests.
        request: The request, its constraint begun with what was taken back of the prompt.
        target: What it is aimed at.
        engine: What answers for its prefixes.
        budget: The largest number of tokens, those that were taken back included.
        edge: Where the prompt ends.
    """

    place: int
    request: Request
    target: Target
    engine: PrefixEngine
    budget: int
    edge: Edge


@dataclass(frozen=True, eq=False)
class _Run:
    """Requests on their way through SMC.

    Attributes:
        generator: The settings.
        requests: All requests.
        plan: How they are generated.
        tasks: Those that can be fulfilled.
        errors: Why the others cannot, by place.
    """

    generator: Generator
    requests: tuple[Request, ...]
    plan: Plan
    tasks: tuple[_Task, ...]
    errors: dict[int, PcgcdError]

    @classmethod
    def start(cls, generator: Generator, requests: Sequence[Request]) -> _Run:
        lm, errors = generator.lm, {}
        found: dict[int, tuple[Request, Target, Edge]] = {}
        known: dict[Hashable, Target] = {}
        for place, request in enumerate(requests):
            try:
                wanted, edge = generator._read(request)
                key = wanted.target
                if key not in known:
                    known[key] = Target.of(key, lm.vocabulary, generator.hmm, cache=generator.cache)
                found[place] = wanted, known[key], edge
            except PcgcdError as error:
                errors[place] = error
        guided = bool(known) and all(target.guide is not None for target in known.values())
        plan = choose(
            generator.method,
            generator.potential,
            generator.w,
            generator.gcd_share,
            particles=generator.smc.particles,
            guided=guided or not known,
            # Greedy decoding draws nothing that could be wasted.
            spelling=None if generator.smc.sharpening.is_greedy else Spelling.of(lm),
            spelled=generator.spelling,
        )
        tasks = []
        engines: dict[tuple[Target, tuple[int, ...]], PrefixEngine] = {}
        room = getattr(lm, "max_length", None)
        for place, (request, target, edge) in found.items():
            prompt, taken = edge.prompt, edge.num_taken
            try:
                # The last token need not be read.
                left = None if room is None else room - len(prompt) - taken + 1
                budget = request.budget_for(target, left) + taken
                if (target, prompt) not in engines:
                    engines[target, prompt] = target.engine(prompt, guided=plan.needs_guide)
                engine = engines[target, prompt]
                engine.check(budget)
            except PcgcdError as error:
                errors[place] = error
                continue
            tasks.append(_Task(place, request, target, engine, budget, edge))
        return cls(generator, tuple(requests), plan, tuple(tasks), errors)

    @property
    def budgets(self) -> list[int]:
        """The budget of each task."""
        return [task.budget for task in self.tasks]

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        """The tokens that each task begins with."""
        return [task.edge.prompt for task in self.tasks]

    def steps(self, rng: Randomness) -> Iterator[Step]:
        """The steps of all tasks, which share the language model's batches."""
        if not self.tasks:
            return
        generator = self.generator
        engines, pilots = self._engines(rng)
        start = start_batch(list(zip(engines, self.budgets, strict=True)))
        for step in generator.smc.steps(
            generator.lm,
            self.prompts,
            start,
            self.plan.proposal,
            self.plan.potential,
            stop=stop_rule(generator.stop, self.text),
            check=self._passes if any(task.target.check for task in self.tasks) else None,
            seed=rng,
        ):
            # What the pilot texts took is part of the first step.
            yield replace(
                step,
                seconds=step.seconds + sum(pilot.seconds for pilot in pilots),
                model_seconds=step.model_seconds + sum(pilot.model_seconds for pilot in pilots),
            )
            pilots = []

    def _engines(self, rng: Randomness) -> tuple[list[PrefixEngine], list[Step]]:
        """What answers for each task, adapted to pilot texts if that is asked for; their steps."""
        generator = self.generator
        if not generator.adapt or not self.plan.needs_guide:
            return [task.engine for task in self.tasks], []
        sharpening = generator.smc.sharpening
        smc = SMC(
            generator.adapt, None, sharpening=Sharpening() if sharpening.is_greedy else sharpening
        )
        masks = [task.target.engine(guided=False) for task in self.tasks]
        start = start_batch(list(zip(masks, self.budgets, strict=True)))
        pilots = list(
            smc.steps(generator.lm, self.prompts, start, Unconstrained(), Terminal(), seed=rng)
        )
        drawn = pilots[-1].population
        engines = []
        for number, task in enumerate(self.tasks):
            samples = [drawn.tokens[i] for i in drawn.members(number)]
            engines.append(task.target.engine(task.edge.prompt, samples=samples))
        return engines, pilots

    def _passes(self, task: int, tokens: tuple[int, ...]) -> bool:
        """Whether the text of a task passes what its automaton leaves open."""
        check = self.tasks[task].target.check
        return check is None or check(self.generator.lm.vocabulary.decode(tokens))

    def text(self, task: int, tokens: tuple[int, ...]) -> bytes:
        """The text behind the prompt of a task."""
        return self.tasks[task].edge.behind(self.generator.lm.vocabulary.decode(tokens))

    def results(self, steps: Sequence[Step]) -> list[Generation]:
        """What came of each request."""
        done = {task.place: self._result(i, steps) for i, task in enumerate(self.tasks)}
        return [
            Generation.failed(self.errors[place], self.plan.name)
            if place in self.errors
            else done[place]
            for place in range(len(self.requests))
        ]

    def _result(self, task: int, steps: Sequence[Step]) -> Generation:
        found, last = self.tasks[task], steps[-1].population
        target, request = found.target, found.request
        members, vocabulary = last.members(task), self.generator.lm.vocabulary
        greedy = self.generator.smc.sharpening.is_greedy
        if greedy:  # a beam has places without a text where there are fewer texts
            alive = [i for i in members if last.log_weights[i] > -math.inf]
            members = sorted(alive, key=lambda i: -float(last.log_weights[i])) or members[:1]
            members = members[: self.generator.smc.particles]
        token_ids = tuple(last.tokens[i] for i in members)
        log_evidence = last.total_log_evidence(task)
        return Generation(
            texts=tuple(self.text(task, ids).decode("utf-8", "replace") for ids in token_ids),
            token_ids=token_ids,
            prompt_ids=found.edge.prompt,
            log_weights=tuple(last.log_weights[members].tolist()),
            log_probs=tuple(last.log_probs[members].tolist()),
            # Where a text has ended, psi is f.
            log_values=tuple((last.log_probs + last.log_twist)[members].tolist()),
            log_evidence=log_evidence,
            effective_sample_sizes=tuple(s.effective_sample_sizes[task] for s in steps),
            satisfied=tuple(request.satisfied_by(target, ids, vocabulary) for ids in token_ids),
            ended=tuple(last.ended[i] for i in members),
            genealogy=Genealogy(()) if greedy else Genealogy.of_task(steps, task),
            method=self.plan.name,
            seconds=sum(s.seconds for s in steps),
            model_seconds=sum(s.model_seconds for s in steps),
            error=self._dead_end(target, token_ids) if log_evidence == -math.inf else None,
            reader=self.requests[found.place].reader,
        )

    def _dead_end(
        self, target: Target, token_ids: Sequence[tuple[int, ...]]
    ) -> DeadEndError | None:
        """Why no text has any weight, where the proposal never leaves the constraint."""
        parts = (part for part, _ in components_of(self.plan.proposal))
        if not all(
            isinstance(p.proposal if isinstance(p, Spelled) else p, GCD | PGCD | Twisted)
            for p in parts
        ):
            return None
        if target.check is not None and any(map(target.allowed.accepts, token_ids)):
            return DeadEndError(
                f"all {len(token_ids)} particles died: their texts fail the check of what was "
                "relaxed in the constraint (see its 'dropped'); use more particles, or say it "
                "in a way that need not be relaxed, such as a finite set of items"
            )
        return DeadEndError(
            f"all particles died: after {max(map(len, token_ids))} tokens the language model gave "
            "probability zero to every token that the constraint allows; a higher temperature, "
            'truncate="allowed", or more particles may help'
        )

"""``generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np
from torch import Tensor

from pcgcd.basics.keeping import kept_with
from pcgcd.basics.numbers import check_whole_number
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint, constraint_of, of_response_format, of_tool_choice
from pcgcd.constraints import regex as pattern_of
from pcgcd.decoding.contracts import check_language_model
from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.portfolio import components_of
from pcgcd.decoding.potentials import Potential, Terminal
from pcgcd.decoding.proposals import GCD, PGCD, Proposal, Twisted, Unconstrained
from pcgcd.decoding.randomness import Randomness
from pcgcd.decoding.rejection import reject
from pcgcd.decoding.requests import Plan, Request, choose, stop_rule
from pcgcd.decoding.results import Generation
from pcgcd.decoding.smc import SMC, Step
from pcgcd.decoding.streams import Stream
from pcgcd.decoding.targets import Target, Wanted
from pcgcd.decoding.transforms import Sharpening
from pcgcd.engine import PrefixEngine, start_batch
from pcgcd.errors import DeadEndError, InvalidParameterError, PcgcdError
from pcgcd.lm.coercion import language_model_of

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from pcgcd.decoding.resampling import Resampler
    from pcgcd.lm import LanguageModel, Prompt


class Options(TypedDict, total=False):
    """The options of :func:`generate`, for type checkers."""

    budget: int | None
    particles: int
    method: str | Proposal | None
    hmm: CircuitLike | None
    w: float | None
    gcd_share: float | None
    adapt: int
    potential: str | Potential | None
    smc: bool
    resampling: str | Resampler
    ess_threshold: float
    temperature: float
    top_k: int | None
    top_p: float | None
    truncate: str
    stop: str | Sequence[str] | Callable[[bytes], bool] | None
    max_attempts: int
    seed: int | None
    on_step: Callable[[Step], None] | None
    progress: bool
    cache: Path | str | None
    tools: Any
    tool_choice: Any
    response_format: Any
    regex: str | None
    tokenizer: Any


@overload
def generate(
    lm: Any, target: Any = None, *, prompt: Prompt = "", **options: Unpack[Options]
) -> Generation: ...
@overload
def generate(
    lm: Any, target: Any = None, *, prompt: Sequence[Prompt], **options: Unpack[Options]
) -> list[Generation]: ...


def generate(
    lm: Any,
    target: Any = None,
    *,
    prompt: Prompt | Sequence[Prompt] = "",
    budget: int | None = None,
    particles: int = 8,
    method: str | Proposal | None = None,
    hmm: CircuitLike | None = None,
    w: float | None = None,
    gcd_share: float | None = None,
    adapt: int = 0,
    potential: str | Potential | None = None,
    smc: bool = True,
    resampling: str | Resampler = "systematic",
    ess_threshold: float = 0.5,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    truncate: str = "allowed",
    stop: str | Sequence[str] | Callable[[bytes], bool] | None = None,
    max_attempts: int = 1000,
    seed: int | None = None,
    on_step: Callable[[Step], None] | None = None,
    progress: bool = False,
    cache: Path | str | None = None,
    tools: Any = None,
    tool_choice: Any = None,
    response_format: Any = None,
    regex: str | None = None,
    tokenizer: Any = None,
) -> Generation | list[Generation]:
    """Generate texts that satisfy a constraint, with weights that aim at p_lm(x | C).

    With the methods "gcd", "pgcd" and "twisted" every text that ends satisfies the constraint
    within the budget, whatever the language model says.

    The automata among the factors of a circuit are the constraint: ``hmm * fa`` is P-GCD with that
    product, ``hmm * fa1 * fa2`` satisfies both, ``(0.3 * hmm_a + 0.7 * hmm_b) * fa`` is guided by
    a mixture. What is left guides, and changes no target. With a weighted automaton f the target
    is p_lm(x) f(x), up to its sum.

    Args:
        lm: The language model: one of :mod:`pcgcd.lm`, a causal model of transformers, or a folder
            or hub id.
        target: A constraint, an automaton over the model's tokens, or a circuit; a JSON schema as a
            dict; a type (a pydantic model, a dataclass, a ``Literal``); a list of texts to choose
            from. It may be left out where ``tools``, ``response_format`` or ``regex`` says it.
        prompt: A text, token ids, or the messages of a chat; or a list of prompts, which gives a
            list of results, in which :attr:`Generation.error` says why one has none.
        budget: The largest number of tokens, the one that ends the text included; by default
            128, or the length of a circuit of one length.
        particles: The number of texts k.
        method: "pgcd", "twisted", "gcd", "lcd", "unconstrained", "rejection", or a proposal of
            your own. By default P-GCD where there is a guide, else GCD.
        hmm: The guide of P-GCD and of "twisted": an HMM distilled from the language model, or any
            other circuit. An HMM that has learnt to copy from prompts is conditioned on this one.
        w: How far the language model is trusted rather than the guide, from 0 to 1, which is GCD;
            by default 0.7 for P-GCD and 0.5 for "twisted".
        gcd_share: The share of the texts that "pgcd" and "twisted" draw from GCD, so that a guide
            which is wrong cannot hide a text; by default 0.5. At 0 the guide is trusted alone.
        adapt: First draw so many continuations of the prompt from the language model alone, and
            adapt the HMMs of the guide to them. The texts do not depend on these, so the result
            stays unbiased; they cost as much as so many particles.
        potential: "pgcd" (look ahead with the guide), "prefix" (the text still fits in the budget),
            "local" (some text of any length is left), "terminal" (nothing before the end), or a
            potential of your own. By default the one that goes with the method.
        smc: Resample. Without it the texts are independent samples of the proposal; their
            importance weights are reported all the same.
        resampling: "systematic", "stratified", "residual", "multinomial", or a function.
        ess_threshold: Resample when the effective sample size is at most this share of k.
        temperature: Changes the target: the model at this temperature, given the constraint. 0 is
            greedy: the argmax under the constraint, and with k particles a beam search, whose
            weights are the model's probabilities of the texts found.
        top_k: Changes the target: the k most likely of the tokens that the constraint allows.
        top_p: Changes the target: the most likely of the allowed tokens that together have this
            share of the probability of all allowed ones; see :mod:`pcgcd.decoding.transforms`.
        truncate: "allowed": the mask comes first, then top-k and top-p. "model": top-k and top-p
            change the model before it meets the constraint, which may leave nothing.
        stop: Texts, or a rule over bytes: a text that satisfies the constraint ends where it
            contains one of them, without an end-of-sequence token. Changes the target.
        max_attempts: The cap of rejection sampling.
        seed: The same seed gives the same result.
        on_step: Called after each token.
        progress: Show a progress bar on the error stream.
        cache: A folder in which compiled automata are kept.
        tools: Functions that the model is shown, through its chat template or in a system message:
            Python functions, or descriptions as of OpenAI, Anthropic or MCP. Without a target, a
            call of one of them is generated.
        tool_choice: OpenAI's: "required" (without a target the default), "auto", "none", or which
            tool; see :func:`pcgcd.constraints.of_tool_choice`.
        response_format: OpenAI's, or a type.
        regex: A regular expression that the whole text matches.
        tokenizer: That of a model of transformers, if it is not where the model came from.

    Raises:
        EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        DeadEndError: The language model gives probability zero to everything that is allowed.
    """
    wanted = _wanted(target, tools, tool_choice, response_format, regex)
    generator = Generator(
        language_model_of(lm, tokenizer),
        method=method,
        hmm=hmm,
        w=w,
        gcd_share=gcd_share,
        adapt=adapt,
        potential=potential,
        smc=SMC(
            particles,
            resampling if smc else None,
            ess_threshold,
            Sharpening(temperature, top_k, top_p, truncate),
        ),
        stop=stop,
        max_attempts=max_attempts,
        cache=cache,
    )
    many = _is_many(prompt)
    prompts: Any = prompt if many else [prompt]
    requests = [Request(wanted, one, budget, tools or ()) for one in prompts]
    results = generator.run(requests, seed=seed, on_step=on_step, progress=progress)
    if many:
        return results
    if results[0].error is not None:
        raise results[0].error
    return results[0]


@overload
async def agenerate(
    lm: Any, target: Any = None, *, prompt: Prompt = "", **options: Unpack[Options]
) -> Generation: ...
@overload
async def agenerate(
    lm: Any, target: Any = None, *, prompt: Sequence[Prompt], **options: Unpack[Options]
) -> list[Generation]: ...


async def agenerate(lm: Any, target: Any = None, **options: Any) -> Generation | list[Generation]:
    """Do what :func:`generate` does in a thread, so that a server's event loop goes on.

    Calls for one language model wait for each other: to use its batches, give several prompts in
    one call.
    """

    def run() -> Any:
        model = language_model_of(lm, options.pop("tokenizer", None))
        with kept_with(model, "_pcgcd_lock", threading.Lock):
            return generate(model, target, **options)

    result: Generation | list[Generation] = await asyncio.to_thread(run)
    return result


def _wanted(
    target: Any, tools: Any, tool_choice: Any, response_format: Any, pattern: str | None
) -> Wanted:
    """What to generate, of the several ways to say it."""
    said = {"target": target, "response_format": response_format, "regex": pattern}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1 or (tool_choice is not None and (given or not tools)):
        raise InvalidParameterError(
            "what to generate must be said once, but was given as "
            f"{', '.join(given + ['tool_choice'] * (tool_choice is not None))}"
            + ("; tool_choice chooses from tools=" if not tools else "")
        )
    if pattern is not None:
        return pattern_of(pattern)
    if response_format is not None:
        return of_response_format(response_format)
    if target is None and tools:
        return of_tool_choice(tools, "required" if tool_choice is None else tool_choice)
    if target is None:
        raise InvalidParameterError(
            "what to generate is missing: give a constraint, a circuit, a schema, a type or a list "
            "of options as the second argument, or tools=, response_format= or regex="
        )
    return target if isinstance(target, Constraint | CircuitLike) else constraint_of(target)


def _is_many(prompt: Any) -> bool:
    """Whether these are several prompts: a list of texts, of chats or of token ids."""
    if not isinstance(prompt, list | tuple) or not prompt:
        return False
    kinds = str, list, tuple, Tensor, np.ndarray
    return all(isinstance(one, kinds) for one in prompt)


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
        gcd_share: See :func:`generate`.
        adapt: See :func:`generate`.
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

    def __post_init__(self) -> None:
        """Check the settings, as far as they do not depend on a request."""
        check_language_model(self.lm)
        choose(self.method, self.potential, self.w, self.gcd_share)
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
            run.steps(Randomness(seed)), lambda steps: run.results(steps)[0], self.lm.vocabulary
        )

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
            if target.automaton.is_weighted:
                raise InvalidParameterError(
                    "rejection sampling needs a constraint, but the target is weighted; use "
                    'method="unconstrained" with smc=False, which weighs the samples'
                )
            result = reject(attempt, self.smc.particles, self.max_attempts)
            return replace(result, reader=request.reader)
        except PcgcdError as error:
            return Generation.failed(error, "rejection")


@dataclass(frozen=True, eq=False)
class _Run:
    """Requests on their way through SMC.

    Attributes:
        generator: The settings.
        requests: All requests.
        plan: How they are generated.
        tasks: Those that can be: the place of each, its target, its engine.
        budgets: Their budgets.
        prompts: Their prompts.
        errors: Why the others cannot, by place.
    """

    generator: Generator
    requests: tuple[Request, ...]
    plan: Plan
    tasks: tuple[tuple[int, Target, PrefixEngine], ...]
    budgets: tuple[int, ...]
    prompts: tuple[tuple[int, ...], ...]
    errors: dict[int, PcgcdError]

    @classmethod
    def start(cls, generator: Generator, requests: Sequence[Request]) -> _Run:
        lm, errors = generator.lm, {}
        targets: dict[int, Target] = {}
        known: dict[Hashable, Target] = {}
        for place, request in enumerate(requests):
            try:
                key = request.target
                if key not in known:
                    known[key] = Target.of(key, lm.vocabulary, generator.hmm, cache=generator.cache)
                targets[place] = known[key]
            except PcgcdError as error:
                errors[place] = error
        guided = bool(targets) and all(target.guide is not None for target in targets.values())
        plan = choose(
            generator.method,
            generator.potential,
            generator.w,
            generator.gcd_share,
            guided=guided or not targets,
        )
        tasks, budgets, prompts = [], [], []
        engines: dict[tuple[Target, tuple[int, ...]], PrefixEngine] = {}
        for place, target in targets.items():
            request = requests[place]
            try:
                prompt = request.encoded_by(lm)
                budget = request.budget_for(target)
                if (target, prompt) not in engines:
                    engines[target, prompt] = target.engine(prompt, guided=plan.needs_guide)
                engine = engines[target, prompt]
                engine.check(budget)
            except PcgcdError as error:
                errors[place] = error
                continue
            tasks.append((place, target, engine))
            budgets.append(budget)
            prompts.append(prompt)
        return cls(
            generator,
            tuple(requests),
            plan,
            tuple(tasks),
            tuple(budgets),
            tuple(prompts),
            errors,
        )

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
            stop=stop_rule(generator.stop, generator.lm.vocabulary),
            check=self._passes if any(target.check for _, target, _ in self.tasks) else None,
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
            return [engine for _, _, engine in self.tasks], []
        sharpening = generator.smc.sharpening
        smc = SMC(
            generator.adapt, None, sharpening=Sharpening() if sharpening.is_greedy else sharpening
        )
        masks = [target.engine(guided=False) for _, target, _ in self.tasks]
        start = start_batch(list(zip(masks, self.budgets, strict=True)))
        pilots = list(
            smc.steps(generator.lm, self.prompts, start, Unconstrained(), Terminal(), seed=rng)
        )
        drawn = pilots[-1].population
        engines = []
        for number, ((_, target, _), prompt) in enumerate(
            zip(self.tasks, self.prompts, strict=True)
        ):
            samples = [drawn.tokens[i] for i in drawn.members(number)]
            engines.append(target.engine(prompt, samples=samples))
        return engines, pilots

    def _passes(self, task: int, tokens: tuple[int, ...]) -> bool:
        """Whether the text of a task passes what its automaton leaves open."""
        check = self.tasks[task][1].check
        return check is None or check(self.generator.lm.vocabulary.decode(tokens))

    def results(self, steps: Sequence[Step]) -> list[Generation]:
        """What came of each request."""
        done = {place: self._result(task, steps) for task, (place, _, _) in enumerate(self.tasks)}
        return [
            Generation.failed(self.errors[place], self.plan.name)
            if place in self.errors
            else done[place]
            for place in range(len(self.requests))
        ]

    def _result(self, task: int, steps: Sequence[Step]) -> Generation:
        place, target, _ = self.tasks[task]
        request, last = self.requests[place], steps[-1].population
        members, vocabulary = last.members(task), self.generator.lm.vocabulary
        greedy = self.generator.smc.sharpening.is_greedy
        if greedy:  # a beam has places without a text where there are fewer texts
            found = [i for i in members if last.log_weights[i] > -math.inf]
            members = sorted(found, key=lambda i: -float(last.log_weights[i])) or members[:1]
        token_ids = tuple(last.tokens[i] for i in members)
        log_evidence = last.total_log_evidence(task)
        return Generation(
            texts=tuple(vocabulary.decode(ids).decode("utf-8", "replace") for ids in token_ids),
            token_ids=token_ids,
            log_weights=tuple(last.log_weights[members].tolist()),
            log_probs=tuple(last.log_probs[members].tolist()),
            log_evidence=log_evidence,
            effective_sample_sizes=tuple(s.effective_sample_sizes[task] for s in steps),
            satisfied=tuple(request.satisfied_by(target, ids, vocabulary) for ids in token_ids),
            ended=tuple(last.ended[i] for i in members),
            genealogy=Genealogy(()) if greedy else Genealogy.of_task(steps, task),
            method=self.plan.name,
            seconds=sum(s.seconds for s in steps),
            model_seconds=sum(s.model_seconds for s in steps),
            error=self._dead_end(target, token_ids) if log_evidence == -math.inf else None,
            reader=request.reader,
        )

    def _dead_end(
        self, target: Target, token_ids: Sequence[tuple[int, ...]]
    ) -> DeadEndError | None:
        """Why no text has any weight, where the proposal never leaves the constraint."""
        if not all(
            isinstance(p, GCD | PGCD | Twisted) for p, _ in components_of(self.plan.proposal)
        ):
            return None
        if target.check is not None and any(map(target.automaton.accepts, token_ids)):
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

"""Jobs that generate texts for examples with every method, and rate them."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pcgcd.automata import FiniteAutomaton
from pcgcd.constraints import Constraint
from pcgcd.decoding import Generation, Request, Target
from pcgcd.experiments.harness.methods import Method, methods_of
from pcgcd.experiments.harness.options import Options, needs_guide, tokens_of
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row
from pcgcd.hmm import HiddenMarkovModel

_FREE_TEXTS = 4


@dataclass(frozen=True)
class Example:
    """Something to write, and how to rate it.

    Attributes:
        name: What it is called in the results.
        setting: The kind of task, such as "JSON".
        messages: The prompt.
        constraint: Makes the constraint when it is first needed.
        rate: Numbers of a text: "score" and others.
    """

    name: str
    setting: str
    messages: Sequence[Mapping[str, str]]
    constraint: Callable[[], Constraint]
    rate: Callable[[str], Mapping[str, float]]


class _Prepared:
    """An example for a language model: its automaton is made once, and its prompt read once."""

    def __init__(self, example: Example, options: Options) -> None:
        self.example, self._options = example, options

    @cached_property
    def constraint(self) -> Constraint:
        return self.example.constraint()

    @cached_property
    def automaton(self) -> FiniteAutomaton:
        vocabulary = self._options.language_model.vocabulary
        return Target.of(self.constraint, vocabulary).automaton

    @cached_property
    def prompt(self) -> tuple[int, ...]:
        return self._options.prompt(self.example.messages)

    @cached_property
    def shortest(self) -> int:
        """The tokens of the shortest text, the one that ends it included."""
        return int(self.automaton.distance_to_accept[self.automaton.initial_mask].min()) + 1

    def request(self, budget: str) -> Request:
        return Request(self.automaton, self.prompt, tokens_of(budget, self.shortest))


def generation_plan(
    examples: Sequence[Example],
    options: Options,
    settings: Mapping[str, Any],
    guides: Mapping[str, HiddenMarkovModel] | None = None,
) -> Plan:
    """Jobs for all examples: those of one batch after the other, each with every method.

    Args:
        examples: What is to be written.
        options: The models, and how many examples share a batch.
        settings: The methods, particles, seeds and budgets. Methods that do not resample run with
            the largest number of particles only; the model alone with four at most.
        guides: HMMs by what they add to the names of methods that use one; by default one.
    """
    guided = needs_guide(settings["methods"])
    if guides is None:
        guides = {"": options.guide[1]} if guided else {}
    variants = list(_variants(settings, guides))
    prepared = [_Prepared(example, options) for example in examples]
    batches = [prepared[i : i + options.batch] for i in range(0, len(prepared), options.batch)]
    jobs = []
    informed: dict[tuple[int, int], list[HiddenMarkovModel]] = {}
    for batch in batches:
        for budget in settings["budgets"]:
            for name, method, guide, k in variants:
                for seed in range(settings["seeds"]):
                    keys = tuple(_key(item.example, budget, name, k, seed) for item in batch)
                    work = partial(_run, keys, batch, budget, method, guide, k, options, informed)
                    jobs.append(Job(keys, work))
    facts = {**settings, **options.models(guided=guided), "examples": len(examples)}
    return Plan(facts, jobs)


def _variants(
    settings: Mapping[str, Any], guides: Mapping[str, HiddenMarkovModel]
) -> Iterator[tuple[str, Method, HiddenMarkovModel | None, int]]:
    """The name, method, guide and k of each line of the table."""
    particles: Sequence[int] = settings["particles"]
    for method in methods_of(settings["methods"]):
        own: Mapping[str, HiddenMarkovModel | None] = guides if method.needs_guide else {"": None}
        most = max(particles) if method.is_constrained else min(_FREE_TEXTS, max(particles))
        for k in particles if method.resampled else (most,):
            for label, guide in own.items():
                yield f"{method.name}{label}", method, guide, k


def budget_name(budget: str) -> str:
    """How a budget is written in a table."""
    return f"shortest + {budget[1:]}" if budget.startswith("+") else f"n = {budget}"


def _key(example: Example, budget: str, method: str, k: int, seed: int) -> Key:
    kind = f"{example.setting}, " if example.setting else ""
    return Key(example.name, f"{kind}{budget_name(budget)}", method, k, seed)


def _run(
    keys: tuple[Key, ...],
    batch: Sequence[_Prepared],
    budget: str,
    method: Method,
    guide: HiddenMarkovModel | None,
    k: int,
    options: Options,
    informed: dict[tuple[int, int], list[HiddenMarkovModel]],
) -> list[Row]:
    """Generate the texts of a batch; ``informed`` holds what its prompts make of the guides.

    All rows of the batch share that, and what was computed with it: the first of them pays for it.
    """
    requests = [item.request(budget) for item in batch]
    if guide is not None:
        for key in [key for key in informed if key[0] != id(batch)]:
            del informed[key]
        informed[id(batch), id(guide)] = [guide.given(item.prompt) for item in batch]
    clock = time.process_time()
    results = method.run(
        options.language_model, requests, k=k, seed=seed_of(keys[0]), hmm=guide, w=options.w
    )
    seconds = (time.process_time() - clock) / len(batch)
    return [
        row_of(key, result, method, item.example.rate, seconds, item.constraint.matches)
        for key, result, item in zip(keys, results, batch, strict=True)
    ]


def seed_of(key: Key) -> int:
    """Return a seed of its own for each batch, so that examples do not share their luck."""
    return zlib.crc32(repr(tuple(key)).encode())


def row_of(
    key: Key,
    result: Generation,
    method: Method,
    rate: Callable[[str], Mapping[str, float]],
    seconds: float,
    matches: Callable[[str], bool],
) -> Row:
    """Return the row of a result: every number is an expectation under the weights."""
    kinds: dict[str, Mapping[str, float]] = {text: rate(text) for text in set(result.texts)}
    names = next(iter(kinds.values()), rate(""))
    measures = {
        name: method.expectation(result, [kinds[text][name] for text in result.texts])
        for name in names
    }
    ended = [float(end and matches(t)) for t, end in zip(result.texts, result.ended, strict=True)]
    measures["satisfied"] = method.expectation(result, ended)
    alive = math.isfinite(result.log_evidence)
    missing = method.is_rejection and not alive
    estimates = method.is_constrained
    if estimates:
        measures["alive"] = float(alive)
    if result.acceptance_rate is not None:
        measures["acceptance_rate"] = result.acceptance_rate
    score = measures.pop("score", None)
    shares = method.shares(result)
    best = max(range(len(result)), key=lambda i: shares[i], default=None)
    text = result.best if any(result.weights) else None if best is None else result.texts[best]
    return Row(
        key,
        text=text,
        score=None if missing else score,
        log_evidence=result.log_evidence if estimates and alive else None,
        ess=result.effective_sample_size if estimates else None,
        seconds=round(seconds, 4),
        measures={name: round(value, 6) for name, value in measures.items()},
    )

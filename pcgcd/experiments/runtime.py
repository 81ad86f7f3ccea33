"""What a token costs (Table 2): unconstrained, LCD, GCD, and P-GCD with HMMs of several sizes.

CPU time of the steps in which the whole batch goes on. What a method costs beside the language
model is added to the model's own time, averaged over all methods, so that the model's noise is the
same in every line. The prompt and what is made ready before the first token are counted apart;
loops are compiled before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from statistics import fmean, stdev
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from pcgcd.decoding import SMC, Target
from pcgcd.decoding.requests import choose
from pcgcd.decoding.warming import compile_all_loops
from pcgcd.engine import start_batch
from pcgcd.experiments.function_calling import examples_of
from pcgcd.experiments.harness.generating import Example, seed_of
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.reports import Report, table_of
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row
from pcgcd.hmm import HMM, HiddenMarkovModel, MonarchHMM
from pcgcd.lm import LanguageModel, LMSession

NAME = "runtime"
SUMMARY = "milliseconds a token and slowdown beside unconstrained generation"
SIZES = (1_024, 4_096, 16_384)
PAPER = {
    "unconstrained": 1.0,
    "LCD": 1.08,
    "GCD": 1.10,
    "P-GCD, H = 1,024": 3.11,
    "P-GCD, H = 4,096": 4.87,
    "P-GCD, H = 16,384": 10.2,
}
GOALS = {
    "GCD": 1.05,
    "P-GCD, H = 1,024": 1.4,
    "P-GCD, H = 4,096": 2.0,
    "P-GCD, H = 16,384": 3.0,
}

_BATCH = 16
_BUDGET = 40
_SETTING = "function calls"
_DENSE = 4_096  # larger HMMs are Monarch ones


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`.

    ``limit`` is the size of the batch. HMMs are random, since time does not depend on what they
    say, unless some are given.
    """
    settings = options.settings(seeds=3, limit=_BATCH, budgets=(str(_BUDGET),))
    examples = examples_of(options, settings["limit"], ("json",))
    guides: dict[str, Callable[[], HiddenMarkovModel]] = {
        f"P-GCD, H = {size:,}": cache(partial(_random, size, options)) for size in SIZES
    }
    if options.hmm or options.hmms:
        guides = {
            f"P-GCD, H = {hmm.num_hidden:,}": partial(_same, hmm) for hmm in options.guides.values()
        }
    lines: dict[str, tuple[str, Callable[[], HiddenMarkovModel] | None]] = {
        "unconstrained": ("unconstrained", None),
        "LCD": ("lcd", None),
        "GCD": ("gcd", None),
        **{name: ("pgcd", guide) for name, guide in guides.items()},
    }
    jobs = []
    for seed in range(settings["seeds"]):  # what is compared runs at the same time
        for name, (method, guide) in lines.items():
            key = Key(f"batch of {len(examples)}", _SETTING, name, 1, seed)
            work = partial(_row, key, method, guide, examples, int(settings["budgets"][0]), options)
            jobs.append(Job((key,), work))
    return Plan({**settings, **options.models(guided=False), "batch": len(examples)}, jobs)


def _same(hmm: HiddenMarkovModel) -> HiddenMarkovModel:
    return hmm


def _random(size: int, options: Options) -> HiddenMarkovModel:
    width = options.language_model.vocabulary.logits_size
    generator = torch.Generator().manual_seed(size)
    if size <= _DENSE:
        return HMM.random(size, width, generator=generator)
    return MonarchHMM.random(size, width, generator=generator)


class _Timed(LanguageModel):
    """A language model whose CPU seconds are counted."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.vocabulary, self.seconds = lm, lm.vocabulary, 0.0

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        return self.lm.log_probs(prefixes)

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        return _TimedSession(self, self.lm.start(prompts))


class _TimedSession(LMSession):
    def __init__(self, owner: _Timed, session: LMSession) -> None:
        self._owner, self._session = owner, session

    @property
    def num_rows(self) -> int:
        return self._session.num_rows

    def log_probs(self) -> Tensor:
        found: Tensor = self._count(self._session.log_probs)
        return found

    def advance(self, tokens: Sequence[int] | Tensor) -> None:
        self._count(partial(self._session.advance, tokens))

    def reindex(self, rows: Sequence[int] | Tensor) -> None:
        self._count(partial(self._session.reindex, rows))

    def _count(self, action: Callable[[], Any]) -> Any:
        started = time.process_time()
        try:
            return action()
        finally:
            self._owner.seconds += time.process_time() - started


def _row(
    key: Key,
    method: str,
    guide: Callable[[], HiddenMarkovModel] | None,
    examples: Sequence[Example],
    budget: int,
    options: Options,
) -> list[Row]:
    compile_all_loops()
    lm = _Timed(options.language_model)
    hmm = None if guide is None else guide()
    choice = choose(method, guided=hmm is not None, gcd_share=0.0)
    prompts = [options.prompt(example.messages) for example in examples]
    targets = [Target.of(example.constraint(), lm.vocabulary, hmm) for example in examples]
    started = time.process_time()
    engines = [
        target.engine(prompt, guided=choice.needs_guide)
        for target, prompt in zip(targets, prompts, strict=True)
    ]
    start = start_batch([(engine, budget) for engine in engines])
    steps = SMC(1, None).steps(
        lm, prompts, start, choice.proposal, choice.potential, seed=seed_of(key)
    )
    active, total, model = len(examples), [], []
    clock, prepared = time.process_time(), 0.0
    for step in steps:
        now = time.process_time()
        if step.number == 1:
            prepared = now - started - lm.seconds
        elif active == len(examples):
            total.append(now - clock)
            model.append(lm.seconds)
        active = len(step.population.active)
        lm.seconds = 0.0
        clock = time.process_time()
    measures = {"prepare_s": prepared, "steps": float(len(total))}
    if total:
        own = [whole - part for whole, part in zip(total, model, strict=True)]
        measures |= {"own_ms": 1e3 * fmean(own), "model_ms": 1e3 * fmean(model)}
    return [
        Row(
            key,
            seconds=round(sum(total), 4),
            measures={name: round(value, 4) for name, value in measures.items()},
        )
    ]


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    found = slowdowns(rows)
    size = max(1, int(facts["batch"]))
    table = table_of(
        f"CPU time of a token, batch of {size}, mean ± standard deviation over seeds",
        *("method", "seeds", "own, ms a step", "model, ms a step", "ms a token", "slowdown"),
        *("goal", "paper (H100)", "prepared, s"),
    )
    for name in dict.fromkeys(row.key.method for row in _in_order(rows)):
        own = [row for row in rows if row.key.method == name and "own_ms" in row.measures]
        if not own:
            continue
        totals = [row.measures["own_ms"] + row.measures["model_ms"] for row in own]
        table.add_row(
            name,
            str(len(own)),
            f"{fmean(row.measures['own_ms'] for row in own):.2f}",
            f"{fmean(row.measures['model_ms'] for row in own):.0f}",
            _spread([total / size for total in totals], 2),
            _spread(found[name], 3) + "×",
            f"{GOALS[name]:g}" if name in GOALS else "–",
            f"{PAPER[name]:g}" if name in PAPER else "–",
            f"{fmean(row.measures['prepare_s'] for row in own):.1f}",
        )
    notes: list[Table | str] = [
        table,
        "Own: everything but the language model. Slowdown: own time plus the model's time, the "
        "latter averaged over all lines of the seed, over the same of unconstrained generation. "
        "Prepared: compiled engines, backward messages and the first step without the model, once "
        "for the batch.",
    ]
    return Report(notes)


def slowdowns(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the slowdown of each method, one number for each seed."""
    result: dict[str, list[float]] = {}
    for seed in sorted({row.key.seed for row in rows}):
        own = {
            row.key.method: row.measures
            for row in _in_order(rows)
            if row.key.seed == seed and "own_ms" in row.measures
        }
        if "unconstrained" not in own:
            continue
        model = fmean(measures["model_ms"] for measures in own.values())
        plain = own["unconstrained"]["own_ms"] + model
        for name, measures in own.items():
            result.setdefault(name, []).append((measures["own_ms"] + model) / plain)
    return result


def _in_order(rows: Sequence[Row]) -> list[Row]:
    places = {name: place for place, name in enumerate(PAPER)}
    return sorted(rows, key=lambda row: places.get(row.key.method, len(places)))


def _spread(values: Sequence[float], digits: int) -> str:
    shown = f"{fmean(values):.{digits}f}"
    return f"{shown} ± {stdev(values):.{digits}f}" if len(values) > 1 else shown

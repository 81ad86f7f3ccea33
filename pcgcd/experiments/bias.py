"""How far from p_lm(x | C) the texts are, measured where it is known (beyond the paper).

Three kinds of language model: a random HMM, a distilled HMM, and the real language model on
languages that can be enumerated. The weighted particles of many runs are pooled, and compared with
the posterior; "posterior" is the error of equally many exact samples, which no method can beat.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from statistics import fmean, pvariance
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from pcgcd.decoding import Generation, Request
from pcgcd.errors import MissingDependencyError
from pcgcd.experiments.bias_worlds import (
    RANDOM_LANGUAGES,
    REAL_LANGUAGES,
    Language,
    World,
    enumerated,
    hmm_world,
    random_world,
)
from pcgcd.experiments.cars import cars
from pcgcd.experiments.harness.generating import seed_of
from pcgcd.experiments.harness.methods import METHODS as KNOWN
from pcgcd.experiments.harness.methods import Method
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.reports import (
    Report,
    figure_against_k,
    in_order,
    table_of,
    written,
)
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row
from pcgcd.experiments.harness.statistics import estimate, grouped, measure

NAME = "bias"
SUMMARY = "distance of weighted particles to the known posterior"
METHODS = (
    *("LCD", "LCD+SMC", "GCD", "GCD+SMC"),
    *("P-GCD+SMC", "P-GCD+SMC+potential", "twisted+SMC", "twisted+GCD+SMC", "rejection"),
)
EXACT, CARS = "posterior", "CARS"
POOLED = 4_096
ERRORS = (0.2, 0.1, 0.05)

_COARSE = 32
_FEWEST_RUNS = 64
_PEERS_FROM = 4  # fewer particles are more runs, and a run of theirs takes long to begin


class Run(NamedTuple):
    """What one run found.

    Attributes:
        posterior: The weight of each sequence of tokens, summing to one; empty if all died.
        log_evidence: The estimate of log p_lm(C); NaN if there is none.
        calls: The predictions of the language model for each text, where they are counted.
    """

    posterior: Mapping[tuple[int, ...], float]
    log_evidence: float
    calls: float | None = None


def runs_of(k: int) -> int:
    """How many runs are pooled: so many that the error of exact samples is the same for every k."""
    return max(_FEWEST_RUNS, POOLED // k)


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    settings = options.settings(particles=(1, 2, 4, 16, 64), seeds=1, methods=METHODS)
    makers = {**random_makers(), **model_makers(options)}
    kept = list(makers.items())[: options.limit]
    jobs = [job for key, make in kept for job in _jobs(key, make, settings, options)]
    return Plan({**settings, **options.models(), "pooled": POOLED, "worlds": len(kept)}, jobs)


Maker = Callable[[], World]


def random_makers() -> dict[tuple[str, str], Maker]:
    """Worlds in which the language model is a random HMM."""
    return {
        ("random HMM", language.name): cache(partial(random_world, language))
        for language in RANDOM_LANGUAGES
    }


def model_makers(
    options: Options, languages: Iterable[Language] = REAL_LANGUAGES
) -> dict[tuple[str, str], Maker]:
    """Worlds of the language model, and of the distilled HMM as the language model."""

    def distilled(language: Language) -> World:
        prompt = options.prompt([{"role": "user", "content": language.question}])
        hmm = options.guide[1].given(prompt)
        vocabulary = options.language_model.vocabulary
        return hmm_world("distilled HMM", hmm, vocabulary, language, (), _COARSE)

    def real(language: Language) -> World:
        prompt = options.prompt([{"role": "user", "content": language.question}])
        guide = {"distilled": options.guide[1].given(prompt)}
        return enumerated("language model", options.language_model, language, prompt, guide)

    result: dict[tuple[str, str], Maker] = {}
    for name, make in (("language model", real), ("distilled HMM", distilled)):
        for language in languages:
            result[name, language.name] = cache(partial(make, language))
    return result


def _jobs(
    world: tuple[str, str], make: Maker, settings: Mapping[str, Any], options: Options
) -> list[Job]:
    setting, example = world
    lines: list[tuple[str, Callable[[World, int, int], list[Run]], Sequence[int]]] = []
    particles = settings["particles"]
    guides = ("distilled",) if setting == "language model" else ("own", "coarse")
    lines.append((EXACT, _exact_runs, particles))
    lines.append((CARS, _cars_runs, particles))
    for name in settings["methods"]:
        method = KNOWN[name]
        for guide in guides if method.needs_guide else ("",):
            shown = f"{name}, own HMM" if guide == "own" else name
            counts = particles if method.resampled else (max(particles),)
            lines.append((shown, partial(_method_runs, method, guide, options.w), counts))
    if options.peers is not None and setting == "language model":
        from pcgcd.experiments.peers import genlm_runs

        python = options.peers
        lines += [
            (
                f"genlm-control, {sampler}",
                partial(_peer_runs, genlm_runs, python, sampler),
                [k for k in particles if k >= _PEERS_FROM],
            )
            for sampler in ("AWRS", "product")
        ]
    jobs = []
    for name, runs, counts in lines:
        for k in counts:
            for seed in range(settings["seeds"]):
                key = Key(example, setting, name, k, seed)
                jobs.append(Job((key,), partial(_row, key, make, runs)))
    return jobs


def _row(key: Key, make: Maker, runs: Callable[[World, int, int], list[Run]]) -> list[Row]:
    world = make()
    clock = time.process_time()
    try:
        found = runs(world, key.k, seed_of(key))
    except MissingDependencyError as error:
        return [Row(key, text=str(error), measures={"missing": 1.0})]
    seconds = time.process_time() - clock
    return [row_of(key, world, found, seconds)]


def row_of(key: Key, world: World, runs: Sequence[Run], seconds: float) -> Row:
    """Rate pooled runs: their distance to the posterior, and the error of the evidence."""
    pooled: dict[tuple[int, ...], float] = {}
    alive = [run for run in runs if run.posterior]
    for run in alive:
        for sequence, weight in run.posterior.items():
            pooled[sequence] = pooled.get(sequence, 0.0) + weight / len(alive)
    estimates = [run.log_evidence for run in runs if not math.isnan(run.log_evidence)]
    errors = [estimate - world.log_evidence for estimate in estimates]
    finite = [error for error in errors if math.isfinite(error)]
    ratios = [math.exp(error) if math.isfinite(error) else 0.0 for error in errors]
    measures = {"alive": len(alive) / len(runs)}
    if alive:
        measures["tv"] = total_variation(pooled, world.posterior)
        measures["kl"] = divergence(pooled, world.posterior)
    if len(finite) > 1:
        measures["var_log_z"] = pvariance(finite)
        measures["log_z_error"] = fmean(finite)
    if ratios:
        measures["var_z"] = fmean((ratio - 1) ** 2 for ratio in ratios)
    calls = [run.calls for run in runs if run.calls is not None]
    if calls:
        measures["calls"] = fmean(calls)
    best = max(pooled, key=lambda sequence: pooled[sequence], default=())
    return Row(
        key,
        text=world.lm.vocabulary.decode(best).decode("utf-8", "replace") if pooled else None,
        score=measures.get("tv"),
        log_evidence=world.log_evidence + fmean(finite) if finite else None,
        ess=None,
        seconds=round(seconds, 3),
        measures={name: float(f"{value:.6g}") for name, value in measures.items()},
    )


def total_variation(
    found: Mapping[tuple[int, ...], float], wanted: Mapping[tuple[int, ...], float]
) -> float:
    """Half the sum of absolute differences.

    >>> total_variation({(0,): 1.0}, {(0,): 0.75, (1,): 0.25})
    0.25
    """
    return 0.5 * math.fsum(abs(found.get(x, 0.0) - wanted.get(x, 0.0)) for x in {**found, **wanted})


def divergence(
    found: Mapping[tuple[int, ...], float], wanted: Mapping[tuple[int, ...], float]
) -> float:
    """KL(wanted || found), in which what was found is mixed with a hundredth of what is wanted.

    Without that, one sequence that no run found would make it infinite.

    >>> divergence({(0,): 0.5, (1,): 0.5}, {(0,): 0.5, (1,): 0.5})
    0.0
    """
    mixed = {x: 0.99 * found.get(x, 0.0) + 0.01 * p for x, p in wanted.items()}
    return math.fsum(p * math.log(p / mixed[x]) for x, p in wanted.items() if p > 0)


def _exact_runs(world: World, k: int, seed: int) -> list[Run]:
    """Samples of the posterior itself."""
    rng = np.random.default_rng(seed)
    sequences = list(world.posterior)
    drawn = rng.choice(len(sequences), size=(runs_of(k), k), p=list(world.posterior.values()))
    return [_counted([sequences[i] for i in row], world.log_evidence) for row in drawn]


def _cars_runs(world: World, k: int, seed: int) -> list[Run]:
    """Each run learns anew what to avoid."""
    rng = np.random.default_rng(seed)
    found = [cars(world, k, rng) for _ in range(runs_of(k))]
    return [
        _counted(drawn.texts, math.nan)._replace(calls=drawn.calls / max(1, len(drawn.texts)))
        for drawn in found
    ]


def _counted(sequences: Sequence[tuple[int, ...]], log_evidence: float) -> Run:
    counts: dict[tuple[int, ...], float] = {}
    for sequence in sequences:
        counts[sequence] = counts.get(sequence, 0.0) + 1 / len(sequences)
    return Run(counts, log_evidence)


def _method_runs(
    method: Method, guide: str, w: float | None, world: World, k: int, seed: int
) -> list[Run]:
    requests = [Request(world.automaton, (), world.budget)] * runs_of(k)
    hmm = None
    if guide:
        names = [name for name in world.guides if (name == "own") == (guide == "own")]
        hmm = world.guides[names[0]]
    results = method.run(world.lm, requests, k=k, seed=seed, hmm=hmm, w=w)
    return [_run_of(method, result) for result in results]


def _run_of(method: Method, result: Generation) -> Run:
    posterior: dict[tuple[int, ...], float] = {}
    for sequence, share in zip(result.token_ids, method.shares(result), strict=True):
        if share:
            posterior[sequence] = posterior.get(sequence, 0.0) + share
    return Run(posterior, result.log_evidence)


def _peer_runs(
    ask: Callable[..., list[Run]], python: str, sampler: str, world: World, k: int, seed: int
) -> list[Run]:
    return ask(python, sampler, world, k, seed, runs_of(k))


# -- what is shown ------------------------------------------------------------------------------


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    known = [row for row in rows if "missing" not in row.measures]
    missing = sorted({f"{row.key.method}: {row.text}" for row in rows if row not in known})
    parts: list[Table | str] = [_distances(known, int(facts["pooled"])), _needed(known)]
    parts += [f"Not measured: {line}." for line in missing]
    return Report(
        parts,
        {
            "total_variation": figure_against_k(
                known, measure("tv"), "total variation", log_y=True
            ),
            "variance": figure_against_k(
                [row for row in known if row.key.method not in (EXACT, CARS)],
                measure("var_z"),
                "variance of Z / Z²",
                log_y=True,
            ),
        },
    )


def _distances(rows: Sequence[Row], pooled: int) -> Table:
    table = table_of(
        f"Distance to the posterior, runs of {pooled:,} particles in all pooled",
        *("model", "method", "k", "languages", "total variation", "KL", "alive, %"),
        *("variance of log Z", "variance of Z / Z²", "model calls a text", "CPU s"),
        left=2,
    )
    groups = grouped(rows)
    for setting in dict.fromkeys(group[0] for group in groups):
        names = in_order([EXACT, *(group[1] for group in groups if group[0] == setting)])
        own = [group for group in groups if group[0] == setting]
        for group in sorted(own, key=lambda group: (names.index(group[1]), group[2])):
            found = groups[group]
            table.add_row(
                setting,
                group[1],
                str(group[2]),
                str(len({row.key.example for row in found})),
                written(estimate(found, measure("tv")), digits=3),
                _short(found, "kl"),
                _short(found, "alive", 100),
                _short(found, "var_log_z"),
                _short(found, "var_z"),
                _short(found, "calls"),
                _short(found, "seconds"),
            )
    return table


def _short(rows: Sequence[Row], name: str, scale: float = 1.0) -> str:
    found = estimate(rows, measure(name))
    return "–" if found is None else f"{scale * found.mean:.3g}"


def _needed(rows: Sequence[Row]) -> Table:
    """Return the fewest particles whose mean total variation is small enough."""
    table = table_of(
        "The fewest particles, of those tried, that reach a total variation",
        *("model", "method", *(f"at most {error:g}" for error in ERRORS)),
        left=2,
    )
    groups = grouped(rows)
    for setting, name in dict.fromkeys(group[:2] for group in groups):
        curve = {
            group[2]: found.mean
            for group in groups
            if group[:2] == (setting, name)
            and (found := estimate(groups[group], measure("tv"))) is not None
        }
        cells = []
        for error in ERRORS:
            reached = [k for k, value in curve.items() if value <= error]
            beyond = f"> {max(curve)}" if curve else "–"
            cells.append(str(min(reached)) if reached else beyond)
        table.add_row(setting, name, *cells)
    return table

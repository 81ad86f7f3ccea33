"""Whether an HMM helps: GCD and the guided methods with equally many particles.

``pcgcd experiment guidance`` prints it; :func:`run` returns the same numbers. Every method aims at
p_lm(x | C), and reports an estimate of the evidence p_lm(C). All of these estimates are unbiased,
so their logarithms are too low on average (Jensen), by more the less a method's particles are
worth: of two methods the one with the higher mean log-evidence wastes fewer particles. How much the
estimates of one prompt vary from seed to seed says the same.

Choices are made on the development part of the held-out prompts, and reported on the test part.
What has been measured is kept in ``measurements.jsonl``: a run that was interrupted goes on.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from pcgcd.basics.files import write_text
from pcgcd.decoding import SMC, Generator, Request, Target
from pcgcd.errors import EmptyLanguageError, InvalidParameterError
from pcgcd.experiments.tasks import data_folder, tool_prompts, word_prompts, words_source
from pcgcd.learning.distillation.prompts import Source, constraint_of
from pcgcd.viz import save
from pcgcd.viz.style import INK, clear_frame, colours_of

if TYPE_CHECKING:
    from pcgcd.hmm import HiddenMarkovModel
    from pcgcd.lm import LanguageModel

METHODS: Mapping[str, Mapping[str, Any]] = {
    "GCD": {"method": "gcd"},
    "GCD, twice the particles": {"method": "gcd", "times": 2},  # about as slow as a guide
    "P-GCD alone": {"method": "pgcd", "w": 0.7, "gcd_share": 0.0},
    "twisted and GCD": {"method": "twisted", "w": 0.3, "gcd_share": 0.25, "spelling": False},
    "GCD, spelled": {"method": "gcd", "spelling": True},  # the default without an HMM
    "twisted, spelled": {"method": "twisted"},  # the default with one
}
BUDGETS = {"function calls": 48, "words": 24, "examples": 24}
EXAMPLES = (("dog", "catch", "frisbee"), ("car", "snow", "drive"))  # the first is the README's
_AT_ONCE = 8
_TEST_PROMPTS = 40  # of each task; those behind them are for development


@dataclass(frozen=True)
class Measurement:
    """One method on one prompt.

    Attributes:
        task: "function calls", "words", or "examples": words of the documentation.
        prompt: The number of the prompt.
        method: A name of :data:`METHODS`.
        particles: The number of particles k; of a method with ``times``, before it is multiplied.
        log_evidence: The estimate of log p_lm(C).
        effective_sample_size: Of the final weights.
        satisfied: How many of the texts satisfy the constraint.
        best: The text of the largest weight.
        seed: What the run was started with.
        cpu_seconds: The time that it took, its share of the batch.
        texts: How many texts there are, if not as many as particles.
    """

    task: str
    prompt: int
    method: str
    particles: int
    log_evidence: float
    effective_sample_size: float
    satisfied: int
    best: str
    seed: int = 0
    cpu_seconds: float = 0.0
    texts: int | None = None


def measure(
    lm: LanguageModel,
    hmm: HiddenMarkovModel,
    sources: Sequence[Source],
    *,
    task: str,
    budget: int,
    particles: int = 8,
    methods: Mapping[str, Mapping[str, Any]] = METHODS,
    seed: int = 0,
    told: Callable[[str], None] = lambda line: None,
) -> list[Measurement]:
    """Every method on every prompt; prompts whose constraint needs a larger budget are left out."""
    requests = []
    for number, source in enumerate(sources):
        if source.constraint is None:
            raise InvalidParameterError(f"prompt {number} has no constraint to satisfy")
        automaton = constraint_of(source.constraint).compile(lm.vocabulary)
        try:
            Target(automaton).engine().check(budget)
        except EmptyLanguageError:
            continue
        requests.append((number, Request(automaton, lm.encode(source.prompt), budget)))
    found = []
    for name, options in methods.items():
        own = dict(options)
        texts = particles * own.pop("times", 1)
        generator = Generator(lm, hmm=hmm, smc=SMC(texts), **own)
        clock = time.process_time()
        for start in range(0, len(requests), _AT_ONCE):
            part = requests[start : start + _AT_ONCE]
            since = time.process_time()
            results = generator.run([request for _, request in part], seed=1000 * seed + start)
            each = (time.process_time() - since) / len(part)
            found += [
                Measurement(
                    task,
                    number,
                    name,
                    particles,
                    result.log_evidence,
                    result.effective_sample_size,
                    sum(result.satisfied),
                    result.best,
                    seed,
                    each,
                    texts,
                )
                for (number, _), result in zip(part, results, strict=True)
            ]
        told(f"{task}, {name}, seed {seed}: {time.process_time() - clock:.0f} CPU seconds")
    return found


def _grouped(
    measurements: Iterable[Measurement],
) -> dict[tuple[str, int], dict[str, dict[int, list[Measurement]]]]:
    """For each task and number of particles: the measurements by method and prompt."""
    result: dict[tuple[str, int], dict[str, dict[int, list[Measurement]]]] = {}
    for m in measurements:
        by_method = result.setdefault((m.task, m.particles), {})
        by_method.setdefault(m.method, {}).setdefault(m.prompt, []).append(m)
    return dict(sorted(result.items()))


def _log_evidence(runs: Iterable[Measurement]) -> float:
    return fmean(m.log_evidence for m in runs)


def _gains(by_method: Mapping[str, Mapping[int, list[Measurement]]], name: str) -> list[float]:
    """By how much the log-evidence of each prompt is above that of the first method."""
    first = next(iter(by_method.values()))
    return [
        _log_evidence(runs) - _log_evidence(first[prompt])
        for prompt, runs in by_method[name].items()
    ]


def summary(measurements: Iterable[Measurement]) -> list[dict[str, Any]]:
    """For each task, number of particles and method: means, and the difference to the first method.

    The standard error is that of the difference over prompts; the variance is that of the
    log-evidence of one prompt over seeds, on average.
    """
    rows = []
    for (task, particles), by_method in _grouped(measurements).items():
        for name, own in by_method.items():
            gains = _gains(by_method, name)
            every = [m for runs in own.values() for m in runs]
            spread = [variance(m.log_evidence for m in runs) for runs in own.values() if runs[1:]]
            rows.append(
                {
                    "task": task,
                    "particles": particles,
                    "method": name,
                    "prompts": len(own),
                    "seeds": len(every) // len(own),
                    "log_evidence": fmean(_log_evidence(runs) for runs in own.values()),
                    "gain": fmean(gains),
                    "standard_error": (
                        stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
                    ),
                    "worst_gain": min(gains),
                    "better_on": sum(gain > 0 for gain in gains),
                    "variance": fmean(spread) if spread else math.nan,
                    "effective_sample_size": fmean(m.effective_sample_size for m in every),
                    "satisfied": sum(m.satisfied for m in every),
                    "texts": sum(m.texts or m.particles for m in every),
                    "cpu_seconds": fmean(m.cpu_seconds for m in every),
                }
            )
    return rows


def _tasks(folder: Path, part: str, prompts: int) -> dict[str, list[Source]]:
    """Return the prompts of a part, and the examples."""
    if part not in ("test", "development"):
        raise InvalidParameterError(f"the part must be test or development, but is {part!r}")
    first = 0 if part == "test" else _TEST_PROMPTS
    last = min(first + prompts, _TEST_PROMPTS) if part == "test" else first + prompts
    return {
        "examples": [words_source(words) for words in EXAMPLES],
        "words": word_prompts(folder, "held out")[first:last],
        "function calls": tool_prompts(folder, "held out")[first:last],
    }


def run(
    lm: LanguageModel,
    hmm: HiddenMarkovModel,
    out: Path | None = None,
    *,
    data: Path | None = None,
    part: str = "test",
    prompts: int = 40,
    particles: Sequence[int] = (8,),
    methods: Mapping[str, Mapping[str, Any]] = METHODS,
    seeds: int = 1,
    told: Callable[[str], None] = lambda line: None,
) -> list[Measurement]:
    """Measure on held-out prompts, and write ``guidance.json`` and ``guidance.png`` to a folder.

    Args:
        lm: The language model.
        hmm: An HMM distilled from it.
        out: The folder. What it has in ``measurements.jsonl`` is not measured again.
        data: Where the prompts are; see :func:`~pcgcd.experiments.tasks.data_folder`.
        part: "test", or "development" for making choices.
        prompts: How many of each task, at most 40 of the test part.
        particles: The numbers of particles.
        methods: Names, and arguments of :class:`~pcgcd.decoding.Generator` (and ``times``: how many
            times as many particles it gets); others are compared with the first.
        seeds: How many runs of each.
        told: Called with a line about each part that is done.
    """
    tasks = _tasks(data_folder(data), part, prompts)
    kept = None if out is None else out / "measurements.jsonl"
    found = [] if kept is None or not kept.exists() else _read(kept)
    done = {(m.task, m.particles, m.method, m.seed) for m in found}
    for seed, (task, sources), k, (name, options) in itertools.product(
        range(seeds), tasks.items(), particles, methods.items()
    ):
        if (task, k, name, seed) in done:
            continue
        found += measure(
            lm,
            hmm,
            sources,
            task=task,
            budget=BUDGETS[task],
            particles=k,
            methods={name: options},
            seed=seed,
            told=told,
        )
        if kept is not None:
            write_text(kept, "".join(json.dumps(asdict(m)) + "\n" for m in found))
    if out is not None:
        content = {
            "command": f"pcgcd experiment guidance --part {part} --prompts {prompts} --particles "
            f"{' '.join(map(str, particles))} --seeds {seeds}",
            "hmm": {"hidden": hmm.num_hidden, "copies": hmm.copying is not None},
            "budgets": BUDGETS,
            "summary": summary(found),
            "measurements": [asdict(measurement) for measurement in found],
        }
        write_text(out / "guidance.json", json.dumps(content, indent=1) + "\n")
        save(figure(found), out / "guidance.png")
    return found


def _read(path: Path) -> list[Measurement]:
    return [Measurement(**json.loads(line)) for line in path.read_text().splitlines()]


def figure(measurements: Sequence[Measurement]) -> Figure:
    """Draw the gain over the first method on each prompt, its mean and two standard errors."""
    panels = _grouped(measurements)
    means = {(row["task"], row["particles"], row["method"]): row for row in summary(measurements)}
    result = Figure(figsize=(1.0 + 3.2 * len(panels), 3.0), layout="constrained")
    for axes, ((task, particles), by_method) in zip(
        result.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        names = list(by_method)
        for place, (name, colour) in enumerate(zip(names[1:], colours_of(names)[1:])):
            gains = _gains(by_method, name)
            spread = [place + 0.3 * (i / max(1, len(gains) - 1) - 0.5) for i in range(len(gains))]
            axes.plot(spread, gains, ".", color=colour, alpha=0.35, markersize=4)
            row = means[task, particles, name]
            error = [2 * row["standard_error"]]
            axes.errorbar(
                [place], [row["gain"]], error, fmt="o", color=INK, capsize=4, markersize=5
            )
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(names) - 1), [name.replace(", ", "\n") for name in names[1:]])
        axes.set_title(f"{task}, {particles} particles")
        axes.set_ylabel(f"log-evidence beyond {names[0]}")
        clear_frame(axes)
    return result


def report(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return the rows of :func:`summary` as a table."""
    table = Table(
        title="mean log-evidence on held-out prompts", title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in (
        "task",
        "k",
        "method",
        "log-evidence",
        "gain",
        "better on",
        "variance",
        "ESS",
        "valid",
        "CPU s",
    ):
        table.add_column(column, justify="left" if column in ("task", "method") else "right")
    for row in rows:
        table.add_row(
            row["task"],
            str(row["particles"]),
            row["method"],
            f"{row['log_evidence']:.2f}",
            f"{row['gain']:+.2f} ± {row['standard_error']:.2f}",
            f"{row['better_on']} of {row['prompts']}",
            f"{row['variance']:.2f}".replace("nan", "–"),
            f"{row['effective_sample_size']:.1f}",
            f"{row['satisfied']} of {row['texts']}",
            f"{row['cpu_seconds']:.1f}".replace("nan", "–"),
        )
    return table


def main(out: Path, *, model: str | None = None, hmm: str | None = None, **options: Any) -> None:
    """Run the experiment and print it; see :func:`run` for the options."""
    from pcgcd.hmm import default_hmm, load_hmm
    from pcgcd.lm import default_model, load_model

    console = Console()
    lm = default_model(engine="fastest") if model is None else load_model(model)
    guide = default_hmm() if hmm is None else load_hmm(hmm, vocabulary=lm.vocabulary)
    found = run(lm, guide, out, told=lambda line: console.print(line, highlight=False), **options)
    console.print(report(summary(found)))
    console.print(f"written: {out / 'guidance.json'}, {out / 'guidance.png'}")

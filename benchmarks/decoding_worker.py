"""The measurements of decoding.py on our side, each call a process of its own with one thread."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from common import THREADS, extra_memory
from decoding_workload import BUDGET, ESS_THRESHOLD, StandIn, load
from product_worker import random_hmm

from pcgcd.decoding import SMC
from pcgcd.decoding.requests import choose
from pcgcd.decoding.targets import Target
from pcgcd.lm import LanguageModel, LMSession

METHODS = ("unconstrained", "lcd", "gcd", "pgcd")
COMPARED = ("unconstrained", "gcd", "pgcd")


class Clock:
    """Wall and CPU seconds that have passed inside, by step."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._wall
        self.cpu += time.process_time() - self._cpu

    def read(self) -> tuple[float, float]:
        """Milliseconds since the last reading."""
        result = (1e3 * self.wall, 1e3 * self.cpu)
        self.wall = self.cpu = 0.0
        return result


class Watched(LanguageModel):
    """A language model whose time is counted apart."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.vocabulary, self.clock = lm, lm.vocabulary, Clock()
        self.distinct: list[int] = []

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        return self.lm.log_probs(prefixes)

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        return WatchedSession(self, self.lm.start(prompts))


class WatchedSession(LMSession):
    def __init__(self, owner: Watched, session: LMSession) -> None:
        self._owner, self._session = owner, session

    @property
    def num_rows(self) -> int:
        return self._session.num_rows

    def log_probs(self) -> torch.Tensor:
        session = self._session
        self._owner.distinct.append(getattr(session, "num_distinct", session.num_rows))
        with self._owner.clock:
            return session.log_probs()

    def advance(self, tokens: Sequence[int] | torch.Tensor) -> None:
        with self._owner.clock:
            self._session.advance(tokens)

    def reindex(self, rows: Sequence[int] | torch.Tensor) -> None:
        with self._owner.clock:
            self._session.reindex(rows)


class StandInLM(LanguageModel):
    """A model that answers at once."""

    def __init__(self, rows: StandIn, vocabulary: Any) -> None:
        self.stand_in, self.vocabulary = rows, vocabulary

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        places = [self.stand_in.place(tuple(prefix)) for prefix in prefixes]
        return self.stand_in.rows[places]


class Task(NamedTuple):
    """What to generate."""

    prompt: tuple[int, ...]
    automaton: Any
    budget: int


def run(
    lm: Watched,
    task: Task,
    method: str,
    hmm: Any,
    particles: int,
    resampling: str | None = "systematic",
) -> list[dict[str, Any]]:
    """One generation, step by step."""
    plan = choose(method, w=0.5, gcd_share=0.0)  # as in the paper: the guide alone
    target = Target(task.automaton, hmm)
    start = target.engine(task.prompt, guided=plan.needs_guide).start([task.budget])
    steps = SMC(particles, resampling, ESS_THRESHOLD).steps(
        lm, [task.prompt], start, plan.proposal, plan.potential, seed=0
    )
    lm.clock.read()
    lm.distinct.clear()
    total, active = Clock(), particles
    found: list[dict[str, Any]] = []
    while True:
        with total:
            step = next(steps, None)
        if step is None:
            return found
        (wall, cpu), (model_wall, model_cpu) = total.read(), lm.clock.read()
        found.append(
            {
                "active": active,
                "distinct": lm.distinct[-1],
                "own": (wall - model_wall, cpu - model_cpu),
                "model": (model_wall, model_cpu),
            }
        )
        active = len(step.population.active)


def best(rounds: list[list[dict[str, Any]]], part: str, kind: int) -> list[float]:
    """The least milliseconds of each step over rounds, which differ in nothing else."""
    return [min(step[part][kind] for step in steps) for steps in zip(*rounds, strict=True)]


def middle(rounds: list[list[dict[str, Any]]], part: str, kind: int) -> list[float]:
    return [
        statistics.median(step[part][kind] for step in steps) for steps in zip(*rounds, strict=True)
    ]


def summary(rounds: list[list[dict[str, Any]]], particles: int) -> dict[str, Any]:
    """Means over the steps at which all particles go on, the first (the prompt's) left out."""
    steps = rounds[0]
    kept = [i for i, step in enumerate(steps) if i and step["active"] == particles]
    result: dict[str, Any] = {
        "steps": len(steps),
        "counted": len(kept),
        "distinct_rows": statistics.mean(steps[i]["distinct"] for i in kept),
    }
    for part in ("own", "model"):
        for kind, name in enumerate(("wall_ms", "cpu_ms")):
            least, usual = best(rounds, part, kind), middle(rounds, part, kind)
            result[f"{part}_{name}"] = {
                "best": statistics.mean(least[i] for i in kept),
                "median": statistics.mean(usual[i] for i in kept),
                "worst_step": max(least[i] for i in kept),
            }
    most = max(steps[i]["distinct"] for i in kept)
    full = [i for i in kept if steps[i]["distinct"] == most]
    result["most_rows"] = {"rows": most, "steps": len(full)}
    for part in ("own", "model"):
        least = best(rounds, part, 1)
        result["most_rows"][f"{part}_cpu_ms"] = statistics.median(least[i] for i in full)
    return result


# -- the two measurements ---------------------------------------------------------------------


def measure_own(vocabulary_path: str, hidden: int, particles: int, rounds: int) -> dict[str, Any]:
    """What a step costs beside the language model."""
    vocabulary, fa = load(vocabulary_path)
    lm = Watched(StandInLM(StandIn(fa), vocabulary))
    hmm = random_hmm(hidden, fa.vocab_size)
    task = Task((), fa, BUDGET)
    result: dict[str, Any] = {"automaton": repr(fa), "budget": BUDGET, "methods": {}}
    for method in METHODS:
        run(lm, task, method, hmm, particles)
        measured = [run(lm, task, method, hmm, particles) for _ in range(rounds)]
        result["methods"][method] = summary(measured, particles)
    return result


def measure_model(hidden: int, particles: int, rounds: int, budget: int) -> dict[str, Any]:
    """Generation with the default model.

    Nothing is resampled: copies of a particle cost the model nothing until they differ, and would
    flatter the methods that resample.
    """
    from pcgcd.demo.generation import scenes
    from pcgcd.lm import default_model

    model = default_model()
    lm = Watched(model)
    model.log_probs([model.encode("the weights are read when they are used")])
    result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.model.parameters())}
    for name, scene in zip(("function_call", "keywords"), scenes(), strict=True):
        fa = scene.constraint.compile(model.vocabulary)
        hmm = random_hmm(hidden, fa.vocab_size)
        task = Task(tuple(model.encode(scene.messages)), fa, budget)

        def once(method: str, task: Task = task, hmm: Any = hmm) -> list[dict[str, Any]]:
            return run(lm, task, method, hmm, particles, None)

        once("unconstrained")
        memory = {m: extra_memory(lambda m=m, once=once: once(m))[1] for m in COMPARED}
        measured: dict[str, list[Any]] = {method: [] for method in COMPARED}
        for _ in range(rounds):
            for method, kept in measured.items():
                kept.append(once(method))
        result[name] = {
            "automaton": repr(fa),
            "prompt": len(task.prompt),
            "budget": budget,
            "methods": {
                method: {**summary(kept, particles), "memory": memory[method]}
                for method, kept in measured.items()
            },
        }
    return result


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        name, *given = json.loads(sys.argv[1])
        measure = {"own": measure_own, "model": measure_model}[name]
        print(json.dumps(measure(*given)))

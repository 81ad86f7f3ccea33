"""genlm-control on the workload of decoding.py, in a process (and an environment) of its own.

The constraint is its own finite automaton of the same language (``BoolFSA.from_regex``), coerced to
tokens. The language model is the stand-in, its time counted apart. The package's own SMC, one run
for each sampler after a short one that warms up.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from common import THREADS, extra_memory
from decoding_workload import ESS_THRESHOLD, PATTERN, StandIn, load


def stand_in_potential(stand_in: StandIn, vocabulary: Any) -> Any:
    """The stand-in as a language model of genlm."""
    from genlm.backend.tokenization import Token
    from genlm.control import Potential

    ends = set(vocabulary.eos_ids)
    texts = [
        i for i in range(vocabulary.size) if i not in ends and vocabulary.token_bytes[i] is not None
    ]
    rows = stand_in.rows[:, [*texts, vocabulary.eos_ids[0]]].double().log_softmax(-1).numpy()

    class Model(Potential):  # type: ignore[misc]
        def __init__(self) -> None:
            self.cpu, self.steps = 0.0, 0
            super().__init__([Token(i, vocabulary.token_bytes[i]) for i in texts])

        def row(self, context: Any) -> Any:
            return rows[stand_in.place(tuple(token.token_id for token in context))]

        async def logw_next(self, context: Any) -> Any:
            started = time.process_time()
            result = self.make_lazy_weights(self.row(context))
            self.cpu += time.process_time() - started
            self.steps = max(self.steps, len(context) + 1)
            return result

        async def prefix(self, context: Any) -> float:
            started = time.process_time()
            logs = [self.row(context[:t])[self.lookup[token]] for t, token in enumerate(context)]
            self.cpu += time.process_time() - started
            return float(np.sum(logs))

        async def complete(self, context: Any) -> float:
            return await self.prefix(context) + float(self.row(context)[-1])

    return Model()


def measure(vocabulary_path: str, particles: int, steps: dict[str, int]) -> dict[str, Any]:
    from genlm.control import AWRS, BoolFSA, direct_token_sampler

    vocabulary, fa = load(vocabulary_path)
    stand_in = StandIn(fa)
    model = stand_in_potential(stand_in, vocabulary)
    condition = BoolFSA.from_regex(PATTERN).coerce(model, f=b"".join)
    samplers = {
        "unconstrained": lambda: direct_token_sampler(model),
        "awrs": lambda: AWRS(model, condition, seed=0),
        "product": lambda: direct_token_sampler(model * condition),
    }
    result: dict[str, Any] = {"version": version("genlm-control"), "samplers": {}}
    for name, wanted in steps.items():
        sampler = samplers[name]()

        async def go(tokens: int, sampler: Any = sampler) -> Any:
            return await sampler.smc(
                n_particles=particles, ess_threshold=ESS_THRESHOLD, max_tokens=tokens
            )

        def timed(wanted: int = wanted, go: Any = go) -> tuple[float, float]:
            model.cpu, model.steps = 0.0, 0
            wall, cpu = time.perf_counter(), time.process_time()
            asyncio.run(go(wanted))
            return time.perf_counter() - wall, time.process_time() - cpu

        if name != "product":
            timed(4)
        (wall, cpu), memory = extra_memory(timed)
        done = model.steps
        result["samplers"][name] = {
            "steps": done,
            "cpu_ms": 1e3 * (cpu - model.cpu) / done,
            "wall_ms": 1e3 * (wall - model.cpu) / done,
            "model_cpu_ms": 1e3 * model.cpu / done,
            "memory": memory,
        }
    return result


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - what genlm draws from
    with torch.no_grad():
        print(json.dumps(measure(*json.loads(sys.argv[1]))))

"""The peers of em.py: one EM epoch of hmmlearn and of dynamax, from given parameters.

Runs in an environment with the peer (``pip install hmmlearn dynamax``); pcgcd is not needed there.

    python em_peers.py example.npz "hmmlearn, scaling" epochs
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

import numpy as np
from common import THREADS, extra_memory

# For each sequence of n tokens, dynamax's E step writes out n x H x V numbers. It gets as many
# sequences at once as fit into ROOM bytes, and no more than make MOST numbers in all: what its E
# step takes for these is then scaled to all sequences.
ROOM, MOST = 2e9, 8e9


class Clock:
    """Wall and CPU milliseconds between ticks."""

    def __init__(self) -> None:
        self.wall, self.cpu = [time.perf_counter()], [time.process_time()]

    def tick(self) -> None:
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())

    def epochs(self, scale: float = 1.0) -> dict[str, list[float]]:
        """All epochs but the first; with a scale, two ticks each, of which the first is scaled."""
        found = {}
        for name, ticks in (("wall_ms", self.wall), ("cpu_ms", self.cpu)):
            steps = 1e3 * np.diff(ticks)
            if scale != 1.0:
                steps = scale * steps[::2] + steps[1::2]
            found[name] = [float(step) for step in steps[1:]]
        return found


def measure_hmmlearn(arrays: Any, implementation: str, epochs: int) -> dict[str, Any]:
    from hmmlearn.hmm import CategoricalHMM

    data = arrays["data"]
    hidden, vocab = arrays["emission"].shape
    clock = Clock()

    class Timed(CategoricalHMM):
        def _do_mstep(self, stats: Any) -> None:
            super()._do_mstep(stats)
            clock.tick()

    model = Timed(
        hidden,
        n_iter=epochs + 1,
        tol=-math.inf,
        init_params="",
        n_features=vocab,
        implementation=implementation,
    )
    names = ("initial", "transition", "emission")
    start = [arrays[name].astype(np.float64) for name in names]
    model.startprob_, model.transmat_, model.emissionprob_ = (
        part / part.sum(-1, keepdims=True) for part in start
    )
    model.fit(data.reshape(-1, 1), [data.shape[1]] * len(data))
    history = [float(likelihood) for likelihood in model.monitor_.history]
    return {"log_likelihoods": history, "sequences": len(data), **clock.epochs()}


def measure_dynamax(arrays: Any, epochs: int) -> dict[str, Any]:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import CategoricalHMM

    data = jnp.asarray(arrays["data"])[:, :, None]
    hidden, vocab = arrays["emission"].shape
    model = CategoricalHMM(
        hidden,
        1,
        vocab,
        initial_probs_concentration=1.0,
        transition_matrix_concentration=1.0,
        emission_prior_concentration=1.0,
    )
    params, props = model.initialize(
        jax.random.PRNGKey(0),
        method="prior",
        initial_probs=jnp.asarray(arrays["initial"]),
        transition_matrix=jnp.asarray(arrays["transition"]),
        emission_probs=jnp.asarray(arrays["emission"])[:, None, :],
    )
    state = model.initialize_m_step_state(params, props)
    numbers = data.shape[1] * hidden * vocab
    at_once = 2 ** int(math.log2(min(len(data), max(1, ROOM // (4 * numbers)))))
    used = at_once * max(1, int(min(len(data), MOST // numbers)) // at_once)
    scaled = used < len(data)

    @jax.jit
    def e_step(params: Any, batch: Any) -> Any:
        stats, likelihoods = jax.vmap(lambda one: model.e_step(params, one))(batch)
        return jax.tree.map(lambda part: part.sum(0, keepdims=True), stats), likelihoods.sum()

    m_step = jax.jit(lambda params, stats, state: model.m_step(params, props, stats, state))
    clock = Clock()
    history = []
    for _ in range(epochs + 1):
        total, likelihood = None, 0.0
        for first in range(0, used, at_once):
            stats, part = e_step(params, data[first : first + at_once])
            likelihood += float(part)
            total = stats if total is None else jax.tree.map(jnp.add, total, stats)
        if scaled:
            clock.tick()
        params, state = m_step(params, total, state)
        jax.block_until_ready(params)
        history.append(likelihood)
        clock.tick()
    return {
        "log_likelihoods": history,
        "sequences": used,
        "sequences_at_once": at_once,
        **clock.epochs(len(data) / used),
    }


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # one thread, also for libraries that count processors
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])
    loaded = dict(np.load(sys.argv[1]))
    peer, count = sys.argv[2], int(sys.argv[3])
    if peer == "dynamax":
        result, memory = extra_memory(lambda: measure_dynamax(loaded, count))
    else:
        kind = peer.split(", ")[1]
        result, memory = extra_memory(lambda: measure_hmmlearn(loaded, kind, count))
    print(json.dumps({"epochs": count, **result, "memory": memory}))

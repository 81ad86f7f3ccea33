"""The measurements of product.py, each call a process of its own with one thread."""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import THREADS, extra_memory, timed
from product_build import Size, random_automaton
from product_workload import LENGTH, constraint, read_vocabulary, texts

from pcgcd import HMM, FiniteAutomaton, Vocabulary
from pcgcd.engine import ChainEngine, ChainState, start_batch

MOST_PRINTED = 4
TESTS = Path(__file__).resolve().parent.parent / "tests" / "engine"


def random_hmm(hidden: int, vocab: int) -> HMM:
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> torch.Tensor:
        weights = torch.rand(shape, generator=generator)
        return weights.div_(weights.sum(-1, keepdim=True))

    return HMM(rows(hidden), rows(hidden, hidden), rows(hidden, vocab), validate=False)


def algorithm_1(hmm: HMM, fa: FiniteAutomaton) -> Any:
    """The reference of the tests, in float32."""
    spec = importlib.util.spec_from_file_location("algorithm_1", TESTS / "algorithm_1.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("tests/engine/algorithm_1.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Algorithm1(hmm, fa, torch.float32)


def one_pass(rows: Any) -> Callable[[Any], float]:
    """A function that reads each of the given rows once, as fast as a loop can."""
    from numba import njit

    @njit(fastmath=True)
    def read(rows: Any, tokens: Any) -> Any:
        total = np.float32(0)
        for i in range(len(tokens)):
            row = rows[tokens[i]]
            for z in range(len(row)):
                total += row[z]
        return total

    read(rows, np.zeros(1, dtype=np.int64))
    return lambda tokens: float(read(rows, tokens))


def both(measured: list[tuple[float, float]]) -> dict[str, float]:
    """Mean wall and CPU milliseconds of some steps."""
    wall, cpu = zip(*measured)
    return {"wall_ms": statistics.mean(wall), "cpu_ms": statistics.mean(cpu)}


def clock(action: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The least wall and CPU milliseconds."""
    found = timed(lambda _: action(), repeats)
    return found["wall_ms"]["best"], found["cpu_ms"]["best"]


def extremes(allowed: list[int]) -> tuple[int, int]:
    """Where most and where fewest tokens are allowed; the last such place, where texts differ."""
    last = len(allowed) - 1
    return last - int(np.argmax(allowed[::-1])), last - int(np.argmin(allowed[::-1]))


# -- the two constraints of the claim ---------------------------------------------------------


def measure_constraint(
    name: str, vocabulary_path: str, hidden: int, particles: list[int], repeats: int, printed: bool
) -> dict[str, Any]:
    tokens, eos = read_vocabulary(vocabulary_path)
    fa = constraint(name).compile(Vocabulary.from_bytes(tokens, eos_ids=eos))
    hmm = random_hmm(hidden, fa.vocab_size)
    words = texts(name, tokens)
    result: dict[str, Any] = {
        "automaton": repr(fa),
        "states": fa.num_states,
        "edges": fa.num_edges,
        "classes": fa.labels.num_classes,
        "steps": len(words[0]),
    }
    ChainEngine(hmm, fa).prepare(3)  # compile, and copy the emission

    def prepared() -> ChainEngine:
        fresh = ChainEngine(hmm, fa)
        fresh.prepare(LENGTH)
        return fresh

    wall, cpu = clock(prepared, min(3, repeats))
    engine, memory = extra_memory(prepared)
    result["backward"] = {"ours": {"wall_ms": wall, "cpu_ms": cpu, "memory": memory}}
    result["next"] = [ours_along(engine, fa, words[:k], repeats) for k in particles]
    result["floor"] = floor_along(engine, fa, words[0], repeats)
    if printed:
        result |= as_printed(hmm, fa, words, particles, result)
    return result


def ours_along(
    engine: ChainEngine, fa: FiniteAutomaton, words: list[list[int]], repeats: int
) -> dict[str, Any]:
    """One step (advance and score) at each place of the texts."""
    state = engine.start([LENGTH] * len(words))
    state.next_tokens()
    found, allowed = [], []
    for chosen in zip(*words):

        def step(state: ChainState = state, chosen: Any = chosen) -> Any:
            after = state.advance(chosen)
            return after.next_tokens()

        found.append(clock(step, repeats))
        state = state.advance(chosen)
        allowed.append(int(fa.mask(state.live_states[0], int(state.remaining[0])).sum()))
    free, narrow = extremes(allowed)
    return {
        "particles": len(words),
        "different_prefixes": len(set(map(tuple, words))),
        "mean": both(found),
        "free": {**both([found[free]]), "allowed": allowed[free]},
        "narrow": {**both([found[narrow]]), "allowed": allowed[narrow]},
    }


def floor_along(
    engine: ChainEngine, fa: FiniteAutomaton, word: list[int], repeats: int
) -> dict[str, Any]:
    """One pass over the allowed rows of the emission, at each place of a text."""
    read = one_pass(engine.guide.rows.numpy())
    state = engine.start([LENGTH])
    found, allowed = [], []
    for token in word:
        state = state.advance([token])
        mask = fa.mask(state.live_states[0], int(state.remaining[0]))
        chosen = np.flatnonzero(mask)
        found.append(clock(lambda chosen=chosen: read(chosen), repeats))
        allowed.append(len(chosen))
    free, narrow = extremes(allowed)
    return {"mean": both(found), "free": both([found[free]]), "narrow": both([found[narrow]])}


def as_printed(
    hmm: HMM, fa: FiniteAutomaton, words: list[list[int]], particles: list[int], result: Any
) -> dict[str, Any]:
    """Algorithm 1: its backward pass, and a step of each number of particles, one by one.

    Particles cost the same each, so more than a few are not measured but multiplied.
    """
    # Its messages have no scales; numbers that are nearly zero would make it slower than it is.
    torch.set_flush_denormal(True)
    algorithm = algorithm_1(hmm, fa)
    betas: list[torch.Tensor] = []

    def backward() -> None:
        betas[:] = algorithm.backward(LENGTH)

    started, started_cpu = time.perf_counter(), time.process_time()
    _, memory = extra_memory(backward)
    cpu = 1e3 * (time.process_time() - started_cpu)
    wall = 1e3 * (time.perf_counter() - started)
    result["backward"]["printed"] = {"wall_ms": wall, "cpu_ms": cpu, "memory": memory}
    alphas = [algorithm.first() for _ in words]
    steps = []
    for k in particles:
        ran = min(k, MOST_PRINTED)

        def step(ran: int = ran) -> None:
            for alpha, word in zip(alphas[:ran], words):
                after = algorithm.forward(alpha, word[0])
                algorithm.scores(after, betas[1])

        if ran == k:
            wall, cpu = clock(step, 2 if k == 1 else 1)
        else:
            wall, cpu = (
                steps[-1][key] * k / steps[-1]["particles"] for key in ("wall_ms", "cpu_ms")
            )
        steps.append({"particles": k, "measured": ran == k, "wall_ms": wall, "cpu_ms": cpu})
    torch.set_flush_denormal(False)
    agreement = check(algorithm, betas, hmm, fa, words[0][0])
    return {"printed": steps, "largest_difference": agreement}


def check(algorithm: Any, betas: list[torch.Tensor], hmm: HMM, fa: Any, token: int) -> float | None:
    """The largest difference of the two answers after one token (in probabilities).

    None where Algorithm 1 has no answer: it has no scales, and in float32 its mass may be zero.
    """
    if not float(algorithm.gamma) > 0:
        return None
    joint = algorithm.scores(algorithm.forward(algorithm.first(), token), betas[1])
    state = ChainEngine.of(hmm, fa).start([LENGTH]).advance([token])
    found = state.next_tokens().dense(hmm.vocab_size)[0].exp()
    return float((found - joint / joint.sum()).abs().max())


# -- growth -----------------------------------------------------------------------------------


def measure_growth(
    hidden: int, states: int, length: int, particles: int, vocab: int, repeats: int
) -> dict[str, Any]:
    """The backward pass, and a step of particles in different states, at one size."""
    size = Size(length, hidden, vocab, states, 4 * states, 60, 80)
    hmm, fa = random_hmm(hidden, vocab), random_automaton(size)
    ChainEngine(hmm, fa).prepare(fa.shortest_length() or 1)

    def prepared() -> ChainEngine:
        fresh = ChainEngine(hmm, fa)
        fresh.prepare(length)
        return fresh

    backward = clock(prepared, max(2, repeats // 2))
    engine = prepared()
    state = start_batch([(engine, length)] * particles)
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(8):
        scored = state.next_tokens()
        column = torch.multinomial(scored.log_weights.exp(), 1, generator=generator).squeeze(1)
        chosen = scored.token(column)

        def step(state: ChainState = state, chosen: Any = chosen) -> Any:
            return state.advance(chosen).next_tokens()

        found.append(clock(step, repeats))
        state = state.advance(chosen)
    return {"backward": both([backward]), "next": both(found)}


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        task, *given = json.loads(sys.argv[1])
        measure = {"constraint": measure_constraint, "growth": measure_growth}[task]
        print(json.dumps(measure(*given)))

"""How often a decoding step waits for the device.

Each of these calls on a tensor of a GPU makes the host wait. They are counted on the CPU, where the
same code runs: without a GPU that is as far as a test can go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pcgcd.engine import ChainEngine
from tests.engine.worlds import random_automaton, random_hmm

WAITING = [
    *("item", "tolist", "cpu", "nonzero"),
    *("__bool__", "__int__", "__float__", "__index__", "__array__"),
]


class Waits:
    """Counts calls that wait, those inside others not again."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._inside = False

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return call(*args, **kwargs)
            self.counts[name] += 1
            self._inside = True
            try:
                return call(*args, **kwargs)
            finally:
                self._inside = False

        return noted

    def of(self, call: Callable[[], Any]) -> tuple[int, Any]:
        """How often a call waits, and what it returns."""
        self.counts.clear()
        result = call()
        return self.counts.total(), result


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    counter = Waits()
    for name in WAITING:
        call = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, counter.counted(name, call))
    return counter


def test_the_counter_counts(waits: Waits) -> None:
    assert waits.of(lambda: float(torch.ones(1).sum()) + torch.ones(2).tolist()[0])[0] == 2


def test_a_decoding_step_waits_a_few_times_whatever_the_number_of_particles(waits: Waits) -> None:
    most: dict[int, int] = {}
    for particles in (2, 8, 32):
        state = ChainEngine(random_hmm(0, 9, 5), random_automaton(0, 5), backend="torch").start(
            [6] * particles
        )
        choose, seen = np.random.default_rng(0), []
        for _ in range(5):
            first, tokens = waits.of(state.next_tokens)
            rows = tokens.dense(5).numpy()
            chosen = [int(choose.choice(np.flatnonzero(np.isfinite(row)))) for row in rows]
            second, state = waits.of(lambda s=state, c=chosen: s.advance(c))  # type: ignore[misc]
            seen.append(first + second)
        most[particles] = max(seen[1:])  # the first one also makes what all of them share
    assert max(most.values()) <= 5, most


@pytest.mark.parametrize("particles", [2, 8, 32])
def test_lookaheads_wait_once_whatever_the_number_of_particles(
    waits: Waits, particles: int
) -> None:
    engine = ChainEngine(random_hmm(0, 9, 5), random_automaton(0, 5), backend="torch")
    state = engine.start([6] * particles)
    state.log_lookahead()  # the mass of the prompt is computed once
    choose = np.random.default_rng(0)
    rows = state.next_tokens().dense(5).numpy()
    state = state.advance([int(choose.choice(np.flatnonzero(np.isfinite(r)))) for r in rows])
    assert waits.of(state.log_lookahead)[0] == 1

"""The triton kernels of the product engine, in the triton interpreter, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pcgcd.engine import ChainEngine
from pcgcd.engine.backends import EdgeSums, choose_backend
from pcgcd.engine.backends.torch_backend import TorchBackend
from pcgcd.errors import EmptyLanguageError
from tests.engine.kernel_examples import NUM_CLASSES, accumulation, emissions, task, tiles
from tests.engine.worlds import half_precision, random_automaton, random_hmm

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),
]

TORCH = TorchBackend()
DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture(scope="module")
def triton_backend() -> TorchBackend:
    backend = choose_backend(torch.device("cpu"), torch.float32, "triton")
    assert isinstance(backend, TorchBackend)
    return backend


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_class_sums(triton_backend: TorchBackend, dtype: torch.dtype) -> None:
    for low, high in ((0, NUM_CLASSES), (2, 5)):
        given = (emissions(dtype), tiles(), low, high)
        close(triton_backend.class_sums(*given), TORCH.class_sums(*given))


@pytest.mark.parametrize("dtype", DTYPES)
def test_accumulate(triton_backend: TorchBackend, dtype: torch.dtype) -> None:
    given = EdgeSums(*accumulation(dtype))
    close(triton_backend.accumulate(given), TORCH.accumulate(given))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("listed", [True, False])
def test_scores(triton_backend: TorchBackend, listed: bool, dtype: torch.dtype) -> None:
    asked, messages = task(3, listed)
    given = (emissions(dtype), messages, asked)
    close(triton_backend.scores(*given), TORCH.scores(*given))


@pytest.mark.parametrize("half", [False, True])
def test_whole_runs(half: bool) -> None:
    rng, checked = np.random.default_rng(0), 0
    for seed in range(8):
        fa, hmm = random_automaton(seed, 5), random_hmm(seed, 9, 5)
        hmm = half_precision(hmm) if half else hmm
        try:
            states = [
                ChainEngine(hmm, fa, backend=name).start([4, 4]) for name in ("torch", "triton")
            ]
        except EmptyLanguageError:
            continue
        while states[0].remaining.max() > 0:
            a, b = (state.next_tokens().dense(5) for state in states)
            close(b, a)
            tokens = [rng.choice(np.flatnonzero(row.isfinite().numpy())) for row in a]
            states = [state.advance(tokens) for state in states]
            close(states[1].log_lookahead(), states[0].log_lookahead())
            checked += 1
    assert checked > 8

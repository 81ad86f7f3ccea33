"""Every backend computes the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pcgcd.engine import ChainEngine
from pcgcd.engine.backends import EdgeSums, ScoreTask, Tiles, choose_backend
from pcgcd.engine.backends.torch_backend import TorchBackend
from pcgcd.engine.scoring import _joint_tiles
from pcgcd.errors import EmptyLanguageError, InvalidParameterError
from tests.engine.kernel_examples import NUM_CLASSES, accumulation, emissions, task, tiles
from tests.engine.worlds import half_precision, random_automaton, random_hmm

TORCH, NUMBA = TorchBackend(), choose_backend(torch.device("cpu"), torch.float32, "numba")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", [TORCH, NUMBA], ids=repr)
def test_class_sums_are_sums_over_tokens(backend: TorchBackend, dtype: torch.dtype) -> None:
    rows, cut = emissions(dtype), tiles()
    for low, high in ((0, NUM_CLASSES), (2, 5)):
        found = backend.class_sums(rows, cut, low, high)
        for c in range(low, high):
            expected = rows.double()[torch.as_tensor(cut.token_class == c)].sum(0)
            torch.testing.assert_close(found[c - low], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", [TORCH, NUMBA], ids=repr)
def test_accumulate_is_a_sum_over_edges(backend: TorchBackend, dtype: torch.dtype) -> None:
    left, i, right, j, weight, first = accumulation(dtype)
    found = backend.accumulate(EdgeSums(left, i, right, j, weight, first))
    for g in range(len(first) - 1):
        expected = torch.zeros(left.shape[1], dtype=torch.float64)
        for e in range(first[g], first[g + 1]):
            expected += float(weight[e]) * left[i[e]].double() * right[j[e]].double()
        torch.testing.assert_close(found[g].double(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("num_rows", [1, 3, 4, 9])
@pytest.mark.parametrize("backend", [TORCH, NUMBA], ids=repr)
def test_scores_are_products_of_emissions_with_messages(
    backend: TorchBackend, num_rows: int, listed: bool, dtype: torch.dtype
) -> None:
    rows, (asked, messages) = emissions(dtype), task(num_rows, listed)
    found = backend.scores(rows, messages, asked)
    expected = expected_scores(rows, messages, asked)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def expected_scores(rows: torch.Tensor, messages: torch.Tensor, asked: ScoreTask) -> torch.Tensor:
    result = torch.full((len(asked.group), asked.width), -1.0, dtype=torch.float64)
    for row, group in enumerate(asked.group):
        column = 0
        for token in asked.tiles.order.tolist():
            g = int(group[asked.tiles.token_class[token]])
            if g >= 0:
                at = token if asked.column is None else column
                result[row, at] = rows[token].double() @ messages[g].double()
                column += 1
    return result


TILES = """
import torch
from pcgcd.engine.backends import choose_backend, numba_kernels
from tests.engine.kernel_examples import emissions, task
from tests.engine.test_backends import expected_scores

numba = choose_backend(torch.device("cpu"), torch.float32, "numba")
for numba_kernels._STRIP, numba_kernels._SPAN in ((48, 4096), (12, 16), (10, 37)):
    for dtype in (torch.float32, torch.bfloat16):
        for num_rows in (3, 4, 9):
            rows, (asked, messages) = emissions(dtype), task(num_rows, False)
            found = numba.scores(rows, messages, asked).double()
            expected = expected_scores(rows, messages, asked)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
print(numba_kernels.TOKENS)
"""


@pytest.mark.parametrize(("processor", "tokens"), [("avx2", 3), ("default", 4)])
def test_scores_do_not_depend_on_the_size_of_tiles_strips_and_spans(
    processor: str, tokens: int
) -> None:
    if processor == "avx2" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("the processor has no AVX2")
    output = subprocess.run(
        [sys.executable, "-c", TILES],
        env={**os.environ, "ATEN_CPU_CAPABILITY": processor, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.split() == [str(tokens)]


@pytest.mark.parametrize("half", [False, True])
def test_backends_agree_on_random_worlds(half: bool) -> None:
    rng, checked = np.random.default_rng(0), 0
    for seed in range(40):
        fa = random_automaton(seed, 7, deterministic=seed % 4 == 0)
        hmm = random_hmm(seed, 33, 7)
        hmm = half_precision(hmm) if half else hmm
        states = []
        for backend in ("torch", "numba"):
            try:
                states.append(ChainEngine(hmm, fa, backend=backend).start([6] * 5))
            except EmptyLanguageError:
                break
        while len(states) == 2 and states[0].remaining.max() > 0:
            a, b = (state.next_tokens().dense(7) for state in states)
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
            tokens = [rng.choice(np.flatnonzero(row.isfinite().numpy())) for row in a]
            states = [state.advance(tokens) for state in states]
            torch.testing.assert_close(
                states[0].log_lookahead(), states[1].log_lookahead(), atol=1e-5, rtol=1e-5
            )
            checked += 1
    assert checked > 100


def test_the_device_chooses() -> None:
    assert repr(choose_backend(torch.device("cpu"), torch.float32)) == "NumbaBackend()"
    assert repr(choose_backend(torch.device("cpu"), torch.float64)) == "TorchBackend()"
    with pytest.raises(InvalidParameterError, match="does not compute in"):
        choose_backend(torch.device("cpu"), torch.float64, "numba")
    with pytest.raises(InvalidParameterError, match="'torch', 'numba' or 'triton'"):
        choose_backend(torch.device("cpu"), torch.float32, "jax")  # type: ignore[arg-type]


def test_importing_the_engine_does_not_import_compilers() -> None:
    code = "import sys, pcgcd.engine; print([m for m in ('numba', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tiles_know_their_sizes() -> None:
    cut = Tiles(np.array([0, 2, 1]), np.array([0, 2, 3]), np.array([0, 1, 0]))
    assert cut.size.tolist() == [2, 1]


def test_batches_of_several_automata_need_no_loops_of_their_own() -> None:
    """Loops are compiled for each kind of arrays, and read-only ones are a kind."""
    hmm = random_hmm(0, 5, 7)
    engines = [ChainEngine(hmm, random_automaton(seed, 7, deterministic=True)) for seed in (1, 2)]
    joint, _ = _joint_tiles(engines)
    for name, array in vars(joint).items():
        assert array.flags.writeable == getattr(engines[0].tiles, name).flags.writeable, name

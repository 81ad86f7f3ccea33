"""EM by pyjuice, in the triton interpreter, against our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd import HMM
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.learning.em import pyjuice_em
from pcgcd.learning.em.fit import fit
from pcgcd.learning.results import Progress
from tests.hmm.models import dense, ending, monarch, parts, sampled

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]


@pytest.fixture(autouse=True)
def _in_the_interpreter(compiled: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyjuice_em, "compile_pyjuice", lambda export, device: compiled(export.root))
    monkeypatch.setattr(pyjuice_em, "cuda_device", lambda own: own)


def both(start: HMM, data: torch.Tensor, **options: Any) -> HMM:
    given = {"epochs": 1, "batch_size": len(data), "step_size": lambda done: 1.0} | options
    own, theirs = (fit(start, data, engine=engine, **given) for engine in ("own", "pyjuice"))
    assert [e.train for e in theirs.history] == pytest.approx([e.train for e in own.history], 1e-5)
    for name, part in parts(own.hmm).items():
        torch.testing.assert_close(parts(theirs.hmm)[name], part, rtol=1e-4, atol=1e-6)
    return theirs.hmm


@pytest.mark.parametrize("hidden", [3, 4, 16])
def test_one_step_of_both_agrees(hidden: int) -> None:
    start = dense(hidden, 7, dtype=torch.float32)
    both(start, sampled(dense(3, 7, seed=5), 40, 5), pseudocount=0.3)


def test_an_absorbing_end_and_its_padding_agree() -> None:
    start = ending(4, 6)
    data = sampled(ending(3, 6, seed=9), 40, 6)
    assert bool((data[:, -2] == 5).any())
    both(start, data, pseudocount=1e-6)


def test_mini_batches_agree_and_an_interrupted_fit_goes_on(tmp_path: Path) -> None:
    start, truth = dense(4, 7, dtype=torch.float32), dense(3, 7, seed=5)
    data, held_out = sampled(truth, 40, 5), sampled(truth, 20, 5, seed=1)
    options = {"batch_size": 12, "epochs": 2, "step_size": 0.8, "pseudocount": 0.3}
    whole = both(start, data, held_out=held_out, **options)

    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if (progress.epoch, progress.batch) == (2, 2):
            raise StoppedError

    options |= {"engine": "pyjuice", "held_out": held_out, "checkpoint_dir": tmp_path}
    with pytest.raises(StoppedError):
        fit(start, data, checkpoint_seconds=0, progress=stop, **options)
    resumed = fit(start, data, **options)
    for name, part in parts(whole).items():
        torch.testing.assert_close(parts(resumed.hmm)[name], part, rtol=1e-5, atol=1e-7)
    with pytest.raises(CheckpointError, match="engine"):
        fit(start, data, **(options | {"engine": "own"}))


def test_what_pyjuice_does_otherwise_is_refused() -> None:
    data = sampled(dense(3, 7), 8, 4)
    for start, change, said in (
        (monarch(2, 2, 7), {}, "Monarch"),
        (dense(3, 7), {"pseudocount": 0}, "pseudocount above 0"),
        (dense(3, 7), {"dropout": 0.5}, "dropout"),
    ):
        with pytest.raises(InvalidParameterError, match=said):
            fit(start, data, engine="pyjuice", **change)

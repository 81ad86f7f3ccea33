"""The HMM that comes with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pcgcd.errors import CheckpointError, VocabularyMismatchError
from pcgcd.hmm import HMM, default, default_hmm, load_hmm

EOS = 2


@pytest.fixture(scope="module")
def hmm() -> HMM:
    found = default_hmm()
    assert isinstance(found, HMM)
    return found


def test_it_covers_the_default_model_and_is_normalised(hmm: HMM) -> None:
    assert hmm.vocab_size == 49_152
    for weights in (hmm.initial, hmm.transition, hmm.emission):
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-4)


def test_its_texts_end_once(hmm: HMM) -> None:
    ending = (hmm.emission[:, EOS] > 0).nonzero().flatten().tolist()
    assert len(ending) == 1
    assert float(hmm.emission[ending[0], EOS]) == pytest.approx(1)
    assert float(hmm.transition[ending[0], ending[0]]) == pytest.approx(1)


def test_it_is_refused_for_another_vocabulary() -> None:
    with pytest.raises(VocabularyMismatchError):
        load_hmm(default.DEFAULT_FOLDER, vocabulary="0" * 64)


def test_an_incomplete_installation_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(default, "DEFAULT_FOLDER", tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="install pcgcd again"):
        default_hmm()

"""HMMs on the hub: what is uploaded can be read, and its card has the facts."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd import HMM, Vocabulary
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm import load_hmm, push_to_hub
from pcgcd.hmm.files.checkpoints import read_info

hub = pytest.importorskip("huggingface_hub")
VOCABULARY = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
FACTS = {"model": "a|b", "samples": 512, "bits_per_token": {"hmm": 7.5, "bigram": 8.25}}


class Api:
    """The part of the hub's client that is used; what is uploaded goes to a folder."""

    folder: Path
    calls: list[Any]

    def __init__(self, token: str | None = None) -> None:
        self.calls.append(token)

    def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> None:
        self.calls.append((repo_id, private, exist_ok))

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> str:
        shutil.copytree(folder_path, self.folder / repo_id)
        return f"https://hub/{repo_id}"


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Api.folder, Api.calls = tmp_path / "hub", []
    monkeypatch.setattr(hub, "HfApi", Api)
    return Api.folder


def model() -> HMM:
    return HMM.random(4, 3, generator=torch.Generator().manual_seed(0))


def test_what_is_uploaded_can_be_read(uploads: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pcgcd")
    address = model().push_to_hub(
        "me/my-hmm", vocabulary=VOCABULARY, facts=FACTS, private=True, token="secret"
    )
    assert address == "https://hub/me/my-hmm"
    assert Api.calls == ["secret", ("me/my-hmm", True, True)]
    found = load_hmm(uploads / "me/my-hmm", vocabulary=VOCABULARY)
    torch.testing.assert_close(found.emission, model().emission)
    assert "uploading me/my-hmm" in caplog.text
    assert "secret" not in caplog.text


def test_the_card_has_the_facts_of_training(uploads: Path, tmp_path: Path) -> None:
    model().save_pretrained(tmp_path / "own", vocabulary=VOCABULARY, facts=FACTS)
    push_to_hub(tmp_path / "own", "me/my-hmm")
    card = (uploads / "me/my-hmm/README.md").read_text()
    front, _, body = card.removeprefix("---\n").partition("---\n")
    assert "library_name: pcgcd" in front
    assert 'load_hmm("me/my-hmm")' in body
    for row in ("| model | a\\|b |", "| samples | 512 |", "| bits per token: bigram | 8.25 |"):
        assert row in body
    assert VOCABULARY.fingerprint in body
    info = read_info(uploads / "me/my-hmm")
    assert info == read_info(tmp_path / "own")
    hub.ModelCard(card)  # the hub's own reader takes it


def test_bad_uploads_are_refused(uploads: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="owner/name"):
        model().push_to_hub("my-hmm")
    model().save_pretrained(tmp_path / "own")
    with pytest.raises(InvalidParameterError, match="leave out facts"):
        push_to_hub(tmp_path / "own", "me/my-hmm", facts={})
    with pytest.raises(CheckpointError):
        push_to_hub(tmp_path / "nothing", "me/my-hmm")
    assert not uploads.exists()


def test_a_hub_that_refuses_is_an_error_of_ours(
    uploads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("401")

    monkeypatch.setattr(Api, "create_repo", refuse)
    with pytest.raises(CheckpointError, match="could not be uploaded: 401"):
        model().push_to_hub("me/my-hmm")

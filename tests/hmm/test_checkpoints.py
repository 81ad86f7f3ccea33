"""Models in folders: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pcgcd import HMM, MonarchHMM, Vocabulary
from pcgcd.errors import CheckpointError, InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.hmm.files.checkpoints import load_hmm, read_info
from pcgcd.hmm.files.storage import storage_error
from tests.hmm.models import dense, ending, monarch, parts, rows

VOCABULARY = Vocabulary.from_bytes([b"a", b"b", b"ab", b"c", b"d", None], eos_ids=5)
OTHER = Vocabulary.from_bytes([b"a", b"b", b"ba", b"c", b"d", None], eos_ids=5)


def models() -> list[HiddenMarkovModel]:
    return [
        dense(4, 6, dtype=torch.float32),
        dense(4, 6),
        monarch(2, 3, 6, dtype=torch.float32),
        ending(4, 6),
    ]


# -- our own format ---------------------------------------------------------------------------


@pytest.mark.parametrize("hmm", models())
def test_a_model_is_read_back(hmm: HiddenMarkovModel, tmp_path: Path) -> None:
    folder = hmm.save_pretrained(tmp_path / "deep" / "model", vocabulary=VOCABULARY)
    for again in (type(hmm).from_pretrained(folder), load_hmm(folder, vocabulary=VOCABULARY)):
        assert type(again) is type(hmm)
        for name, part in parts(hmm).items():
            torch.testing.assert_close(parts(again)[name], part, rtol=1e-6, atol=0)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_stored_emissions_err_as_little_as_is_said(dtype: str, tmp_path: Path) -> None:
    hmm = ending(6, 300)
    folder = hmm.save_pretrained(tmp_path / dtype, emission_dtype=dtype)
    again = HMM.from_pretrained(folder)
    error = storage_error(hmm, dtype)
    assert torch.equal(again.emission == 0, hmm.emission == 0)
    torch.testing.assert_close(again.emission.sum(-1), torch.ones(6))
    positive = hmm.emission > 0
    difference = (again.emission.log() - hmm.emission.log())[positive].double().abs()
    assert float(difference.max()) == pytest.approx(error.max_log_error, rel=0.01, abs=2e-6)
    assert float(difference.mean()) == pytest.approx(error.mean_log_error, rel=0.01, abs=2e-6)
    ratio = torch.where(positive, hmm.emission.log() - again.emission.log(), 0.0)
    divergence = (hmm.emission * ratio).sum(-1).double()
    assert float(divergence.mean()) == pytest.approx(error.mean_kl, rel=0.05, abs=1e-6)
    assert float(divergence.max()) == pytest.approx(error.max_kl, rel=0.05, abs=1e-6)
    limit = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2, "int8": 0.1}[dtype]
    assert error.max_log_error < limit
    width = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}[dtype]
    assert 0 <= error.num_bytes - width * hmm.emission.numel() <= 4 * 2 * 300


def test_tiny_probabilities_do_not_become_zero(tmp_path: Path) -> None:
    emission = torch.tensor([[0.0, 1e-30, 1e-12, 1e-4, 0.5], [0.2, 0.2, 0.2, 0.2, 0.2]])
    emission /= emission.sum(-1, keepdim=True)
    hmm = HMM(torch.full((2,), 0.5), torch.full((2, 2), 0.5), emission)
    for dtype in ("float32", "float16", "bfloat16", "int8"):
        again = load_hmm(hmm.save_pretrained(tmp_path / dtype, emission_dtype=dtype))
        assert torch.equal(again.emission > 0, emission > 0), dtype


@pytest.mark.parametrize("power", [1.0, 3.0, 30.0])
def test_int8_uses_the_encoding_that_errs_least(power: float) -> None:
    from pcgcd.hmm.files import storage

    emission = rows(20, 500, seed=1, dtype=torch.float32, power=power)
    hmm = HMM(rows(20, seed=2).float(), rows(20, 20, seed=3).float(), emission)
    extremes = storage._log_range(emission)
    others = [
        storage._errors(emission, storage._int8(emission, name, extremes)).mean_kl
        for name in ("log by row", "log by token", "sqrt")
    ]
    assert storage_error(hmm, torch.int8).mean_kl == pytest.approx(min(others))


def test_a_folder_tells_about_its_model(tmp_path: Path) -> None:
    facts = {"samples": 1000, "model": "a language model", "held_out": -1.5}
    folder = monarch(2, 3, 6).save_pretrained(
        tmp_path / "m", emission_dtype="int8", vocabulary=VOCABULARY, facts=facts
    )
    info = read_info(folder)
    assert (info.kind, info.num_hidden, info.vocab_size) == ("monarch", 6, 6)
    assert (info.dtype, info.emission_dtype) == ("float64", "int8")
    assert (info.vocabulary, info.eos_ids) == (VOCABULARY.fingerprint, (5,))
    assert info.facts == facts


def test_a_model_is_replaced_and_other_files_are_kept(tmp_path: Path) -> None:
    folder = dense(4, 6).save_pretrained(tmp_path / "m")
    (folder / "notes.txt").write_text("keep me")
    monarch(2, 3, 6).save_pretrained(folder)
    assert isinstance(load_hmm(folder), MonarchHMM)
    assert (folder / "notes.txt").read_text() == "keep me"


def test_a_mixture_of_two_saves_is_not_read(tmp_path: Path) -> None:
    first = dense(4, 6, seed=1).save_pretrained(tmp_path / "one")
    second = dense(4, 6, seed=2).save_pretrained(tmp_path / "two")
    (first / "model.safetensors").replace(second / "model.safetensors")
    with pytest.raises(CheckpointError, match="not of one model"):
        load_hmm(second)


def test_a_wrong_vocabulary_is_an_error(tmp_path: Path) -> None:
    folder = dense(4, 6).save_pretrained(tmp_path / "m", vocabulary=VOCABULARY)
    load_hmm(folder, vocabulary=VOCABULARY.fingerprint)
    for wrong in (OTHER, OTHER.fingerprint):
        with pytest.raises(VocabularyMismatchError, match="other tokens"):
            HMM.from_pretrained(folder, vocabulary=wrong)
    wide = Vocabulary.from_bytes([b"a", None], eos_ids=1)
    with pytest.raises(VocabularyMismatchError, match="emits 6 tokens"):
        load_hmm(folder, vocabulary=wide)
    with pytest.raises(VocabularyMismatchError, match="emits 4 tokens"):
        dense(4, 4).save_pretrained(tmp_path / "n", vocabulary=VOCABULARY)
    assert not (tmp_path / "n").exists()


def test_the_other_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"MonarchHMM.from_pretrained"):
        HMM.from_pretrained(monarch(2, 3, 6).save_pretrained(tmp_path / "m"))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_an_error(share: float, tmp_path: Path) -> None:
    folder = dense(4, 6).save_pretrained(tmp_path / "m")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match="truncated"):
        load_hmm(folder)


def test_a_changed_byte_is_an_error(tmp_path: Path) -> None:
    folder = dense(4, 6).save_pretrained(tmp_path / "m")
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match="damaged"):
        load_hmm(folder)


def changed_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden": 5}, "says 5 hidden states"),
        ({"kind": "triangular"}, "triangular"),
        ({"kind": "monarch"}, "do not make a model"),
        ({"version": 99}, "version 99"),
        ({"emission": {"dtype": "int8", "encoding": "magic"}}, "do not make|unknown way"),
        ({"emission": {"dtype": "float8", "encoding": "p"}}, "float8"),
        ({"eos_ids": None}, "does not describe"),
        ({"format": "something else"}, "known format"),
        ({"checksum": "0"}, "checksums differ"),
    ],
)
def test_an_inconsistent_config_is_an_error(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = dense(4, 6).save_pretrained(tmp_path / "m")
    changed_config(folder, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_hmm(folder)


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no folder or file"):
        load_hmm(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="no model in the folder"):
        load_hmm(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    for source in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(CheckpointError, match="can run code"):
            load_hmm(source)
    save_file({"weight": torch.zeros(3)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="but found weight"):
        load_hmm(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        load_hmm(tmp_path)


def test_a_hub_id_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = types.ModuleType("huggingface_hub")
    asked: list[str] = []

    def snapshot_download(name: str, **options: Any) -> str:
        asked.append(name)
        if name != "someone/an-hmm":
            raise OSError("401: not found")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download, raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.chdir(tmp_path)
    hmm = dense(3, 5, dtype=torch.float32)
    hmm.save_pretrained(tmp_path)
    found = HMM.from_pretrained("someone/an-hmm")
    torch.testing.assert_close(found.emission, hmm.emission)
    with pytest.raises(CheckpointError, match="could not be had from the hub"):
        HMM.from_pretrained("someone/nothing")
    assert asked == ["someone/an-hmm", "someone/nothing"]


def test_facts_that_json_cannot_hold_are_an_error(tmp_path: Path) -> None:
    for facts in ({"a": object()}, {"a": float("nan")}):
        with pytest.raises(InvalidParameterError, match="JSON"):
            dense(2, 3).save_pretrained(tmp_path / "m", facts=facts)
    with pytest.raises(InvalidParameterError, match="int4"):
        dense(2, 3).save_pretrained(tmp_path / "m", emission_dtype="int4")
    assert not list(tmp_path.iterdir())


def test_our_files_are_plain_safetensors(tmp_path: Path) -> None:
    hmm = dense(4, 6, dtype=torch.float32)
    tensors = load_file(hmm.save_pretrained(tmp_path / "m") / "model.safetensors")
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: part.shape for name, part in parts(hmm).items()
    }


# -- formats of others ------------------------------------------------------------------------


def ctrl_g_tensors(hmm: HMM) -> dict[str, Tensor]:
    beta = hmm.emission.log().clamp(min=-1e10).float()
    return {"alpha_exp": hmm.transition.float(), "beta": beta, "gamma": hmm.initial.log().float()}


@pytest.mark.parametrize("with_config", [True, False])
def test_ctrl_g_models_are_read(with_config: bool, tmp_path: Path) -> None:
    hmm = ending(4, 6)
    save_file(ctrl_g_tensors(hmm), tmp_path / "model.safetensors")
    if with_config:
        config = {"hidden_states": 4, "vocab_size": 6, "eos_token_id": 5}
        (tmp_path / "config.json").write_text(json.dumps(config))
    again = HMM.from_pretrained(tmp_path, vocabulary=VOCABULARY)
    for name, part in parts(hmm).items():
        torch.testing.assert_close(parts(again)[name], part, rtol=1e-5, atol=0)


def monarch_value(tensors: dict[str, Tensor], x: list[int]) -> float:
    """The value of a string by the rule of that format: factors from the last to the first.

    A message over (group, member of the group) is multiplied group by group; then groups and
    members change places.
    """
    weights = [tensors["alpha_exp.weights_exp.0"], tensors["alpha_exp.weights_exp.1"]]
    emission = tensors["beta"].double().exp()
    message = torch.ones(emission.shape[0], dtype=torch.float64)
    for step, token in enumerate(reversed(x)):
        message = message * emission[:, token]
        if step == len(x) - 1:
            break
        for weight in reversed(weights):
            grouped = message.view(-1, weight.shape[-1])
            message = torch.einsum("grc,gc->rg", weight.double(), grouped).flatten()
    return float(tensors["gamma_exp"][0].double() @ message)


@pytest.mark.parametrize(("b0", "b1"), [(3, 3), (2, 4), (4, 2), (1, 5)])
def test_monarch_models_are_read(b0: int, b1: int, tmp_path: Path) -> None:
    hidden = b0 * b1
    tensors = {
        "alpha_exp.weights_exp.0": rows(hidden // b0, b0, b0, seed=1, dtype=torch.float32),
        "alpha_exp.weights_exp.1": rows(hidden // b1, b1, b1, seed=2, dtype=torch.float32),
        "beta": rows(hidden, 6, seed=3, dtype=torch.float32).log(),
        "gamma_exp": rows(1, hidden, seed=4, dtype=torch.float32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    config = {"hidden_states": hidden, "vocab_size": 6, "eos_token_id": 5, "block_sizes": [b0, b1]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    hmm = MonarchHMM.from_pretrained(tmp_path, dtype=torch.float64)
    for x in ([0], [1, 2], [5, 0, 3, 3, 1]):
        value = float(hmm.log_value(torch.tensor([x])).exp())
        assert value == pytest.approx(monarch_value(tensors, x), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alpha_exp", torch.full((3, 4), 0.25), "shape"),
        ("beta", torch.zeros(5, 6), "shape"),
        ("beta", torch.zeros(4, 6), "distributions"),
        ("alpha_exp", torch.full((4, 4), float("nan")), "distributions"),
        ("extra", torch.zeros(1), "known format"),
    ],
)
def test_inconsistent_foreign_models_are_errors(
    name: str, value: Tensor, message: str, tmp_path: Path
) -> None:
    tensors = {**ctrl_g_tensors(ending(4, 6)), name: value}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        load_hmm(tmp_path)


def test_a_config_of_another_foreign_model_is_an_error(tmp_path: Path) -> None:
    save_file(ctrl_g_tensors(ending(4, 6)), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_states": 8}))
    with pytest.raises(CheckpointError, match="hidden_states = 8"):
        load_hmm(tmp_path)
    wrong = Vocabulary.from_bytes([b"a", None], eos_ids=1)
    (tmp_path / "config.json").unlink()
    with pytest.raises(VocabularyMismatchError):
        load_hmm(tmp_path, vocabulary=wrong)

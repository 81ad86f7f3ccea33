"""Causal language models of transformers: the cache never changes what they say."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.errors import InvalidParameterError, MissingDependencyError, VocabularyMismatchError
from tests.lm.examples import (
    VOCABULARY,
    assert_session_follows_prefixes,
    check,
    tiny_model,
    tiny_tokenizer,
)

transformers = pytest.importorskip("transformers")

from pcgcd.lm import TransformersLM  # noqa: E402
from pcgcd.lm.transformers_lm import _check_layers  # noqa: E402

KINDS = ["llama", "gpt2", "sliding window"]
if int(transformers.__version__.partition(".")[0]) >= 5:
    KINDS.append("recurrent")


def test_recurrent_layers_need_transformers_5() -> None:
    """Version 4.57 gives other numbers for them in a batch."""
    with pytest.raises(MissingDependencyError, match=r"kind conv needs transformers>=5"):
        _check_layers(["conv", "full_attention"], "4.57.1")
    _check_layers(["sliding_attention", "full_attention"], "4.57.1")
    _check_layers(["conv", "full_attention"], "5.0.0")


@cache
def tiny_lm(kind: str = "llama") -> TransformersLM:
    return TransformersLM(tiny_model(kind), None, vocabulary=VOCABULARY)


def one_by_one(lm: TransformersLM, prefixes: list[tuple[int, ...]]) -> Tensor:
    """What the bare model says about each prefix alone, without a cache or a mask."""
    with torch.no_grad():
        rows = [lm.model(torch.tensor([prefix])).logits[0, -1] for prefix in prefixes]
    return torch.stack(rows).log_softmax(-1)


class Seen:
    """The shapes of the batches that a model is given, while in use."""

    def __init__(self, lm: TransformersLM) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self._hook = lm.model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, args: Any, kwargs: Any) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_one_prefix_at_a_time(kind: str) -> None:
    lm = tiny_lm(kind)
    prefixes = [(1, 2, 3), (4,), (1, 2, 3), (5, 6, 7, 8, 0, 1), (2, 2, 2), (4,)]
    expected = one_by_one(lm, prefixes)
    assert float(expected.std()) > 0.5
    check(lm.log_probs(prefixes), expected, 1e-5)
    check(lm.start(prefixes).log_probs(), expected, 1e-5)
    assert lm.log_probs([]).shape == (0, 9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_session_equals_whole_prefixes(kind: str, seed: int) -> None:
    lm = tiny_lm(kind)
    assert_session_follows_prefixes(lm, [(1, 2, 3), (4, 5, 6), (1, 2, 3)], seed)
    choose = random.Random(seed)
    prompts = [tuple(choose.choices(range(9), k=choose.randint(1, 9))) for _ in range(4)]
    assert_session_follows_prefixes(lm, prompts, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_permuted_repeated_and_dropped_rows_keep_their_history(kind: str) -> None:
    lm = tiny_lm(kind)
    prefixes = [(1, 2), (3, 4), (5, 6), (7, 8)]
    for rows in ([3, 2, 1, 0], [0, 0, 0, 0], [2], [1, 1, 3, 1, 3, 0]):
        session = lm.start(prefixes)
        session.advance([1, 2, 1, 2])
        before = session.log_probs()
        session.reindex(rows)
        assert torch.equal(session.log_probs(), before[rows])
        session.advance([0] * len(rows))
        expected = [(*prefixes[row], 1 + row % 2, 0) for row in rows]
        check(session.log_probs(), one_by_one(lm, expected), 1e-5)


def test_equal_prefixes_cost_one_row() -> None:
    lm = tiny_lm()
    with Seen(lm) as seen:
        session = lm.start([(1, 2, 3)] * 5)
        session.log_probs()
        session.advance([4, 4, 4, 4, 4])
        session.log_probs()
        session.advance([5, 5, 6, 5, 6])
        session.log_probs()
        session.reindex([0, 2, 2, 1])
        session.log_probs()
        session.advance([1, 1, 0, 1])
        session.log_probs()
        session.reindex([2])
        session.advance([1])
        session.advance([2])
        session.log_probs()
    assert seen.shapes == [(1, 3), (1, 1), (2, 1), (3, 1), (1, 2)]


def test_different_prompts_share_one_batch() -> None:
    lm = tiny_lm()
    with Seen(lm) as seen:
        session = lm.start([(1, 2, 3), (4,), (1, 2, 3), (5, 6)])
        session.log_probs()
        session.advance([0, 0, 0, 0])
        session.log_probs()
    assert seen.shapes == [(3, 3), (3, 1)]


def test_only_the_last_place_of_a_prompt_gets_logits() -> None:
    lm = tiny_lm()
    widths: list[int] = []
    hook = lm.model.lm_head.register_forward_hook(lambda m, x, y: widths.append(y.shape[1]))
    lm.start([(1, 2, 3, 4), (2, 3)]).log_probs()
    lm.log_probs([(1, 2, 3, 4)])
    hook.remove()
    assert widths == [1, 1]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "sliding window"])
def test_what_stands_in_the_padding_is_irrelevant(kind: str) -> None:
    lm = tiny_lm(kind)
    padding = torch.tensor([4, 0, 2])
    rows = [torch.randint(9, (3, 6), generator=torch.Generator().manual_seed(s)) for s in (1, 2)]
    for row, n in enumerate(padding.tolist()):
        rows[1][row, n:] = rows[0][row, n:]
    prefixes = [tuple(rows[0][row, n:].tolist()) for row, n in enumerate(padding.tolist())]
    for ids in rows:
        found, _ = lm.forward(ids, padding=padding)
        check(found, one_by_one(lm, prefixes), 1e-5)


def test_rows_are_float32_whatever_the_model_is() -> None:
    half = TransformersLM(tiny_model("llama").bfloat16(), None, vocabulary=VOCABULARY)
    found = half.start([(1, 2), (3,)]).log_probs()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(2))


def test_a_text_longer_than_the_model_reads_is_a_clear_error() -> None:
    lm = tiny_lm("gpt2")
    session = lm.start([(1,) * 63])
    session.log_probs()
    session.advance([2])
    expected = session.log_probs()
    session.advance([2])
    for _ in range(2):
        with pytest.raises(InvalidParameterError, match=r"reads at most 64 tokens, but .* are 65"):
            session.log_probs()
    check(expected, one_by_one(lm, [(*(1,) * 63, 2)]), 1e-5)
    with pytest.raises(InvalidParameterError, match="at most 64 tokens"):
        lm.log_probs([(1,) * 70])


@pytest.mark.parametrize("kind", ["llama", "gpt2", "sliding window"])
def test_a_long_row_that_is_dropped_leaves_no_trace(kind: str) -> None:
    lm = tiny_lm(kind)
    session = lm.start([(1,) * 60, (2, 3)])
    session.log_probs()
    session.reindex([1, 1])
    prefixes: list[tuple[int, ...]] = [(2, 3), (2, 3)]
    for step in range(20):
        tokens = [step % 9, (step * step) % 9]
        session.advance(tokens)
        prefixes = [(*prefix, token) for prefix, token in zip(prefixes, tokens)]
        check(session.log_probs(), one_by_one(lm, prefixes), 1e-5)


# -- with a tokenizer --------------------------------------------------------------------------


@cache
def spoken(chat: bool = True, extra: int = 3) -> TransformersLM:
    tokenizer = tiny_tokenizer(chat)
    return TransformersLM(tiny_model("llama", len(tokenizer) + extra), tokenizer)


def test_the_vocabulary_comes_from_the_tokenizer_and_the_model() -> None:
    lm = spoken()
    assert lm.vocabulary.logits_size == lm.vocabulary.size + 3 == lm.model.config.vocab_size
    assert lm.vocabulary.eos_ids == lm.eos_ids == (1,)
    ids = lm.encode("hello, wörld")
    assert lm.vocabulary.decode(ids) == "hello, wörld".encode()
    assert ids == tuple(lm.tokenizer("hello, wörld")["input_ids"])


def test_a_piece_of_text_is_spelled_without_special_tokens() -> None:
    lm = spoken()
    for text in ("hello, wörld", "hell", "\n", ""):
        ids = lm.spell(text)
        assert ids is not None
        assert lm.vocabulary.decode(ids) == text.encode()
        assert not {lm.tokenizer.bos_token_id, lm.tokenizer.eos_token_id} & set(ids)
    assert TransformersLM(lm.model, None, vocabulary=lm.vocabulary).spell("hell") is None


def test_padded_logits_are_a_part_of_the_distribution_and_no_text() -> None:
    lm = spoken()
    session = lm.start([lm.encode("hello")])
    row = session.log_probs()[0]
    assert row.shape == (lm.vocabulary.logits_size,)
    assert torch.isfinite(row).all()
    assert row.exp().sum().item() == pytest.approx(1, abs=1e-5)
    padded = range(lm.vocabulary.size, lm.vocabulary.logits_size)
    assert not set(padded) & set(lm.vocabulary.trie.token.tolist())
    session.advance([lm.vocabulary.size])
    check(session.log_probs(), lm.log_probs([(*lm.encode("hello"), lm.vocabulary.size)]), 1e-5)


def test_several_ends_come_from_the_generation_config() -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama", len(tokenizer))
    model.generation_config.eos_token_id = [1, 0]
    assert TransformersLM(model, tokenizer).eos_ids == (0, 1)


def test_messages_go_through_the_chat_template() -> None:
    lm = spoken()
    ids = lm.encode(
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    )
    text = "<s>system:be brief</s><s>user:hello</s><s>assistant:"
    assert lm.tokenizer.decode(ids) == text
    assert ids[0] == ids[-1 - len("assistant:")] == 0
    with pytest.raises(InvalidParameterError, match="no chat template"):
        spoken(chat=False).encode([{"role": "user", "content": "hello"}])


def test_an_empty_prompt_is_a_clear_error_or_the_beginning_of_a_text() -> None:
    lm = spoken()
    assert lm.encode("") == (0,)
    assert lm.encode([]) == ()
    for call in (lm.start, lm.log_probs):
        with pytest.raises(InvalidParameterError, match=r"prompt 1 is empty; .* \[0\]"):
            call([(1, 2), ()])
    with pytest.raises(InvalidParameterError, match=r"is empty; give it one$"):
        tiny_lm().start([()])


def test_the_vocabulary_must_fit_the_model() -> None:
    narrow = Vocabulary.from_bytes([b"a", None], eos_ids=1)
    with pytest.raises(VocabularyMismatchError, match="9 wide, but the vocabulary says 2"):
        TransformersLM(tiny_model("llama"), None, vocabulary=narrow)
    with pytest.raises(VocabularyMismatchError, match="is this the tokenizer of that model"):
        TransformersLM(tiny_model("llama"), tiny_tokenizer())


def test_a_stored_model_is_the_same(tmp_path: Path) -> None:
    lm = spoken()
    lm.model.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    again = TransformersLM.from_pretrained(tmp_path)
    assert again.model.dtype == torch.float32
    assert again.vocabulary == lm.vocabulary
    ids = lm.encode([{"role": "user", "content": "hell"}])
    assert again.encode([{"role": "user", "content": "hell"}]) == ids
    torch.testing.assert_close(again.log_probs([ids]), lm.log_probs([ids]))


def test_greedy_texts_are_those_of_generate() -> None:
    lm = spoken()
    prompts = [lm.encode("hello world"), lm.encode("he")]
    for prompt in prompts:
        expected = lm.model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=12, eos_token_id=None
        )[0, len(prompt) :]
        session = lm.start([prompt])
        found = []
        for _ in range(12):
            found.append(int(session.log_probs()[0].argmax()))
            session.advance([found[-1]])
        assert found == expected.tolist()

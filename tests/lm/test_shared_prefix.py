"""What particles begin with is kept once, and changes nothing else."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from tests.lm.examples import VOCABULARY, check, tiny_model

transformers = pytest.importorskip("transformers")

from pcgcd.lm import TransformersLM, shared_prefix, transformers_lm  # noqa: E402

PROMPT = (1, 2, 3, 4, 2)
KINDS = ["llama", "gpt2", "sliding window"]


def tiny(kind: str) -> TransformersLM:
    return TransformersLM(tiny_model(kind), None, vocabulary=VOCABULARY)


def grown(lm: TransformersLM, *, asked_at_each: bool = True) -> tuple[Any, list[tuple[int, ...]]]:
    """A session that was forked twice, and its prefixes."""
    session = lm.start([PROMPT] * 4)
    prefixes = [PROMPT] * 4
    for step, tokens in enumerate([(0, 1, 2, 0), (1, 1, 3, 1), (4, 0, 0, 4), (1, 2, 3, 4)]):
        if asked_at_each or step in (0, 3):
            session.log_probs()
        session.advance(list(tokens))
        prefixes = [(*prefix, token) for prefix, token in zip(prefixes, tokens, strict=True)]
        if step == 1:
            rows = [2, 2, 0, 1]
            session.reindex(rows)
            prefixes = [prefixes[row] for row in rows]
    return session, prefixes


def expected(lm: TransformersLM, prefixes: list[tuple[int, ...]]) -> torch.Tensor:
    """What the model itself says, without a cache and without any change to it."""
    with torch.no_grad():
        rows = [lm.model(torch.tensor([prefix])).logits[0, -1] for prefix in prefixes]
    return torch.stack(rows).log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked_at_each", [True, False])
def test_rows_are_those_of_whole_prefixes(kind: str, asked_at_each: bool) -> None:
    lm = tiny(kind)
    session, prefixes = grown(lm, asked_at_each=asked_at_each)
    check(session.log_probs(), expected(lm, prefixes), 1e-5)
    assert shared_prefix.is_shared(session._cache) == (kind != "sliding window")


def test_the_prompt_is_kept_once() -> None:
    session, _ = grown(tiny("llama"))
    session.log_probs()
    for layer in session._cache.layers:
        assert layer.prefix.keys.shape[::2] == (1, len(PROMPT))
        assert layer.keys.shape[::2] == (4, 4)
        assert layer.get_seq_length() == len(PROMPT) + 4


def test_a_model_that_does_not_look_at_it_is_computed_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transformers_lm, "attention_to_prefixes", lambda model: nullcontext())
    lm = tiny("llama")
    session, prefixes = grown(lm)
    check(session.log_probs(), expected(lm, prefixes), 1e-5)
    assert not shared_prefix.is_shared(session._cache)
    again, prefixes = grown(lm)
    check(again.log_probs(), expected(lm, prefixes), 1e-5)
    assert not lm._shares


@pytest.mark.parametrize("what", ["half", "eager", "two prompts"])
def test_nothing_is_shared_where_it_is_not_known_to_be_right(what: str) -> None:
    lm = tiny("llama")
    if what == "half":
        lm.model.to(torch.bfloat16)
    elif what == "eager":
        lm.model.set_attn_implementation("eager")
    prompts = [PROMPT, PROMPT[::-1], PROMPT] if what == "two prompts" else [PROMPT] * 3
    session = lm.start(prompts)
    session.log_probs()
    session.advance([1, 2, 3])
    session.log_probs()
    assert not shared_prefix.is_shared(session._cache)  # type: ignore[attr-defined]


def test_the_model_is_left_as_it_was() -> None:
    lm = tiny("llama")
    grown(lm)[0].log_probs()
    assert lm.model.config._attn_implementation == "sdpa"
    with pytest.raises(RuntimeError, match="shapes"), shared_prefix.attention_to_prefixes(lm.model):
        torch.nn.Linear(3, 3)(torch.zeros(1, 4))
    assert lm.model.config._attn_implementation == "sdpa"

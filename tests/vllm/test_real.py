"""Real vLLM on a CPU as a language model for SMC; run by ``make test-vllm``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("vllm")

import pcgcd
from pcgcd.constraints import regex
from pcgcd.lm import VLLM, TransformersLM
from pcgcd.testing import LanguageModelLaws

MESSAGES = [{"role": "user", "content": "Tell me a story."}]


class TestLaws(LanguageModelLaws):
    """Every law of language models."""

    prompts = ((5,), (0, 7), (9, 8, 7, 6))
    num_steps = 2
    tolerance = 1e-3

    @pytest.fixture(autouse=True)
    def _made(self, lm: VLLM) -> None:
        self._lm = lm

    def create_language_model(self) -> VLLM:
        return self._lm


def test_rows_are_those_of_transformers(lm: VLLM, reference: TransformersLM) -> None:
    assert lm.vocabulary == reference.vocabulary
    prompt = reference.encode(MESSAGES)
    assert lm.encode(MESSAGES) == prompt
    prefixes = [prompt, (*prompt, 100), (*prompt, 100, 200, 5000), (1, 2, 3)]
    torch.testing.assert_close(
        lm.log_probs(prefixes), reference.log_probs(prefixes), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("seed", range(2))
def test_smc_has_the_same_texts_weights_and_evidence(
    lm: VLLM, reference: TransformersLM, seed: int
) -> None:
    options: dict[str, Any] = {"prompt": MESSAGES, "budget": 8, "particles": 4, "seed": seed}
    constraint = regex(r"[a-z]{3,6} (dog|cat)\.")
    found = pcgcd.generate(lm, constraint, **options)
    expected = pcgcd.generate(reference, constraint, **options)
    assert found.texts == expected.texts
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-3)
    assert list(found.weights) == pytest.approx(list(expected.weights), abs=1e-3)


def test_forks_are_read_from_the_prefix_cache(lm: VLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    generate = lm.llm.generate

    def noted(*args: Any, **kwargs: Any) -> Any:
        answers[:] = generate(*args, **kwargs)
        return answers

    monkeypatch.setattr(lm.llm, "generate", noted)
    prompt = tuple(range(500, 565))  # two blocks of 32 tokens and one token
    session = lm.start([prompt] * 2)
    session.log_probs()
    session.advance([11, 12])
    session.log_probs()
    session.reindex([0, 0, 0, 0])
    session.advance([21, 22, 23, 24])
    session.log_probs()
    assert [len(answer.prompt_token_ids) for answer in answers] == [67] * 4
    assert [answer.num_cached_tokens for answer in answers] == [64] * 4

"""Sampling for distillation with real vLLM: what it reports is what the model says."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

pytest.importorskip("vllm")

from pcgcd.learning.distillation.vllm_engine import VLLMEngine
from pcgcd.lm import TransformersLM
from tests.vllm.conftest import KEPT

LENGTH = 6


def check_answers(engine: Any, reference: TransformersLM) -> None:
    """Answers are the model's: their log-probabilities are those that transformers computes."""
    prompts = [reference.encode(words) for words in ("The dog", "A cat " * 12, "1, 2, 3,")] * 2
    tokens, log_probs = engine.answer(prompts, LENGTH, torch.empty(0), 5)
    end = reference.eos_ids[-1]
    for prompt, text, found in zip(prompts, tokens.tolist(), log_probs.tolist(), strict=True):
        ends = [i for i, token in enumerate(text) if token in reference.eos_ids]
        drawn = text[: ends[0] + 1] if ends else text
        assert set(text[len(drawn) :]) <= {end}
        rows = reference.log_probs([(*prompt, *drawn[:i]) for i in range(len(drawn))])
        expected = sum(float(row[token]) for row, token in zip(rows, drawn, strict=True))
        assert found == pytest.approx(expected, abs=1e-2)
    assert len({tuple(text) for text in tokens.tolist()}) > 3
    again, _ = engine.answer(prompts, LENGTH, torch.empty(0), 5)
    other, _ = engine.answer(prompts, LENGTH, torch.empty(0), 6)
    assert torch.equal(tokens, again)
    assert not torch.equal(tokens, other)


def test_vllm_answers_prompts_without_complaints(
    reference: TransformersLM, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 8}
    options |= {"max_model_len": 48, "max_num_batched_tokens": 48}  # not all prompts fit at once
    with caplog.at_level(logging.WARNING):
        logging.getLogger("vllm").addHandler(caplog.handler)
        engine = VLLMEngine(reference, distributed_executor_backend="uni", **options)
        KEPT.append(engine)
        check_answers(engine, reference)
        logging.getLogger("vllm").removeHandler(caplog.handler)
    assert [record for record in caplog.records if record.exc_info] == []
    assert "Traceback" not in caplog.text

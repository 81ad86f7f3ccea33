"""The adapter to vLLM, against a stand-in with its documented interface."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from pcgcd.errors import InvalidParameterError, MissingDependencyError
from pcgcd.learning import sample
from pcgcd.learning.distillation.vllm_engine import VLLMEngine
from tests.learning.worlds import table


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A vllm in which each answer repeats the prompt's last token as often as its seed says."""
    asked: list[Any] = []

    class LLM:
        def __init__(self, model: str, **options: Any) -> None:
            asked.append((model, options))

        def generate(self, prompts: list[Any], parameters: list[Any], use_tqdm: bool) -> list[Any]:
            asked.append((prompts, parameters))
            answers = []
            for prompt, wanted in zip(prompts, parameters, strict=True):
                token = prompt["prompt_token_ids"][-1]
                count = wanted.seed % 4
                ids = ([token] * count + [wanted.stop_token_ids[-1]])[: wanted.max_tokens]
                output = SimpleNamespace(token_ids=ids, cumulative_logprob=-float(len(ids)))
                answers.append(SimpleNamespace(outputs=[output]))
            return answers

    module: Any = ModuleType("vllm")
    module.LLM = LLM
    module.SamplingParams = SimpleNamespace
    platforms: Any = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: True)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    return asked


def test_answers_are_padded_and_asked_for_at_temperature_one(
    stand_in: list[Any], tmp_path: Path
) -> None:
    lm = table()
    engine = VLLMEngine(lm, "some/model", dtype="float16")
    options: dict[str, Any] = {"samples": 40, "length": 3, "shard_size": 20, "engine": engine}
    samples = sample(lm, [(0,), (1,)], folder=tmp_path / "a", **options)
    assert stand_in[0] == ("some/model", {"enable_chunked_prefill": False, "dtype": "float16"})
    for row, text in enumerate(samples.tokens.tolist()):
        token = row % 2
        assert text in ([4] * 3, [token, 4, 4], [token, token, 4], [token] * 3)
        assert float(samples.log_probs[row]) == -float(samples.num_tokens[row])
    assert samples.manifest.engine == "vllm"
    wanted = stand_in[1][1]
    assert len({parameters.seed for parameters in wanted}) == len(wanted)
    assert all(parameters.temperature == 1.0 for parameters in wanted)
    again = sample(lm, [(0,), (1,)], folder=tmp_path / "b", **options)
    assert torch.equal(samples.tokens, again.tokens)


def test_a_model_from_nowhere_is_refused(stand_in: list[Any]) -> None:
    with pytest.raises(InvalidParameterError, match="folder or hub id"):
        VLLMEngine(table())


def test_without_vllm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingDependencyError, match="pip install vllm"):
        VLLMEngine(table(), "some/model")

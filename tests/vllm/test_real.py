"""Real vLLM on a CPU: the language model and the logits processor; run by ``make test-vllm``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

vllm = pytest.importorskip("vllm")

import pcgcd  # noqa: E402
from pcgcd.constraints import regex  # noqa: E402
from pcgcd.lm import VLLM, TransformersLM, default, default_model  # noqa: E402
from pcgcd.testing import LanguageModelLaws  # noqa: E402
from tests.vllm.processor import Processor  # noqa: E402

MESSAGES = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture(scope="session")
def reference() -> TransformersLM:
    if default.packaged_file() is None:
        pytest.skip(f"{default.PACKAGE} is not installed")
    return default_model()


@pytest.fixture(scope="session")
def lm(reference: TransformersLM) -> VLLM:
    folder = str(Path(reference.model.config._name_or_path))
    Processor.tokenizer = folder  # vLLM is in this process, and imports the same class
    return VLLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=16,
        distributed_executor_backend="uni",
        logits_processors=["tests.vllm.processor:Processor"],
    )


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
    options: dict[str, Any] = {"prompt": MESSAGES, "budget": 10, "particles": 4, "seed": seed}
    constraint = regex(r"[a-z]{3,8} (dog|cat)\.")
    found = pcgcd.generate(lm, constraint, **options)
    expected = pcgcd.generate(reference, constraint, **options)
    assert found.texts == expected.texts
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-3)
    assert list(found.weights) == pytest.approx(list(expected.weights), abs=1e-3)


def test_several_constraints_share_a_batch(lm: VLLM) -> None:
    wanted = ["[0-9]{4}-[0-9]{2}", "(yes|no)", "[a-z]{2,5}\\.", None]
    asked = [
        vllm.SamplingParams(
            max_tokens=8,
            temperature=1.0,
            seed=row,
            extra_args=None if pattern is None else {"pcgcd_regex": pattern},
        )
        for row, pattern in enumerate(wanted * 3)
    ]
    prompts = [{"prompt_token_ids": list(lm.encode("When? "))}] * len(asked)
    for _ in range(2):  # no state of the first batch is left for the second
        answers = lm.llm.generate(prompts, asked, use_tqdm=False)
        for answer, pattern in zip(answers, wanted * 3, strict=True):
            if pattern is not None:
                assert re.fullmatch(pattern, answer.outputs[0].text)


def test_a_request_that_cannot_be_fulfilled_is_refused(lm: VLLM) -> None:
    asked = vllm.SamplingParams(max_tokens=2, extra_args={"pcgcd_regex": "[a-z]{300}"})
    with pytest.raises(Exception, match="tokens"):
        lm.llm.generate([{"prompt_token_ids": [1, 2]}], asked, use_tqdm=False)

"""Sampling with vLLM, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError
from pcgcd.learning.distillation.answers import padded_answer, row_seed
from pcgcd.lm.vllm_lm import load_llm

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel


def is_installed() -> bool:
    """Return whether vLLM can be imported; it is not imported for this."""
    return find_spec("vllm") is not None


class VLLMEngine:
    """Answers prompts with vLLM's offline interface. Its draws are its own, by seed.

    Attributes:
        name: What the manifest says.
        llm: The ``vllm.LLM``.
    """

    name = "vllm"

    def __init__(self, lm: LanguageModel, model: str | None = None, **options: Any) -> None:
        """Load a model.

        Args:
            lm: The same model here: its vocabulary says what ends a text.
            model: Its folder or hub id; by default where ``lm`` was loaded from.
            options: More arguments for ``vllm.LLM``.

        Raises:
            MissingDependencyError: vLLM is not installed.
        """
        vllm = package("vllm", "sampling with vLLM", "sample without it")
        if model is None:
            loaded: Any = getattr(lm, "model", None)
            model = str(getattr(getattr(loaded, "config", None), "_name_or_path", "") or "")
        if not model:
            raise InvalidParameterError(
                "vLLM loads models by themselves, but where this one comes from is not known; give "
                "its folder or hub id"
            )
        self._parameters = vllm.SamplingParams
        self._eos_ids = lm.vocabulary.eos_ids
        self._width = lm.vocabulary.logits_size
        if package("vllm.platforms", "sampling with vLLM").current_platform.is_cpu():
            # On a CPU vLLM 0.32 stops at a seed where the prompt is read in parts.
            options = {"enable_chunked_prefill": False} | options
        self.llm = load_llm(model, **options)

    def answer(
        self, prompts: Sequence[tuple[int, ...]], length: int, uniform: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """See :class:`~pcgcd.learning.distillation.sampling.Engine`."""
        parameters = [
            self._parameters(
                temperature=1.0,
                top_p=1.0,
                max_tokens=length,
                seed=row_seed(seed, row),
                logprobs=0,
                ignore_eos=True,
                stop_token_ids=list(self._eos_ids),
                detokenize=False,
            )
            for row in range(len(prompts))
        ]
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        answers = self.llm.generate(asked, parameters, use_tqdm=False)
        tokens = torch.empty(len(prompts), length, dtype=torch.int32)
        log_probs = torch.zeros(len(prompts))
        for row, answer in enumerate(answers):
            output = answer.outputs[0]
            tokens[row] = padded_answer(
                [int(token) for token in output.token_ids],
                length,
                self._eos_ids,
                self._width,
                "vLLM",
            )
            log_probs[row] = float(output.cumulative_logprob)
        return tokens, log_probs

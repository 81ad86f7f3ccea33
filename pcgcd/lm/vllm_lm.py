"""Language models that vLLM computes: the way to large models, several GPUs and machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError
from pcgcd.lm.base import check_length, check_not_empty
from pcgcd.lm.chats import TokenizerLM


class VLLM(TokenizerLM):
    """A causal language model computed by vLLM's offline ``LLM``.

    Each step asks vLLM for the distribution after whole prefixes, each different one once. Its
    automatic prefix caching remembers what they share, so that a particle that was copied by
    resampling costs one token, not its whole text. Tensor and data parallelism are vLLM's own
    options.

    Attributes:
        llm: The ``vllm.LLM``.
        tokenizer: Its tokenizer.
        vocabulary: The bytes of each token, and which tokens end a text.
    """

    def __init__(
        self,
        model: str | PathLike[str] | Any,
        *,
        eos_ids: int | Iterable[int] | None = None,
        **options: Any,
    ) -> None:
        """Load a model, or take one that is loaded.

        Args:
            model: A folder or hub id, or a ``vllm.LLM`` that was made with
                ``enable_prefix_caching=True`` and ``max_logprobs=-1``.
            eos_ids: The tokens that end a text; by default what the tokenizer and the model's
                generation config say.
            options: More arguments for ``vllm.LLM``, such as ``dtype``, ``tensor_parallel_size``.

        Raises:
            MissingDependencyError: vLLM is not installed.
        """
        vllm = package("vllm", "VLLM", "use TransformersLM")
        if isinstance(model, str | PathLike):
            options = {"enable_prefix_caching": True, "max_logprobs": -1} | options
            if package("vllm.platforms", "VLLM").current_platform.is_cpu():
                # Only whole blocks are shared, and there they have 128 tokens unless it is said.
                options = {"block_size": 32} | options
            model = load_llm(str(model), **options)
        elif options:
            raise InvalidParameterError(
                f"options are for loading a model, but one that is loaded was given with {options}"
            )
        self.llm = model
        self.tokenizer = self.llm.get_tokenizer()
        config = self.llm.llm_engine.model_config
        self.max_length = int(config.max_model_len)
        self.vocabulary = Vocabulary.from_tokenizer(
            self.tokenizer,
            eos_ids=eos_ids,
            logits_size=int(config.get_vocab_size()),
            generation_config=config.try_get_generation_config(),
        )
        # All of the distribution after a prompt, before any temperature; one token is drawn, and
        # thrown away.
        self._asked = vllm.SamplingParams(
            max_tokens=1, temperature=0.0, logprobs=-1, flat_logprobs=True, detokenize=False
        )

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return torch.device("cpu")

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """See :class:`LanguageModel`."""
        checked = self._checked_prompts(prefixes)
        different = list(dict.fromkeys(checked))
        asked = [{"prompt_token_ids": list(prefix)} for prefix in different]
        with _whole_lists():
            answers = self.llm.generate(asked, self._asked, use_tqdm=False) if asked else []
        rows = {
            prefix: self._row(answer) for prefix, answer in zip(different, answers, strict=True)
        }
        return torch.stack([rows[p] for p in checked]) if checked else torch.empty(0, self._width)

    def _row(self, answer: Any) -> Tensor:
        found = answer.outputs[0].logprobs
        ids = torch.from_numpy(np.array(found.token_ids))
        values = torch.from_numpy(np.array(found.logprobs, dtype=np.float32))
        row = torch.full((self._width,), -torch.inf)
        row[ids] = values
        if len(ids) < self._width:
            raise InvalidParameterError(
                f"vLLM returned {len(ids)} of {self._width} log-probabilities; make the LLM with "
                "max_logprobs=-1"
            )
        return row.log_softmax(-1)

    def _checked_prompts(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        checked = super()._checked_prompts(prompts)
        check_not_empty(checked, "vLLM", getattr(self.tokenizer, "bos_token_id", None))
        for prompt in checked:
            check_length(len(prompt) + 1, self.max_length)
        return checked

    def __repr__(self) -> str:
        config = self.llm.llm_engine.model_config
        dtype = str(config.dtype).removeprefix("torch.")
        return f"VLLM({config.model!r}, {dtype}, {self.vocabulary!r})"


def load_llm(model: str, **options: Any) -> Any:
    """A ``vllm.LLM``, also where modules are loaded that vLLM stumbles over."""
    vllm = package("vllm", "VLLM")
    with _llvmlite_can_be_looked_at():
        return vllm.LLM(model=model, **options)


@contextmanager
def _whole_lists() -> Iterator[None]:
    """Let vLLM collect distributions list by list.

    Version 0.32 does it number by number, which for a whole vocabulary takes longer than the model.
    """
    kind: Any = package("vllm.logprobs", "VLLM").FlatLogprobs
    before = getattr(kind, "append_fast", None)
    if before is None:
        yield
        return

    def append(self: Any, ids: Any, log_probs: Any, ranks: Any, decoded: Any) -> None:
        count = len(log_probs)
        self.start_indices.append(len(self.logprobs))
        self.token_ids.extend(ids)
        self.logprobs.extend(log_probs)
        self.ranks.extend(islice(ranks, count))
        self.decoded_tokens.extend(islice(decoded, count))
        self.end_indices.append(len(self.logprobs))

    kind.append_fast = append
    try:
        yield
    finally:
        kind.append_fast = before


@contextmanager
def _llvmlite_can_be_looked_at() -> Iterator[None]:
    """Let vLLM look at all attributes of all modules, as it does on a CPU when it starts.

    llvmlite has an object that answers with a function whatever it is asked for, its ``__dict__``
    included, and vLLM 0.32 stops there.
    """
    found = sys.modules.get("llvmlite.binding.ffi")
    kind: Any = getattr(found, "_lib_wrapper", None)
    answer = getattr(kind, "__getattr__", None)
    if answer is None:
        yield
        return

    def careful(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return answer(self, name)

    kind.__getattr__ = careful
    try:
        yield
    finally:
        kind.__getattr__ = answer

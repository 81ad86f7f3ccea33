"""What the tests against real vLLM share: the default model's folder, and two engines with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pcgcd.lm import VLLM, TransformersLM, default, default_model

# It can be imported only where vLLM is.
collect_ignore = ["processor.py"]
# An engine that goes takes what all engines of a process share with it.
KEPT: list[Any] = []
PROCESSOR = "tests.vllm.processor:Processor"


@pytest.fixture(scope="session")
def reference() -> TransformersLM:
    """The default model, computed by transformers."""
    if default.packaged_file() is None:
        pytest.skip(f"{default.PACKAGE} is not installed")
    return default_model()


@pytest.fixture(scope="session")
def folder(reference: TransformersLM) -> str:
    return str(reference.model.config._name_or_path)


@pytest.fixture(scope="session")
def make(folder: str) -> Callable[..., VLLM]:
    """Load the default model into vLLM, in this process, with the processor of the tests."""
    from tests.vllm.processor import Processor

    Processor.tokenizer = folder  # vLLM is in this process, and imports the same class

    def made(**options: Any) -> VLLM:
        lm = VLLM(
            folder,
            dtype="float32",
            enforce_eager=True,
            distributed_executor_backend="uni",
            disable_log_stats=False,
            block_size=32,
            logits_processors=[PROCESSOR],
            **options,
        )
        KEPT.append(lm)
        return lm

    return made


@pytest.fixture(scope="session")
def lm(make: Callable[..., VLLM]) -> VLLM:
    return make(max_model_len=512, max_num_seqs=16)


def counter(lm: VLLM, name: str) -> int:
    """One of vLLM's counters, such as ``prefix_cache_hits``."""
    return sum(int(m.value) for m in lm.llm.get_metrics() if m.name == f"vllm:{name}")

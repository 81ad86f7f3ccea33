"""The logits processor of the tests, which vLLM imports by its name."""

from __future__ import annotations

from pcgcd.integrations.vllm import ConstrainedLogitsProcessor


class Processor(ConstrainedLogitsProcessor):
    """GCD; the tests say which tokenizer."""

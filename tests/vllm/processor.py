"""The logits processor of the tests, which vLLM imports by its name."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from pcgcd.hmm.default import DEFAULT_FOLDER
from pcgcd.integrations.vllm import ConstrainedLogitsProcessor


class Processor(ConstrainedLogitsProcessor):
    """GCD, or P-GCD with the default HMM; the tests say which tokenizer, and see each instance."""

    tokenizer = os.environ.get("PCGCD_TEST_MODEL")
    hmm = DEFAULT_FOLDER
    made: ClassVar[list[Any]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made.append(self)

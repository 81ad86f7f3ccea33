"""pcgcd inside other libraries.

:mod:`pcgcd.integrations.transformers` has logits processors for ``model.generate``,
:mod:`pcgcd.integrations.genlm` has potentials and token samplers for genlm-control, and
:mod:`pcgcd.integrations.vllm` has a logits processor for vLLM. None of them imports the other
library before it is used.
"""

from __future__ import annotations

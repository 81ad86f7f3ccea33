"""The product ``hmm * fa``, token by token: what decoders ask at every step, exactly and fast."""

from __future__ import annotations

from pcgcd.engine.product import ProductEngine
from pcgcd.engine.state import ProductState, start_batch

__all__ = ["ProductEngine", "ProductState", "start_batch"]

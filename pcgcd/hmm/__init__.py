"""Hidden Markov models."""

from __future__ import annotations

from pcgcd.hmm.hmm import HMM, MonarchHMM

__all__ = ["HMM", "MonarchHMM"]

"""Hidden Markov models: circuits for every length, and their files."""

from __future__ import annotations

from pcgcd.hmm.absorbing import absorbing
from pcgcd.hmm.copying import Copying
from pcgcd.hmm.default import default_hmm
from pcgcd.hmm.files.checkpoints import load_hmm
from pcgcd.hmm.files.hub import push_to_hub
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.model import HiddenMarkovModel

__all__ = [
    "HMM",
    "Copying",
    "HiddenMarkovModel",
    "MonarchHMM",
    "absorbing",
    "default_hmm",
    "load_hmm",
    "push_to_hub",
]

"""Hidden Markov models: circuits for every length, their fitting, and their files."""

from __future__ import annotations

from pcgcd.hmm.absorbing import absorbing
from pcgcd.hmm.checkpoints import load_hmm
from pcgcd.hmm.copying import Copying
from pcgcd.hmm.default import default_hmm
from pcgcd.hmm.fit import fit
from pcgcd.hmm.hmm import HMM, MonarchHMM

__all__ = ["HMM", "Copying", "MonarchHMM", "absorbing", "default_hmm", "fit", "load_hmm"]

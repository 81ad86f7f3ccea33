"""The HMM to start with: small, and distilled from the default language model."""

from __future__ import annotations

from pathlib import Path

from pcgcd.errors import CheckpointError
from pcgcd.hmm.files.checkpoints import load_hmm
from pcgcd.hmm.model import HiddenMarkovModel

DEFAULT_FOLDER = Path(__file__).parent / "data" / "smollm2-135m-instruct"


def default_hmm() -> HiddenMarkovModel:
    """Load the HMM distilled from SmolLM2-135M-Instruct, for function calls and short sentences.

    It comes with the package; its ``config.json`` says how it was made.

    Raises:
        CheckpointError: The installed package is incomplete.
    """
    if not DEFAULT_FOLDER.is_dir():
        raise CheckpointError(
            f"the default HMM should be in {DEFAULT_FOLDER}, but is not there; install pcgcd "
            "again, or give an HMM of your own (hmm=)"
        )
    return load_hmm(DEFAULT_FOLDER)

"""What an installed pcgcd must be able to do, with nothing but its requirements.

Run as a script, in a folder that is not the project's: ``python tests/smoke.py``. With a folder as
argument, only the quick checks are made, and pcgcd must have been imported from there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import torch

import pcgcd
from pcgcd import HMM, FiniteAutomaton, Vocabulary, default_hmm, generate
from pcgcd.constraints import json_schema
from pcgcd.lm import HMMLanguageModel


def check(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"smoke test failed: {what}")
    print(f"ok: {what}")


def main(folder: str | None) -> None:
    home = Path(pcgcd.__file__).resolve().parent
    if folder is not None:
        check(home.parent == Path(folder).resolve(), f"pcgcd comes from {folder}, not {home}")
    check(metadata.version("pcgcd") == pcgcd.__version__, "the metadata has the version")
    check((home / "py.typed").is_file(), "the types are announced")
    command = [sys.executable, "-m", "pcgcd", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    check(said.strip() == f"pcgcd {pcgcd.__version__}", "pcgcd --version")

    hmm = HMM.random(num_hidden=4, vocab_size=3, generator=torch.Generator().manual_seed(0))
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 0, {0}), (0, 1, {1})]
    )
    words = torch.tensor([[0, 0, 1]])
    product = (hmm * fa).log_partition(length=3)
    check(bool(torch.isclose(product, hmm.log_prob(words)[0])), "hmm * fa has the word's weight")

    hmm = default_hmm()
    check(hmm.vocab_size == 49152, "the default HMM is there")


def generates() -> None:
    """The first call compiles kernels, which takes a while."""
    tokens = [*(bytes([byte]) for byte in range(256)), None]
    vocabulary = Vocabulary.from_bytes(tokens, eos_ids=256)
    schema = {"enum": [True, None, 12]}
    lm = HMMLanguageModel(HMM.random(num_hidden=4, vocab_size=257), vocabulary)
    result = generate(lm, json_schema(schema), budget=6, particles=4, method="gcd", seed=0)
    check(set(result.texts) <= {"true", "null", "12"}, f"{result.texts} satisfy the schema")

    with tempfile.TemporaryDirectory() as place:
        picture = Path(place) / "picture.svg"
        options = ["--regex", "ab*", "--picture", str(picture)]
        arguments = [sys.executable, "-m", "pcgcd", "compile", *options]
        subprocess.run(arguments, capture_output=True, check=True, timeout=300)
        check(picture.stat().st_size > 0, "pcgcd compile draws")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
    if len(sys.argv) == 1:
        generates()

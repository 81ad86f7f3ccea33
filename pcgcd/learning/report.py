"""What a distillation says about itself: bits per token, versions, a curve."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torch import Tensor

from pcgcd import __version__
from pcgcd.basics.files import write_text
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.learning.distillation.shards import SampleSet
from pcgcd.learning.em.fit import log_likelihood_per_token
from pcgcd.learning.em.ngrams import ngram_log_likelihood
from pcgcd.learning.results import FitResult

_PACKAGES = ("torch", "transformers", "scikit-learn", "pyjuice", "vllm")


def compare(
    hmm: HiddenMarkovModel, samples: SampleSet, training: Tensor, held_out: Tensor
) -> dict[str, float]:
    """Held-out bits per token of the HMM, the language model and a bigram model.

    The language model's are its entropy where the samples are its own. Samples under a constraint
    come from another distribution, so for these it is only what the model alone thinks of them.
    """
    if not len(held_out):
        return {}
    tokens, constrained = samples.tokens, samples.constrained
    parts = {"": held_out}
    if bool(constrained[held_out].any()) and not bool(constrained[held_out].all()):
        parts |= {
            " (unconstrained)": held_out[~constrained[held_out]],
            " (constrained)": held_out[constrained[held_out]],
        }
    eos_ids = samples.manifest.eos_ids
    bits: dict[str, float] = {}
    for name, rows in parts.items():
        nats = {
            "hmm": -log_likelihood_per_token(hmm, tokens[rows]),
            "language model": samples.nats_per_token(rows),
            "bigram": -ngram_log_likelihood(
                tokens[training], tokens[rows], hmm.vocab_size, order=2, eos_ids=eos_ids
            ),
        }
        bits |= {who + name: value / math.log(2) for who, value in nats.items()}
    return bits


def versions() -> dict[str, str]:
    """Of Python and of the packages that decide the result, as far as they are installed."""
    found = {"python": platform.python_version(), "pcgcd": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_report(
    folder: Path, facts: Mapping[str, Any], result: FitResult[Any], bits: Mapping[str, float]
) -> None:
    """Write ``report.json`` and ``curve.png``."""
    history = [asdict(entry) for entry in result.history]
    report = {**facts, "history": history, "start_held_out": result.start_held_out}
    write_text(folder / "report.json", json.dumps(report, indent=2, default=str) + "\n")
    if not result.history:
        return
    from pcgcd.viz import save

    references = {name: bits[name] for name in ("language model", "bigram") if name in bits}
    if "hmm, not smoothed" in bits:
        references["hmm, smoothed"] = bits["hmm"]
    save(result.plot(references), folder / "curve.png")

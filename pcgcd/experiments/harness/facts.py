"""What a table needs beside its numbers: versions, the machine, the models and where they are from.

Nothing here names a path or a host.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pcgcd import __version__
from pcgcd.hmm.files.checkpoints import read_info

_PACKAGES = ("torch", "numpy", "transformers", "llama_cpp_python", "sacrebleu")
_PIECE = 1 << 20
_BITS = ("hmm", "hmm, given the prompt", "bigram", "language model")

MEASURED = "difference from transformers in float32"
"""What each machine measures for itself, and so does not decide which journals belong together."""


def versions() -> dict[str, str]:
    """Return the versions of this library and of what it ran with."""
    found = {"pcgcd": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return the processor, without the machine's name."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": named[0] if named else processor,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def described(path: Path) -> dict[str, str]:
    """Return the name of a file, or of a folder's weights, and the sha256 of its content."""
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    found = {"name": path.name}
    if files:
        found["sha256"] = digest.hexdigest()
    return found


def described_hmm(path: Path) -> dict[str, Any]:
    """Describe an HMM's folder likewise, and how well it predicts its language model."""
    facts = read_info(path).facts if (path / "config.json").is_file() else {}
    bits = {
        name: round(value, 3)
        for name, value in facts.get("bits_per_token", {}).items()
        if name in _BITS
    }
    drawn = facts.get("samples", {}).get("samples")
    found: dict[str, Any] = described(path)
    return found | ({"samples": drawn} if drawn else {}) | ({"bits a token": bits} if bits else {})


def lasting(head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a journal as it is read, without what is measured on each machine anew."""
    found: dict[str, Any] = json.loads(json.dumps(head))
    found.get("facts", {}).get("model", {}).pop(MEASURED, None)
    return found

"""What a table needs beside its numbers: versions, the machine, the models and where they are from.

Nothing here names a path or a host.
"""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from pcgcd import __version__

_PACKAGES = ("torch", "numpy", "transformers", "llama_cpp_python", "sacrebleu")
_PIECE = 1 << 20


def versions() -> dict[str, str]:
    """The versions of this library and of what it ran with."""
    found = {"pcgcd": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The processor, without the machine's name."""
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
    """The name of a file, or of a folder's weights, and the sha256 of its content."""
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

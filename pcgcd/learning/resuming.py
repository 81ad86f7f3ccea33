"""What makes an interrupted run the same run when it goes on: settings and seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pcgcd.errors import CheckpointError


def check_same(
    there: Mapping[str, Any], here: Mapping[str, Any], folder: Path | str, holds: str
) -> None:
    """Check that a folder holds what is asked for, not ``holds`` (such as "another fit")."""
    differing = [name for name in here if here[name] != there.get(name)]
    if differing:
        shown = ", ".join(f"{n} (there {there.get(n)}, here {here[n]})" for n in differing)
        raise CheckpointError(
            f"{folder} holds {holds}: {shown}; give another folder, or the same settings to go on "
            "with it"
        )


def seed_of(*names: int | str) -> int:
    """Return a seed that depends on these names only."""
    digest = hashlib.sha256(" ".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:7], "little")


def generator_of(*names: int | str) -> torch.Generator:
    """Return a generator that depends on these names only."""
    return torch.Generator().manual_seed(seed_of(*names))

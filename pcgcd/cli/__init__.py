"""The command line."""

from __future__ import annotations

from pcgcd.cli.main import main

__all__ = ["main"]

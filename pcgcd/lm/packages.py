"""Packages that only some language models need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pcgcd.errors import MissingDependencyError

__all__ = ["package"]

_REQUIREMENTS = {"transformers": "transformers>=5.22"}


def package(name: str, purpose: str) -> Any:
    """An optional package (or a module of one), imported now.

    Args:
        name: The module.
        purpose: What needs it, for the error's sentence.

    Raises:
        MissingDependencyError: It is not installed, or something that it needs is not.
    """
    try:
        return import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise MissingDependencyError(
            f"{purpose} needs the package {top}, which cannot be imported ({error}); run "
            f"pip install '{_REQUIREMENTS.get(top, top)}'"
        ) from error

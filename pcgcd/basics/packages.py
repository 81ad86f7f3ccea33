"""Packages that only some parts of the library need."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Any

from pcgcd.errors import MissingDependencyError

# What to install for a module, where that is not its own name.
_REQUIREMENTS = {
    "genlm": "genlm-control>=0.4.1",
    "llama_cpp": "llama-cpp-python>=0.3.36",
    "sklearn": "scikit-learn",
    "transformers": "transformers>=5.22",
}


def package(name: str, purpose: str, otherwise: str = "") -> Any:
    """Import an optional package (or a module of one) now.

    Args:
        name: The module.
        purpose: What needs it, for the error's sentence.
        otherwise: What else can be done about it, to follow "or".

    Raises:
        MissingDependencyError: It is not installed, or something that it needs is not.

    >>> package("no_such_package", "this example", "leave it out")
    Traceback (most recent call last):
    pcgcd.errors.MissingDependencyError: this example needs the package no_such_package, which is \
not installed; run pip install no_such_package, or leave it out
    """
    try:
        return import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        wanted = _REQUIREMENTS.get(top, top)
        absent = isinstance(error, ModuleNotFoundError) and error.name in (top, name)
        found = "is not installed" if absent else f"cannot be imported ({error})"
        raise MissingDependencyError(
            f"{purpose} needs the package {wanted.partition('>')[0]}, which {found}; run pip "
            f"install {shlex.quote(wanted)}" + (f", or {otherwise}" if otherwise else "")
        ) from error

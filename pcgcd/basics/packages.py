"""Packages that only some parts of the library need."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from typing import Any

from pcgcd.errors import MissingDependencyError

# What to install for a module, where that is not its own name.
_REQUIREMENTS = {
    "genlm": "genlm-control>=0.4.1",
    "llama_cpp": "llama-cpp-python>=0.3.36",
    "pyjuice": "pcgcd[pyjuice]",
    "sklearn": "scikit-learn",
    "transformers": "transformers>=4.57.1",
}


# Older ones fail, or worse: they compute something else without a word.
_OLDEST = {"torch": (2, 6), "transformers": (4, 57, 1)}


def check_version(module: Any) -> None:
    """Check that a package is not older than what this library works with.

    Raises:
        MissingDependencyError: It is too old; the message names both versions.
    """
    name = module.__name__
    oldest = _OLDEST.get(name)
    if oldest is None:
        return
    found = str(getattr(module, "__version__", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    if len(numbers) > 1 and numbers < oldest:
        wanted = f"{name}>={'.'.join(map(str, oldest))}"
        raise MissingDependencyError(
            f"pcgcd needs {wanted}, but {name} {found} is installed, with which it does not work; "
            f"run pip install {shlex.quote(wanted)}"
        )


def package(name: str, purpose: str, otherwise: str = "") -> Any:
    """Import an optional package (or a module of one) now.

    Args:
        name: The module.
        purpose: What needs it, for the error's sentence.
        otherwise: What else can be done about it, to follow "or".

    Raises:
        MissingDependencyError: It is not installed, or too old, or something that it needs is not
            installed.

    >>> package("no_such_package", "this example", "leave it out")
    Traceback (most recent call last):
    pcgcd.errors.MissingDependencyError: this example needs the package no_such_package, which is \
not installed; run pip install no_such_package, or leave it out
    """
    try:
        module = import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        wanted = _REQUIREMENTS.get(top, top)
        absent = isinstance(error, ModuleNotFoundError) and error.name in (top, name)
        found = "is not installed" if absent else f"cannot be imported ({error})"
        raise MissingDependencyError(
            f"{purpose} needs the package {_name(wanted)}, which {found}; run pip "
            f"install {shlex.quote(wanted)}" + (f", or {otherwise}" if otherwise else "")
        ) from error
    check_version(module)
    return module


def _name(requirement: str) -> str:
    """The package that a requirement names; an extra of ours is called as the package is."""
    extra = re.fullmatch(r"pcgcd\[(\w+)\]", requirement)
    return extra[1] if extra else requirement.partition(">")[0]

"""Every public name says what it does; a method that overrides another may leave that to it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cached_property

import pytest

import pcgcd

# What needs a package that is not installed everywhere, or a compiler, is read as text elsewhere.
OPTIONAL = ("pcgcd.engine.backends.triton", "pcgcd.__main__")
MODULES = [
    found.name
    for found in pkgutil.walk_packages(pcgcd.__path__, "pcgcd.")
    if not found.name.startswith(OPTIONAL)
]


@pytest.mark.parametrize("name", MODULES)
def test_public_methods_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    for kind in vars(module).values():
        if not inspect.isclass(kind) or kind.__module__ != name or kind.__name__.startswith("_"):
            continue
        for method, value in vars(kind).items():
            if method.startswith("_"):
                continue
            plain = getattr(value, "__func__", value)
            if callable(plain) or isinstance(plain, property | cached_property):
                said = [vars(base)[method].__doc__ for base in kind.__mro__ if method in vars(base)]
                assert any(said), f"{name}.{kind.__name__}.{method} has no docstring"

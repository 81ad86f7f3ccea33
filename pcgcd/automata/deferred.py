"""Functions of a module as methods of a class; the module is imported when one is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class MethodsOf:
    """A stand-in for a module in the body of a class: ``union = algebra.union`` is a method.

    The method is the function itself, with its signature and its docstring.
    """

    module: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Method(self.module, name)


@dataclass(frozen=True)
class _Method:
    module: str
    name: str

    def __get__(self, instance: object, owner: type) -> Any:
        return getattr(import_module(self.module), self.name).__get__(instance, owner)

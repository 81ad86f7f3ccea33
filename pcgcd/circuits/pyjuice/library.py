"""What the bridge needs of pyjuice: the module itself, imported late, and a walk over a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pcgcd.basics.packages import package

__all__ = ["bottom_up", "load_pyjuice"]


def load_pyjuice() -> Any:
    """The pyjuice module. Importing it takes seconds, so nothing else here does.

    Raises:
        MissingDependencyError: It is not installed, or something that it needs is not.
    """
    return package("pyjuice", "the bridge (on Linux, where triton has wheels)")


def bottom_up(root: Any) -> list[Any]:
    """All nodes, children first. The iterator of pyjuice recurses, and deep chains are deep."""
    order: list[Any] = []
    done: set[Any] = set()
    stack: list[tuple[Any, Iterator[Any]]] = [(root, iter(root.chs))]
    while stack:
        node, children = stack[-1]
        for child in children:
            if child not in done:
                stack.append((child, iter(child.chs)))
                break
        else:
            stack.pop()
            if node not in done:
                done.add(node)
                order.append(node)
    return order

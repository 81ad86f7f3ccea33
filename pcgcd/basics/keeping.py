"""Things that are made once for an object, and forgotten with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def kept_with(owner: object, name: str, make: Callable[[], T]) -> T:
    """What an object keeps under a name; made when it is first asked for.

    >>> class Owner: ...
    >>> owner = Owner()
    >>> kept_with(owner, "_list", list) is kept_with(owner, "_list", list)
    True
    """
    store = vars(owner)
    if name not in store:
        store[name] = make()
    found: T = store[name]
    return found

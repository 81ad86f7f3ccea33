"""Values that do not change once they are made."""

from __future__ import annotations


class Frozen:
    """Every attribute can be set once: what was computed from it stays true.

    >>> class Pair(Frozen):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> pair = Pair(1, 2)
    >>> pair.a = 3
    Traceback (most recent call last):
    AttributeError: a Pair does not change: 'a' is set already; make a new one
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(
                f"a {type(self).__name__} does not change: {name!r} is set already; make a new one"
            )
        super().__setattr__(name, value)

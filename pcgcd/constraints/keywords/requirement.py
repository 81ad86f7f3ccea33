"""How often concepts must occur."""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """How often a concept must occur: at least, and at most (None: any number)."""

    least: int
    most: int | None

    @property
    def highest(self) -> int:
        """The count above which nothing changes, or after which the text is lost."""
        return self.least if self.most is None else self.most

"""The states of token histories, for libraries that hand over whole texts at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pcgcd.engine import PrefixState

History: TypeAlias = "tuple[int, tuple[int, ...]]"
"""The number of a constraint, and the tokens generated under it."""

_CAPACITY = 64


class Histories:
    """Finds the state of a history from that of the longest beginning seen before.

    Rows that are re-ordered, repeated or dropped between two steps need no notice: a history is
    found by its tokens. Those seen longest ago are forgotten; they can be read again.

    Attributes:
        start: The empty prefix of each constraint, one row each.
    """

    def __init__(self, start: PrefixState) -> None:
        self.start = start
        self._known: dict[History, tuple[PrefixState, int]] = {}

    def find(self, histories: Sequence[History]) -> list[tuple[PrefixState, list[int]]]:
        """The states of histories, in batches.

        Returns:
            Pairs of some prefixes and, for each of their rows, its place in ``histories``. In step
            after step of one generation there is one pair.
        """
        groups: dict[tuple[int, int], tuple[PrefixState, list[int], list[int]]] = {}
        for place, (number, tokens) in enumerate(histories):
            batch, row, length = self._longest(number, tokens)
            key = (id(batch), len(tokens) - length)
            _, rows, places = groups.setdefault(key, (batch, [], []))
            rows.append(row)
            places.append(place)
        result = []
        for (_, missing), (batch, rows, places) in groups.items():
            state = batch.select(rows)
            for back in range(missing, 0, -1):
                state = state.advance([histories[place][1][-back] for place in places])
            result.append((state, places))
        self._remember(histories, result)
        return result

    def _longest(self, number: int, tokens: tuple[int, ...]) -> tuple[PrefixState, int, int]:
        for length in range(len(tokens), 0, -1):
            found = self._known.get((number, tokens[:length]))
            if found is not None:
                return *found, length
        return self.start, number, 0

    def _remember(
        self, histories: Sequence[History], found: list[tuple[PrefixState, list[int]]]
    ) -> None:
        for state, places in found:
            for row, place in enumerate(places):
                self._known.pop(histories[place], None)
                self._known[histories[place]] = (state, row)
        for history in list(self._known)[: -_CAPACITY - 4 * len(histories)]:
            del self._known[history]

"""Backward messages of a large automaton: only those that prefixes need, and few of them kept.

Messages for r tokens need those for r - 1 tokens of the states that one token leads to, and so on:
a cone of states. As a text goes on the cone shrinks, since what was written decides much of what
can still come. Of the levels in between some are kept, and the others are computed again from
these when decoding comes to them: halves of halves, as in the checkpoints of Griewank (1992),
"Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from time import monotonic
from typing import Any, TypeAlias
from weakref import WeakSet, ref

import numpy as np

from pcgcd.basics.keeping import kept_with
from pcgcd.engine.recursion import Level, Recursion

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


class Users:
    """Knows whether there are still prefixes that use something: each of them holds a ticket."""

    class Ticket:
        """What they hold."""

    def __init__(self) -> None:
        """Nobody uses it."""
        self._ticket: ref[Users.Ticket] | None = None

    def ticket(self) -> Users.Ticket:
        """Return what to hold as long as it is used."""
        found = None if self._ticket is None else self._ticket()
        if found is None:
            found = Users.Ticket()
            self._ticket = ref(found)
        return found

    @property
    def are_gone(self) -> bool:
        """Whether nobody holds a ticket."""
        return self._ticket is None or self._ticket() is None


class ConeLevels:
    """Levels with the rows that were asked for, and the rows that these follow from.

    Whatever is dropped is computed again when it is asked for, so budgets, prompts and rows of a
    batch share what there is in any order.
    """

    def __init__(
        self, recursion: Recursion, memory_limit: int, levels: dict[int, Level], users: Users
    ) -> None:
        """Begin with some levels.

        Args:
            recursion: How messages are computed.
            memory_limit: Bytes of messages to keep, see :func:`ladder`.
            levels: What is known already.
            users: When they are gone, other automata of the same guide may take its memory.
        """
        self._recursion, self._memory_limit, self._levels = recursion, memory_limit, levels
        self._users, self._last_use = users, monotonic()
        self._of_guide: WeakSet[ConeLevels] = kept_with(recursion.guide, "_cones", WeakSet)
        self._of_guide.add(self)

    def __getitem__(self, r: int) -> Level:
        """Return a level that was asked for last; it is empty if nothing was."""
        return self._levels.get(r, self._nothing)

    @cached_property
    def _nothing(self) -> Level:
        slots = np.zeros(0, dtype=np.int64)
        return Level(*self._recursion.rows(0, slots, None))

    @property
    def nbytes(self) -> int:
        """The memory of the levels that are kept."""
        return sum(level.nbytes for level in self._levels.values())

    def ask(self, wanted: Mapping[int, Indices]) -> None:
        """Make sure that some levels have the messages of some slots.

        Args:
            wanted: The slots, for each number of remaining tokens. These levels are kept until
                others are asked for.
        """
        wanted = {r: slots for r, slots in wanted.items() if len(slots)}
        missing = self._missing(wanted)
        self._last_use = monotonic()
        if not missing:
            return
        self._make_room()
        sizes = {r: level.nbytes for r, level in self._levels.items()}
        for r, mask in missing.items():
            sizes[r] = sizes.get(r, 8 * len(mask)) + int(mask.sum()) * self._recursion.row_bytes
        kept = ladder(sizes, sorted(wanted), self._memory_limit)
        for r in set(self._levels) - kept - set(missing) - {r - 1 for r in missing}:
            del self._levels[r]
        for r in sorted(missing):
            slots = np.flatnonzero(missing.pop(r))
            found = self._recursion.rows(r, slots, self._levels[r - 1] if r else None)
            count = len(self._recursion.graph.alive(r).depth)
            self._levels[r] = self[r].with_rows(slots, *found, count)
            if r - 1 not in kept:
                self._levels.pop(r - 1, None)

    def _make_room(self) -> None:
        """Forget automata that no prefix is in, those of long ago first.

        All others of the guide may take as much as this one.
        """
        others = [each for each in self._of_guide if each is not self]
        taken = sum(each.nbytes for each in others)
        for each in sorted(others, key=lambda each: each._last_use):
            if taken <= self._memory_limit:
                break
            if each._users.are_gone:
                taken -= each.nbytes
                each._levels.clear()

    def _missing(self, wanted: Mapping[int, Indices]) -> dict[int, Mask]:
        """Which slots have no message yet and are needed, by level: the cones of what is asked."""
        graph = self._recursion.graph
        result: dict[int, Mask] = {}
        nothing = needed = np.zeros(0, dtype=np.int64)
        r = max(wanted, default=-1)
        while r >= 0:
            mask = np.zeros(len(graph.alive(r).depth), dtype=np.bool_)
            mask[needed] = True  # by the level above
            mask[wanted.get(r, nothing)] = True
            slots = np.flatnonzero(mask)
            if r in self._levels:
                has = self._levels[r].has(slots)
                mask[slots[has]] = False
                slots = slots[~has]
            if len(slots):
                above = result.get(r + 1)
                # Most levels of a long text are alike, and share this.
                result[r] = mask if above is None or not np.array_equal(mask, above) else above
            needed = graph.level_edges(r).leaving(slots).target if r and len(slots) else nothing
            r = r - 1 if len(needed) else max((low for low in wanted if low < r), default=-1)
        return result


def ladder(sizes: Mapping[int, int], wanted: Sequence[int], limit: int) -> set[int]:
    """Return which levels to keep, such that their sizes are within the limit.

    From a wanted level down to the next one: all levels if there is room for them; else the one in
    the middle, what the same rule says of the upper half, which is needed first, and as much of
    the lower half as there is still room for. A level in the middle of an upper half is kept even
    where there is no room, or every step would begin far below: these are log2(n) levels at most.

    >>> sorted(ladder(dict.fromkeys(range(16), 1), [15], 5))
    [7, 11, 13, 14, 15]

    Args:
        sizes: The sizes of the levels that there are, or are about to be.
        wanted: The levels that are needed now, rising; these are always kept.
        limit: The sum of sizes to keep to.
    """
    if sum(sizes.values()) <= limit:
        return set(sizes)
    kept = set(wanted)
    room = limit - sum(sizes[r] for r in kept)
    ends = [-1, *wanted]
    for place, (low, high) in enumerate(pairwise(ends)):
        share = room // (len(ends) - 1 - place)
        room -= _halves(sizes, low, high, share, kept, strictly=False)
    # What is above helps texts that are begun later.
    _halves(sizes, ends[-1], max(sizes, default=0) + 1, room, kept, strictly=True)
    return kept


def _halves(
    sizes: Mapping[int, int], low: int, high: int, room: int, kept: set[int], *, strictly: bool
) -> int:
    """Add levels between two others to those that are kept; return the sum of their sizes."""
    inside = [r for r in sizes if low < r < high]
    total = sum(sizes[r] for r in inside)
    if total <= max(room, 0):
        kept.update(inside)
        return total
    middle = min(inside, key=lambda r: abs(2 * r - low - high))
    if strictly and sizes[middle] > room:
        return 0
    kept.add(middle)
    used = sizes[middle]
    used += _halves(sizes, middle, high, room - used, kept, strictly=strictly)
    return used + _halves(sizes, low, middle, room - used, kept, strictly=True)

"""An automaton for a pattern whose assertions depend on the text.

A state stands for a place in the pattern and the class of the character just read. To read on, it
chooses the class of the next character, which decides the assertions in between.
"""

from __future__ import annotations

from typing import TypeAlias

from pcgcd.automata.byte_edges import byte_automaton
from pcgcd.automata.expressions import NOTHING, Embedded, Expression
from pcgcd.automata.expressions.utf8 import (
    EVERYTHING,
    Branch,
    Ranges,
    intersect_ranges,
    later_bytes,
    lead_bytes,
    normalise_ranges,
)
from pcgcd.constraints.regex.assertions import (
    EDGE,
    FINAL_NEWLINE,
    NEWLINE,
    assertions_of,
    character_classes,
    holds,
)
from pcgcd.constraints.regex.parser import (
    Assertion,
    Characters,
    Choice,
    Node,
    Repetition,
)
from pcgcd.errors import AutomatonTooLargeError

__all__ = ["MAX_EDGES", "MAX_PLACES", "MAX_WORK", "expression_with_assertions"]

MAX_PLACES = 20_000
MAX_EDGES = 100_000
MAX_WORK = 1_000_000

_ANY = 0  # in place of a class: it does not matter
# A place, the class of the character before it, and what was promised about that character.
_State: TypeAlias = tuple[int, int, int]
# Bytes as 256 bits, and the number of what follows them, or -1.
_Step: TypeAlias = tuple[int, int]


def expression_with_assertions(node: Node) -> Expression:
    """The language of a tree with assertions, as an embedded automaton."""
    places = _count(node)
    if places > MAX_PLACES:
        raise _too_large(f"{places:,} places", f"{MAX_PLACES:,}")
    return _Unfolding(node).expression()


def _too_large(found: str, limit: str) -> AutomatonTooLargeError:
    return AutomatonTooLargeError(
        "a pattern with anchors or word boundaries inside has to be written out, and this one has "
        f"{found} when its repeats are; the limit is {limit}. Use smaller repeats, or move the "
        "anchors to the ends of the pattern"
    )


def _count(node: Node) -> int:
    """How many places the written-out pattern has."""
    if isinstance(node, Assertion | Characters):
        return 1
    if isinstance(node, Repetition):
        copies = node.least + 1 if node.most is None else node.most
        return 1 + copies * (1 + _count(node.body))
    children = node.options if isinstance(node, Choice) else node.parts
    return 1 + sum(_count(child) for child in children)


class _Places:
    """The pattern, written out: places, jumps between them (with a condition or none), and reads.

    Attributes:
        jumps: Of each place, (target, kind of assertion or None).
        reads: Of each place, (characters, target).
        guarded: Of each place, whether jumps from it lead to a condition.
    """

    def __init__(self, node: Node) -> None:
        self.jumps: list[list[tuple[int, str | None]]] = []
        self.reads: list[list[tuple[Ranges, int]]] = []
        self.start = self._new()
        self.end = self._write(node, self.start)
        self.guarded = self._guarded()

    def _new(self) -> int:
        self.jumps.append([])
        self.reads.append([])
        return len(self.jumps) - 1

    def _jump(self, source: int, target: int, kind: str | None = None) -> None:
        self.jumps[source].append((target, kind))

    def _write(self, node: Node, start: int) -> int:
        """Write the node from a place on; its end is the place returned."""
        if isinstance(node, Characters):
            end = self._new()
            self.reads[start].append((node.ranges, end))
        elif isinstance(node, Assertion):
            end = self._new()
            self._jump(start, end, node.kind)
        elif isinstance(node, Choice):
            end = self._new()
            for option in node.options:
                self._jump(self._write(option, start), end)
        elif isinstance(node, Repetition):
            end = self._write_repetition(node, start)
        else:
            end = start
            for part in node.parts:
                end = self._write(part, end)
        return end

    def _write_repetition(self, node: Repetition, start: int) -> int:
        for _ in range(node.least):
            start = self._write(node.body, start)
        # The loop and the way past it need places of their own, as others may lead back to start.
        end = self._new()
        self._jump(start, end)
        if node.most is None:
            again = self._new()
            self._jump(start, again)
            self._jump(self._write(node.body, again), again)
            self._jump(again, end)
        else:
            for _ in range(node.most - node.least):
                inside = self._new()
                self._jump(start, inside)
                start = self._write(node.body, inside)
                self._jump(start, end)
        return end

    def _guarded(self) -> list[bool]:
        back: list[list[int]] = [[] for _ in self.jumps]
        waiting = []
        for source, jumps in enumerate(self.jumps):
            for target, kind in jumps:
                back[target].append(source)
                if kind is not None:
                    waiting.append(source)
        result = [False] * len(self.jumps)
        while waiting:
            place = waiting.pop()
            if not result[place]:
                result[place] = True
                waiting += back[place]
        return result


class _Sets:
    """Sets of characters by number, with what is computed once for each."""

    def __init__(self) -> None:
        self._numbers: dict[Ranges, int] = {}
        self._ranges: list[Ranges] = []
        self._unions: dict[tuple[int, ...], int] = {}
        self._leads: dict[int, list[_Step]] = {}
        self._rests: dict[tuple[int, Ranges], int] = {}
        self._later: dict[int, list[_Step]] = {}
        self._values: list[tuple[int, Ranges]] = []

    def number(self, ranges: Ranges) -> int:
        if ranges not in self._numbers:
            self._numbers[ranges] = len(self._ranges)
            self._ranges.append(ranges)
        return self._numbers[ranges]

    def union(self, numbers: set[int]) -> int:
        key = tuple(sorted(numbers))
        if len(key) == 1:
            return key[0]
        if key not in self._unions:
            joined = normalise_ranges(pair for number in key for pair in self._ranges[number])
            self._unions[key] = self.number(joined)
        return self._unions[key]

    def first_bytes(self, number: int) -> list[_Step]:
        """The first bytes of a set's characters, each with the number of what follows."""
        if number not in self._leads:
            self._leads[number] = self._numbered(lead_bytes(self._ranges[number]))
        return self._leads[number]

    def later_bytes(self, rest: int) -> list[_Step]:
        """The same for what follows."""
        if rest not in self._later:
            more, values = self._values[rest]
            self._later[rest] = self._numbered(later_bytes(values, more))
        return self._later[rest]

    def _numbered(self, branches: list[Branch]) -> list[_Step]:
        steps = []
        for mask, more, values in branches:
            number = -1
            if more:
                number = self._rests.setdefault((more, values), len(self._values))
                if number == len(self._values):
                    self._values.append((more, values))
            steps.append((mask, number))
        return steps


class _Unfolding:
    """Places with the class of the character before, as states over bytes."""

    def __init__(self, node: Node) -> None:
        self._kinds = assertions_of(node)
        self._places = _Places(node)
        self._classes = character_classes(self._kinds)
        self._sees_final_newline = "end or final newline" in self._kinds
        self._true: dict[tuple[int, int], set[str | None]] = {}
        self._sets = _Sets()
        self._common: dict[tuple[int, int], int] = {}
        self._states: dict[_State, int] = {}
        self._inner: dict[tuple[int, int], int] = {}
        self._edges: list[tuple[int, int, int]] = []
        self._accepting: list[int] = []
        self._work = 0

    def expression(self) -> Expression:
        start = self._places.start
        waiting: list[_State] = [(start, EDGE if self._places.guarded[start] else _ANY, 0)]
        self._states[waiting[0]] = 0
        while waiting:
            waiting += self._expand(waiting.pop())
        if not self._accepting:
            return NOTHING
        return Embedded(byte_automaton(self._num_states, self._edges, self._accepting))

    @property
    def _num_states(self) -> int:
        return len(self._states) + len(self._inner)

    def _expand(self, state: _State) -> list[_State]:
        """Add the edges of a state."""
        place, before, promised = state
        number = self._states[state]
        at_end = self._places.end in self._reachable(place, before, EDGE)
        if at_end and promised != NEWLINE:
            self._accepting.append(number)
        if promised == FINAL_NEWLINE:
            return []
        reads: dict[_State, set[int]] = {}
        guarded = self._places.guarded
        for bit, members in self._classes if guarded[place] else [(_ANY, EVERYTHING)]:
            promises = [0]
            if bit == NEWLINE and self._sees_final_newline:
                promises = [NEWLINE, FINAL_NEWLINE]
            for promise in promises:
                for source in self._reachable(place, before, promise or bit):
                    for ranges, target in self._places.reads[source]:
                        for seen, common in self._seen(ranges, bit, members, guarded[target]):
                            reads.setdefault((target, seen, promise), set()).add(common)
        new = []
        for target_state, numbers in reads.items():
            if target_state not in self._states:
                self._states[target_state] = self._num_states
                new.append(target_state)
            self._read(number, self._sets.union(numbers), self._states[target_state])
        return new

    def _seen(
        self, ranges: Ranges, bit: int, members: Ranges, guarded: bool
    ) -> list[tuple[int, int]]:
        """What is read, as the class that the target remembers and the number of a set.

        Args:
            ranges: The characters that the pattern allows.
            bit: The class that was chosen, or any.
            members: Its characters.
            guarded: Whether the target needs to know the class.
        """
        if not guarded:
            parts = [(_ANY, members)]
        elif bit == _ANY:
            parts = self._classes
        else:
            parts = [(bit, members)]
        found = []
        for seen, part in parts:
            key = (id(ranges), id(part))  # the tree and the classes keep them alive
            if key not in self._common:
                common = intersect_ranges(ranges, part)
                self._common[key] = self._sets.number(common) if common else -1
            if self._common[key] >= 0:
                found.append((seen, self._common[key]))
        return found

    def _reachable(self, place: int, before: int, after: int) -> set[int]:
        """The places that jumps lead to, between two characters."""
        true = self._true.get((before, after))
        if true is None:
            true = {None, *(kind for kind in self._kinds if holds(kind, before, after))}
            self._true[before, after] = true
        found = {place}
        waiting = [place]
        while waiting:
            for target, kind in self._places.jumps[waiting.pop()]:
                if target not in found and kind in true:
                    found.add(target)
                    waiting.append(target)
        self._work += len(found)
        if self._work > MAX_WORK:
            raise _too_large(f"more than {MAX_WORK:,} ways between places", f"{MAX_WORK:,}")
        return found

    def _read(self, source: int, characters: int, target: int) -> None:
        """Edges for the bytes of one character; equal endings before one target are shared."""
        waiting = [(source, self._sets.first_bytes(characters))]
        while waiting:
            number, steps = waiting.pop()
            for mask, rest in steps:
                if rest < 0:
                    self._edges.append((number, target, mask))
                    continue
                if (rest, target) not in self._inner:
                    inner = self._inner[rest, target] = self._num_states
                    waiting.append((inner, self._sets.later_bytes(rest)))
                self._edges.append((number, self._inner[rest, target], mask))
        if len(self._edges) > MAX_EDGES:
            raise _too_large(f"more than {MAX_EDGES:,} edges", f"{MAX_EDGES:,}")

"""Objects with a bounded number of properties.

The expression of the properties is compiled, and each state is paired with a tally of what was
read. Every state lies at one depth of brackets, since what leads to an end from it closes them all,
so the properties can be counted without looking at the schema again.

That names differ is known of names that the schema mentions, which come at most once. Other names
are told apart by a remainder of their bytes: two with different remainders differ. So a text that
is counted as enough always is; of names with equal remainders only one counts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import NOTHING, Embedded, Expression
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.automata.graphs import Graph, pack
from pcgcd.errors import AutomatonTooLargeError

MOST_TOLD_APART = 3
# The remainders, by how many names are to be told apart: their sets are what is remembered.
_MODULUS = {1: 1, 2: 17, 3: 7}
_QUOTES, _OPENING, _CLOSING = b"\"'", b"[{(", b"]})"


class _Place(NamedTuple):
    """Where a state lies: in how many brackets, in which string, and on which side of a colon."""

    depth: int = 0
    quote: int = 0  # the byte that ends the string; 0 outside of strings
    escaped: bool = False
    in_value: bool = False

    def after(self, byte: int) -> _Place:
        if self.escaped:
            return self._replace(escaped=False)
        if self.quote:
            if byte == self.quote:
                return self._replace(quote=0)
            return self._replace(escaped=byte == 0x5C)
        if byte in _QUOTES:
            return self._replace(quote=byte)
        if byte in _OPENING or byte in _CLOSING:
            return self._replace(depth=self.depth + (1 if byte in _OPENING else -1))
        if self.depth == 0 and byte in b":,":
            return self._replace(in_value=byte == 0x3A)
        return self

    @property
    def in_name(self) -> bool:
        return bool(self.quote) and not self.depth and not self.in_value


class _Tally(NamedTuple):
    """What was counted so far, and what was read of the name that is being read."""

    total: int = 0
    named: int = 0
    others: frozenset[int] = frozenset()
    any_other: bool = False
    enough: bool = False
    name: int | None = None  # the state of the automaton of all names; None if it is none of them
    remainder: int | None = None  # None if the name has characters that can be spelled differently


@dataclass(frozen=True)
class Bounds:
    """How many properties there may be, and the names that the schema mentions.

    Attributes:
        least: The fewest, where a name counts once.
        most: The most; None for any number.
        names: The names with their quotes, as they are written.
    """

    least: int
    most: int | None
    names: Expression


def counted(body: Expression, bounds: Bounds, state_limit: int) -> Expression:
    """Those texts of a body (properties without the brackets) that have so many properties."""
    automaton = compile_expression(body)
    graph = _Pairs(automaton, bounds, state_limit).graph().trimmed().refined()
    return Embedded(graph.automaton()) if graph.accepting.any() else NOTHING


class _Pairs:
    """The pairs of a state and a tally that can be reached."""

    def __init__(self, automaton: FiniteAutomaton, bounds: Bounds, state_limit: int) -> None:
        self.automaton, self.bounds, self.state_limit = automaton, bounds, state_limit
        self.cap = min(bounds.least, MOST_TOLD_APART)
        self.modulus = _MODULUS.get(self.cap, 1)
        self.names = compile_expression(bounds.names, deterministic=True)
        self.name_steps = _steps(self.names)
        labels = automaton.labels
        self.sets = {tuple(labels.tokens(i).tolist()): i for i in range(labels.num_labels)}
        self.known: dict[tuple[_Place, _Tally, int], list[tuple[_Tally, int]]] = {}

    def graph(self) -> Graph:
        """Breadth first from the empty tally."""
        fa = self.automaton
        members, out = list(self.sets), _edges_out(fa)
        places = _places(fa, out, members)
        pairs = [(int(state), _Tally()) for state in fa.initial_mask.nonzero()[0]]
        number = {pair: i for i, pair in enumerate(pairs)}
        initial = len(pairs)
        edges: list[tuple[int, int, int]] = []
        for origin, (state, tally) in enumerate(pairs):
            if len(pairs) > self.state_limit:
                raise self._too_large()
            place = places[state]
            outside = not place.in_name and place != _Place()
            for reached, carried in out[state]:
                split = (
                    [(tally, carried)] if outside else self._split(place, tally, carried, members)
                )
                for following, some in split:
                    pair = (reached, following)
                    if pair not in number:
                        number[pair] = len(pairs)
                        pairs.append(pair)
                    edges.append((origin, number[pair], some))
        masks = np.zeros((len(self.sets), 256), dtype=np.bool_)
        for row, tokens in enumerate(self.sets):
            masks[row, tokens] = True
        source, target, label = np.array(edges, dtype=np.int64).reshape(-1, 3).T.copy()
        accepting = [
            bool(fa.accepting_mask[state]) and (tally.enough or not self.bounds.least)
            for state, tally in pairs
        ]
        token_class = np.arange(256)
        ends = (np.arange(len(pairs)) < initial, np.array(accepting))
        return Graph(len(pairs), source, target, label, pack(masks), 256, token_class, *ends)

    def _too_large(self) -> AutomatonTooLargeError:
        return AutomatonTooLargeError(
            f"an object with {self.bounds.least:,} to {self.bounds.most or 'any number of'} "
            f"properties needs more than {self.state_limit:,} states; ask for fewer properties"
        )

    def _split(
        self, place: _Place, tally: _Tally, label: int, members: list[tuple[int, ...]]
    ) -> list[tuple[_Tally, int]]:
        """Where the bytes of a label lead from a tally, and the labels of those that lead there."""
        key = (place, tally, label)
        if key not in self.known:
            groups: dict[_Tally, list[int]] = defaultdict(list)
            for byte in members[label]:
                following = self._after(place, tally, byte)
                if following is not None:
                    groups[following].append(byte)
            self.known[key] = [
                (following, self.sets.setdefault(tuple(some), len(self.sets)))
                for following, some in groups.items()
            ]
        return self.known[key]

    def _after(self, place: _Place, tally: _Tally, byte: int) -> _Tally | None:
        """The tally after a byte of a name or a quote around it; None if there are too many."""
        if not place.in_name:
            if byte not in _QUOTES or tally.enough or not self.bounds.least:
                return tally
            start = int(self.names.initial_mask.nonzero()[0][0])
            return tally._replace(name=self.name_steps.get((start, byte)), remainder=0)
        ends = byte == place.quote and not place.escaped
        if not tally.enough and self.bounds.least:
            name = None if tally.name is None else self.name_steps.get((tally.name, byte))
            tally = tally._replace(name=name)
            if not ends and tally.remainder is not None:
                plain = 0x20 <= byte < 0x7F and byte != 0x5C
                after = (3 * tally.remainder + byte) % self.modulus if plain else None
                tally = tally._replace(remainder=after)
        return self._ended(tally) if ends else tally

    def _ended(self, tally: _Tally) -> _Tally | None:
        """One more property."""
        bounds, total, named = self.bounds, tally.total, tally.named
        if bounds.most is not None:
            total += 1
            if total > bounds.most:
                return None
        if tally.enough or not bounds.least:
            return tally._replace(total=total)
        others, any_other = tally.others, tally.any_other
        if tally.name is not None and self.names.accepting_mask[tally.name]:
            named += 1
        else:
            any_other = True
            if tally.remainder is not None and len(others) < self.cap:
                others |= {tally.remainder}
        if named + max(len(others), any_other) >= bounds.least:
            return _Tally(total, enough=True)
        return _Tally(total, named, others, any_other)


def _steps(automaton: FiniteAutomaton) -> dict[tuple[int, int], int]:
    """The state after each state and byte of a deterministic automaton."""
    return {
        (int(source), byte): int(target)
        for source, target, label in zip(automaton.source, automaton.target, automaton.label)
        for byte in automaton.labels.tokens(int(label)).tolist()
    }


def _edges_out(automaton: FiniteAutomaton) -> dict[int, list[tuple[int, int]]]:
    """The targets and labels of the edges that leave each state."""
    out: dict[int, list[tuple[int, int]]] = defaultdict(list)
    arrays = (automaton.source, automaton.target, automaton.label)
    for source, target, label in zip(*(array.tolist() for array in arrays)):
        out[source].append((target, label))
    return out


def _places(
    automaton: FiniteAutomaton,
    out: dict[int, list[tuple[int, int]]],
    members: list[tuple[int, ...]],
) -> dict[int, _Place]:
    """Where each state lies."""
    waiting = automaton.initial_mask.nonzero()[0].tolist()
    places = dict.fromkeys(waiting, _Place())
    for state in waiting:
        for target, label in out[state]:
            if target not in places:
                places[target] = places[state].after(members[label][0])
                waiting.append(target)
    return places

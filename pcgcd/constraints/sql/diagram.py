"""Syntax diagrams: automata with choices, drawn state by state.

What may be repeated with a separator is drawn once, with a way back; as a regular expression it
would have to be written twice at every level.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.empty_moves import without_empty_moves
from pcgcd.automata.graphs import Graph, pack, unpack
from pcgcd.constraints.keywords.word_trie import WordTrie
from pcgcd.errors import AutomatonTooLargeError

# States that read nothing go away, and equal states become one: about a third is left.
_DRAWN_FOR_ONE_LEFT = 4


@dataclass(frozen=True)
class Fragment:
    """A small automaton that is drawn often."""

    count: int  # of its states, and one where it ends
    sources: list[int]
    targets: list[int]
    labels: list[int]
    masks: list[int]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, part: Part) -> Fragment:
        """What a part draws, as small as it gets."""
        diagram = Diagram(1 << 20)
        start = diagram.state()
        graph = diagram.graph(start, part(diagram, start))
        masks = [
            sum(1 << int(value) for value in np.flatnonzero(row))
            for row in unpack(graph.sets, graph.num_classes)[:, graph.token_class]
        ]
        return cls(
            graph.num_states + 1,
            graph.source.tolist(),
            graph.target.tolist(),
            graph.label.tolist(),
            masks,
            np.flatnonzero(graph.initial).tolist(),
            np.flatnonzero(graph.accepting).tolist(),
        )


class Diagram:
    """States, edges that read one byte of a set, and edges that read nothing."""

    def __init__(self, state_limit: int) -> None:
        self.state_limit = state_limit
        self.count = 0
        self._masks: dict[int, int] = {}
        self._reads = (array("q"), array("q"), array("q"))
        self._skips = (array("q"), array("q"))

    def state(self) -> int:
        """A new state."""
        self.count += 1
        if self.count > _DRAWN_FOR_ONE_LEFT * self.state_limit:
            raise self._too_large()
        return self.count - 1

    def read(self, source: int, target: int, mask: int) -> None:
        """An edge that reads a byte of the set, given as 256 bits."""
        self._reads[0].append(source)
        self._reads[1].append(target)
        self._reads[2].append(self._masks.setdefault(mask, len(self._masks)))

    def skip(self, source: int, target: int) -> None:
        """An edge that reads nothing."""
        self._skips[0].append(source)
        self._skips[1].append(target)

    def graph(self, start: int, end: int) -> Graph:
        """The automaton from one state to another, reduced by bisimulation forward and backward.

        Once is enough: what is drawn has few equal parts left after that.
        """
        empty = tuple(np.frombuffer(part, dtype=np.int64) for part in self._skips)
        edges = tuple(np.frombuffer(part, dtype=np.int64) for part in self._reads)
        rows = b"".join(mask.to_bytes(32, "little") for mask in self._masks)
        members = np.unpackbits(
            np.frombuffer(rows, dtype=np.uint8).reshape(-1, 32), axis=1, bitorder="little"
        ).astype(np.bool_)
        states = np.arange(self.count)
        graph = without_empty_moves(
            (empty[0], empty[1]),
            (edges[0], edges[1], edges[2]),
            (pack(members), 256, np.arange(256)),
            states == start,
            states == end,
        )
        del empty, edges  # much memory
        graph = graph.refined().reversed()
        graph = graph.refined().reversed()
        return graph.joined()

    def automaton(self, start: int, end: int) -> FiniteAutomaton:
        """The same as an automaton, if it is not too large."""
        graph = self.graph(start, end)
        if graph.num_states > self.state_limit:
            raise self._too_large()
        return graph.numbered().automaton()

    def paste(self, copied: Fragment, start: int) -> int:
        """Draw what was drawn before, from a state; return where it ends."""
        first = self.count
        self.count += copied.count - 1
        end = self.state()
        self._reads[0].extend([first + state for state in copied.sources])
        self._reads[1].extend([first + state for state in copied.targets])
        number = [self._masks.setdefault(mask, len(self._masks)) for mask in copied.masks]
        self._reads[2].extend([number[label] for label in copied.labels])
        for state in copied.starts:
            self.skip(start, first + state)
        for state in copied.ends:
            self.skip(first + state, end)
        return end

    def _too_large(self) -> AutomatonTooLargeError:
        return AutomatonTooLargeError(
            f"the automaton of these queries has more than {self.state_limit:,} states; choose a "
            f"smaller max_depth, fewer joins, labels or features, give fewer tables, or raise "
            f"state_limit"
        )


# Draws itself from the given state, into which it adds no edge, and returns where it ends.
Part: TypeAlias = Callable[[Diagram, int], int]


def compact(part: Part) -> Part:
    """The same part, drawn with as few states as there can be: worth it if it is drawn often."""
    found: list[Fragment] = []

    def draw(diagram: Diagram, start: int) -> int:
        if not found:
            found.append(Fragment.of(part))
        return diagram.paste(found[0], start)

    return draw


def byte(members: Iterable[int]) -> Part:
    """One byte of a set."""
    mask = mask_of(members)

    def draw(diagram: Diagram, start: int) -> int:
        end = diagram.state()
        diagram.read(start, end, mask)
        return end

    return draw


def word(text: str) -> Part:
    """A text, with its ASCII letters in any case (as SQLite takes words and names)."""
    masks = [mask_of(_both_cases(value)) for value in text.encode()]

    def draw(diagram: Diagram, start: int) -> int:
        for mask in masks:
            end = diagram.state()
            diagram.read(start, end, mask)
            start = end
        return start

    return draw


def names(texts: Iterable[str]) -> Part:
    """One of several texts in any case; common beginnings and endings are drawn once."""
    return _names(tuple(texts))


@lru_cache(maxsize=4096)
def _names(texts: tuple[str, ...]) -> Part:
    trie = WordTrie()
    for text in texts:
        trie.insert((chr(_both_cases(value)[0]) for value in text.encode()), 0)
    graph = trie.merged()
    edges = [
        (node, child, mask_of(_both_cases(ord(key))))
        for node, children in enumerate(graph.children)
        for key, child in children.items()
    ]
    ends = [node for node, is_end in enumerate(graph.ends) if is_end]

    def draw(diagram: Diagram, start: int) -> int:
        drawn = [start] + [diagram.state() for _ in graph.children[1:]]
        end = diagram.state()
        for node, child, mask in edges:
            diagram.read(drawn[node], drawn[child], mask)
        for node in ends:
            diagram.skip(drawn[node], end)
        return end

    return draw


@lru_cache(maxsize=256)
def _both_cases(value: int) -> tuple[int, ...]:
    letter = chr(value)
    if value < 128 and letter.isalpha():
        return ord(letter.lower()), ord(letter.upper())
    return (value,)


def then(*parts: Part) -> Part:
    """One part after the other."""

    def draw(diagram: Diagram, start: int) -> int:
        for part in parts:
            start = part(diagram, start)
        return start

    return draw


def either(*parts: Part) -> Part:
    """One of the parts."""

    def draw(diagram: Diagram, start: int) -> int:
        end = diagram.state()
        for part in parts:
            diagram.skip(part(diagram, start), end)
        return end

    return draw


def maybe(*parts: Part) -> Part:
    """The parts, one after the other, or nothing."""
    return either(then(*parts), then())


def repeated(part: Part, separator: Part | None = None) -> Part:
    """The part once or more, with a separator between."""

    def draw(diagram: Diagram, start: int) -> int:
        again = diagram.state()
        diagram.skip(start, again)
        end = part(diagram, again)
        back = end if separator is None else separator(diagram, end)
        diagram.skip(back, again)
        return end

    return draw


def mask_of(members: Iterable[int]) -> int:
    """A set of bytes as 256 bits."""
    return sum(1 << member for member in set(members))

"""Syntax diagrams: automata with choices, drawn state by state.

What may be repeated with a separator is drawn once, with a way back; as a regular expression it
would have to be written twice at every level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.byte_edges import byte_automaton
from pcgcd.constraints.keywords.word_trie import WordTrie
from pcgcd.errors import AutomatonTooLargeError


class Diagram:
    """States, edges that read one byte of a set, and edges that read nothing."""

    def __init__(self, state_limit: int) -> None:
        self.state_limit = state_limit
        self.reads: list[list[tuple[int, int]]] = []
        self.skips: list[list[int]] = []

    def state(self) -> int:
        """A new state."""
        # States that are reached by reading nothing go away, and there are not more of those.
        if len(self.reads) >= 2 * self.state_limit:
            raise self._too_large()
        self.reads.append([])
        self.skips.append([])
        return len(self.reads) - 1

    def read(self, source: int, target: int, mask: int) -> None:
        """An edge that reads a byte of the set, given as 256 bits."""
        self.reads[source].append((target, mask))

    def skip(self, source: int, target: int) -> None:
        """An edge that reads nothing."""
        self.skips[source].append(target)

    def automaton(self, start: int, end: int) -> FiniteAutomaton:
        """The automaton from one state to another, without edges that read nothing."""
        number = {start: 0}
        waiting = [start]
        edges = []
        accepting = []
        for state in waiting:
            source = number[state]
            for near in self._closure(state):
                if near == end:
                    accepting.append(source)
                for target, mask in self.reads[near]:
                    if target not in number:
                        if len(number) >= self.state_limit:
                            raise self._too_large()
                        number[target] = len(number)
                        waiting.append(target)
                    edges.append((source, number[target], mask))
        return byte_automaton(len(number), edges, accepting)

    def _too_large(self) -> AutomatonTooLargeError:
        return AutomatonTooLargeError(
            f"the automaton of these queries has more than {self.state_limit:,} states; choose a "
            f"smaller max_depth, give fewer tables, or raise state_limit"
        )

    def _closure(self, state: int) -> list[int]:
        found = [state]
        known = {state}
        for near in found:
            for further in self.skips[near]:
                if further not in known:
                    known.add(further)
                    found.append(further)
        return found


# Draws itself from the given state, into which it adds no edge, and returns where it ends.
Part: TypeAlias = Callable[[Diagram, int], int]


def byte(members: Iterable[int]) -> Part:
    """One byte of a set."""
    mask = _mask(members)

    def draw(diagram: Diagram, start: int) -> int:
        end = diagram.state()
        diagram.read(start, end, mask)
        return end

    return draw


def word(text: str) -> Part:
    """A text, with its ASCII letters in any case (as SQLite takes words and names)."""
    return then(*(byte(_both_cases(value)) for value in text.lower().encode()))


def names(texts: Iterable[str]) -> Part:
    """One of several texts in any case; common beginnings and endings are drawn once."""
    trie = WordTrie()
    for text in texts:
        trie.insert((chr(_both_cases(value)[0]) for value in text.encode()), 0)
    graph = trie.merged()

    def draw(diagram: Diagram, start: int) -> int:
        end = diagram.state()
        drawn = [start] + [diagram.state() for _ in graph.children[1:]]
        for node, children in enumerate(graph.children):
            for key, child in children.items():
                diagram.read(drawn[node], drawn[child], _mask(_both_cases(ord(key))))
            if graph.ends[node]:
                diagram.skip(drawn[node], end)
        return end

    return draw


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


def _mask(members: Iterable[int]) -> int:
    return sum(1 << member for member in set(members))

"""One deterministic automaton for texts in which given words occur, built without products.

A state is what has been seen so far together with the places in a trie of words where the text may
be now. Places from which only words can follow that no longer matter are forgotten, which keeps the
automaton small. Words start and end where there is no letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.byte_edges import byte_automaton
from pcgcd.automata.expressions.utf8 import (
    MAX_CODE_POINT,
    Branch,
    Ranges,
    intersect_ranges,
    later_bytes,
    lead_bytes,
    normalise_ranges,
    subtract_ranges,
)
from pcgcd.constraints.keywords.disjoint import Choices, DisjointConcepts
from pcgcd.constraints.keywords.letters import LETTERS, is_letter
from pcgcd.constraints.keywords.overlaps import overlapping_concepts
from pcgcd.constraints.keywords.requirement import Requirement
from pcgcd.constraints.keywords.word_trie import WordTrie
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError

_ASCII_LETTERS = sum(1 << byte for byte in range(128) if is_letter(chr(byte)))
_DIGITS = sum(1 << byte for byte in b"0123456789")
_ALL_ASCII = (1 << 128) - 1
_PRINTABLE = sum(1 << byte for byte in range(0x20, 0x7F))
_BEYOND: Ranges = ((0x80, MAX_CODE_POINT),)
_LETTERS_BEYOND = intersect_ranges(LETTERS, _BEYOND)
_OTHERS_BEYOND = subtract_ranges(_BEYOND, LETTERS)
_lead_bytes, _later_bytes = lru_cache(lead_bytes), lru_cache(later_bytes)


class _Place(NamedTuple):
    """A state between two characters."""

    counts: tuple[int, ...]  # how often each concept has occurred, up to what matters
    progress: int  # how many of the ordered concepts have occurred in their order
    nodes: frozenset[int]  # where in the trie the text may be; at the root after a non-letter
    choices: tuple[Choices, ...]  # what is taken of each set of overlapping concepts
    ended: bool  # whether the text may end here


# Where the rest of a character leads, how many bytes it has, and their values.
_Way: TypeAlias = tuple[int, int, Ranges]


@dataclass
class KeywordBuilder:
    """Builds the automaton over bytes."""

    trie: WordTrie  # bit len(requirements) marks the banned words
    requirements: Sequence[Requirement]
    variants: Mapping[str, Sequence[str]]  # what stands in a text for a character of the trie
    order: Sequence[int]  # the concepts that must occur one after the other
    ends_with: str | None  # characters of which one must be last
    ascii_only: bool  # printable ASCII rather than any UTF-8
    state_limit: int
    digits: bool = False  # whether digits are letters
    places: dict[_Place, int] = field(default_factory=dict, init=False)
    partials: dict[tuple[_Way, ...], int] = field(default_factory=dict, init=False)
    waiting: list[_Place] = field(default_factory=list, init=False)
    accepting: list[int] = field(default_factory=list, init=False)
    edges: list[tuple[int, int, int]] = field(default_factory=list, init=False)
    leads: dict[tuple[object, ...], list[tuple[int, int]]] = field(default_factory=dict, init=False)
    relevant: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.trie = self.trie.merged()
        self.ban = 1 << len(self.requirements)
        self.letters = _ASCII_LETTERS | (_DIGITS if self.digits else 0)
        self.disjoint: list[DisjointConcepts] = []
        requirements, order = list(self.requirements), self.order
        for bits in overlapping_concepts(self.trie, requirements, order, self._key_continues):
            wanted = {bit: self.requirements[bit] for bit in bits}
            self.disjoint.append(
                DisjointConcepts(self.trie, wanted, order, self.variants, self._continues)
            )
            # The others are counted wherever they occur.
            self.order = ()
            for bit in bits:
                requirements[bit] = Requirement(0, None)
        self.requirements = requirements

    def build(self) -> FiniteAutomaton:
        """The automaton, without states from which no text ends."""
        choices = tuple(each.start() for each in self.disjoint)
        start = self._place((0,) * len(self.requirements), 0, frozenset({0}), choices, last=None)
        self._number(start)
        while self.waiting:
            self._expand(self.waiting.pop())
        num_states = len(self.places) + len(self.partials)
        result = byte_automaton(num_states, self.edges, self.accepting).trim()
        if result.is_empty():
            raise EmptyLanguageError(
                "no text has all of the concepts and none of the banned words; lift a ban, or "
                "allow other forms or more occurrences"
            )
        return result

    def _continues(self, character: str) -> bool:
        """Whether words go on at a character of a text."""
        if ord(character) < 128:
            return bool(self.letters >> ord(character) & 1)
        return is_letter(character)

    def _key_continues(self, key: str) -> bool:
        """Whether words go on at whatever stands in a text for a character of the trie."""
        return all(map(self._continues, self.variants[key]))

    # -- from character to character ----------------------------------------------------------

    def _matters(self, counts: tuple[int, ...], progress: int) -> int:
        """Which concepts (and bans) can still change something."""
        key = (counts, progress)
        if key not in self.relevant:
            mask = self.ban
            for i, (count, wanted) in enumerate(zip(counts, self.requirements)):
                if wanted.most is not None or count < wanted.least:
                    mask |= 1 << i
            if progress < len(self.order):
                mask |= 1 << self.order[progress]
            self.relevant[key] = mask
        return self.relevant[key]

    def _after(
        self, counts: tuple[int, ...], progress: int, nodes: Iterable[int]
    ) -> tuple[tuple[int, ...], int] | None:
        """What has been seen once the words that end here are whole words; None: a banned one."""
        ended = 0
        for node in nodes:
            ended |= self.trie.ends[node]
        if not ended:
            return counts, progress
        if ended & self.ban:
            return None
        following = list(counts)
        for i, wanted in enumerate(self.requirements):
            if not ended >> i & 1:
                continue
            if counts[i] < wanted.highest:
                following[i] += 1
            elif wanted.most is not None:
                return None
        if progress < len(self.order) and ended >> self.order[progress] & 1:
            progress += 1
        return tuple(following), progress

    def _place(
        self,
        counts: tuple[int, ...],
        progress: int,
        nodes: Iterable[int],
        choices: tuple[Choices, ...],
        last: str | None,
    ) -> _Place:
        matters = self._matters(counts, progress)
        kept = frozenset(node for node in nodes if self.trie.below[node] & matters)
        ended = False
        if self.ends_with is None or (last is not None and last in self.ends_with):
            seen = self._after(counts, progress, kept)
            if seen is not None and seen[1] == len(self.order):
                met = zip(seen[0], self.requirements)
                ended = all(count >= wanted.least for count, wanted in met) and all(
                    each.may_end(own) for each, own in zip(self.disjoint, choices)
                )
        return _Place(counts, progress, kept, choices, ended)

    def _step(self, place: _Place, character: str, letter: bool, nodes: set[int]) -> int | None:
        """The state after a character that leads to the given nodes; "" stands for any other."""
        counts, progress = place.counts, place.progress
        reached: set[int] = nodes
        if not letter:
            seen = self._after(counts, progress, place.nodes)
            if seen is None:
                return None
            counts, progress = seen
            reached = nodes | {0}
        choices = tuple(
            each.step(own, character, letter) for each, own in zip(self.disjoint, place.choices)
        )
        if not all(own.open for own in choices):
            return None
        return self._number(self._place(counts, progress, reached, choices, character or None))

    # -- from byte to byte --------------------------------------------------------------------

    def _expand(self, place: _Place) -> None:
        moves: dict[str, set[int]] = {character: set() for character in self.ends_with or ""}
        for node in place.nodes:
            for key, child in self.trie.children[node].items():
                for character in self.variants[key]:
                    moves.setdefault(character, set()).add(child)
        for each, own in zip(self.disjoint, place.choices):
            for character in each.characters(own):
                moves.setdefault(character, set())
        letter = self._step(place, "", True, set())
        other = self._step(place, "", False, set())
        beyond: list[tuple[int, int | None]] = []
        masks: dict[int | None, int] = {}
        special = 0
        for character, nodes in moves.items():
            target = self._step(place, character, self._continues(character), nodes)
            if ord(character) < 128:
                special |= 1 << ord(character)
                masks[target] = masks.get(target, 0) | 1 << ord(character)
            else:
                beyond.append((ord(character), target))
        for target, mask in ((letter, self.letters), (other, _ALL_ASCII & ~self.letters)):
            masks[target] = masks.get(target, 0) | mask & ~special
        allowed = _PRINTABLE if self.ascii_only else _ALL_ASCII
        edges = [(target, mask & allowed) for target, mask in masks.items()]
        if not self.ascii_only:
            edges += self._leads(letter, other, tuple(sorted(beyond)))
        source = self.places[place]
        self.edges += [(source, to, mask) for to, mask in edges if to is not None and mask]

    def _leads(
        self, letter: int | None, other: int | None, special: tuple[tuple[int, int | None], ...]
    ) -> list[tuple[int, int]]:
        """The edges by which characters beyond ASCII are read; special ones lead elsewhere."""
        key = (letter, other, special)
        if key not in self.leads:
            without = normalise_ranges((code, code) for code, _ in special)
            targets: dict[int | None, list[tuple[int, int]]] = {}
            for target, ranges in ((letter, _LETTERS_BEYOND), (other, _OTHERS_BEYOND)):
                targets.setdefault(target, []).extend(subtract_ranges(ranges, without))
            for code, target in special:
                targets.setdefault(target, []).append((code, code))
            self.leads[key] = self._read(
                (target, branch)
                for target, ranges in targets.items()
                if target is not None
                for branch in _lead_bytes(normalise_ranges(ranges))
            )
        return self.leads[key]

    def _read(self, branches: Iterable[tuple[int, Branch]]) -> list[tuple[int, int]]:
        """The edges (target, bytes) by which characters, or the rest of them, are read."""
        masks: dict[tuple[_Way, ...], int] = {}  # disjoint
        for target, (mask, more, rest) in branches:
            way = (target, more, rest)
            for ways, own in list(masks.items()):
                if common := own & mask:
                    longer = (*ways, way)
                    masks[ways], masks[longer] = own & ~common, common
                    mask &= ~common
            if mask:
                masks[(way,)] = mask
        return [(self._partial(ways), mask) for ways, mask in masks.items() if mask]

    def _partial(self, ways: tuple[_Way, ...]) -> int:
        """The state after some bytes of a character, or after all of them."""
        if not ways[0][1]:
            return ways[0][0]
        if ways not in self.partials:
            self.partials[ways] = state = self._fresh()
            branches = ((way[0], branch) for way in ways for branch in _later_bytes(way[2], way[1]))
            self.edges += [(state, target, mask) for target, mask in self._read(branches)]
        return self.partials[ways]

    # -- states -------------------------------------------------------------------------------

    def _fresh(self) -> int:
        number = len(self.places) + len(self.partials)
        if number >= self.state_limit:
            raise AutomatonTooLargeError(
                f"an automaton for these {len(self.requirements)} concepts has more than "
                f"{self.state_limit} states; use fewer concepts or lower counts, or raise "
                f"state_limit"
            )
        return number

    def _number(self, place: _Place) -> int:
        if place not in self.places:
            self.places[place] = number = self._fresh()
            self.waiting.append(place)
            if place.ended:
                self.accepting.append(number)
        return self.places[place]

"""One deterministic automaton for texts in which given words occur, built without products.

A state is what has been seen so far together with the places in a trie of words where the text may
be now. Places from which only words can follow that no longer matter are forgotten, which keeps the
automaton small. Words start and end where there is no letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.byte_edges import byte_automaton
from pcgcd.constraints.keywords.letters import ONLY_OTHERS, UTF8_STATES, WITHOUT_LETTERS, is_letter
from pcgcd.constraints.keywords.word_trie import WordTrie
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError

__all__ = ["Requirement", "keyword_automaton"]


_ASCII_LETTERS = sum(1 << byte for byte in range(128) if chr(byte).isalpha())
_PRINTABLE = sum(1 << byte for byte in range(0x20, 0x7F))
_ALL_ASCII = (1 << 128) - 1


class Requirement(NamedTuple):
    """How often a concept must occur: at least, and at most (None: any number)."""

    least: int
    most: int | None

    @property
    def highest(self) -> int:
        """The count above which nothing changes, or after which the text is lost."""
        return self.least if self.most is None else self.most


class _Place(NamedTuple):
    """A state between two characters.

    Attributes:
        counts: How often each concept has occurred, up to what matters.
        progress: How many of the ordered concepts have occurred in their order.
        nodes: Where in the trie the text may be; the root is among them after a non-letter.
        ended: Whether the text may end here.
    """

    counts: tuple[int, ...]
    progress: int
    nodes: frozenset[int]
    ended: bool


_Partial: TypeAlias = "tuple[str, int | None, int | None, tuple[tuple[bytes, int], ...]]"


def keyword_automaton(
    trie: WordTrie,
    requirements: Sequence[Requirement],
    *,
    variants: Mapping[str, Sequence[str]],
    order: Sequence[int],
    ends_with: str | None,
    ascii_only: bool,
    state_limit: int,
) -> FiniteAutomaton:
    """The automaton over bytes.

    Args:
        trie: The words; bit ``len(requirements)`` marks the banned ones.
        requirements: How often each concept has to occur.
        variants: For each character of the trie, the characters of the text that stand for it.
        order: The concepts that must occur one after the other.
        ends_with: The characters of which one must be last, or None.
        ascii_only: Whether the text is printable ASCII rather than any UTF-8.
        state_limit: The number of states that must not be passed.
    """
    builder = _Builder(
        trie.merged(),
        tuple(requirements),
        variants,
        tuple(order),
        ends_with,
        ascii_only,
        state_limit,
    )
    return builder.build()


class _Builder:
    def __init__(
        self,
        trie: WordTrie,
        requirements: tuple[Requirement, ...],
        variants: Mapping[str, Sequence[str]],
        order: tuple[int, ...],
        ends_with: str | None,
        ascii_only: bool,
        state_limit: int,
    ) -> None:
        self.trie = trie
        self.requirements = requirements
        self.variants = variants
        self.order = order
        self.ends_with = ends_with
        self.ascii_only = ascii_only
        self.state_limit = state_limit
        self.ban = 1 << len(requirements)
        self.places: dict[_Place, int] = {}
        self.partials: dict[_Partial, int] = {}
        self.waiting: list[_Place] = []
        self.accepting: list[int] = []
        self.edges: list[tuple[int, int, int]] = []
        self.leads: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        self.relevant: dict[tuple[tuple[int, ...], int], int] = {}

    def build(self) -> FiniteAutomaton:
        start = self._number(
            self._place((0,) * len(self.requirements), 0, frozenset({0}), last=None)
        )
        while self.waiting:
            place = self.waiting.pop()
            self._expand(place, self.places[place])
        return self._automaton(start)

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
        self, counts: tuple[int, ...], progress: int, nodes: Iterable[int], last: str | None
    ) -> _Place:
        matters = self._matters(counts, progress)
        kept = frozenset(node for node in nodes if self.trie.below[node] & matters)
        ended = False
        if self.ends_with is None or (last is not None and last in self.ends_with):
            seen = self._after(counts, progress, kept)
            ended = seen is not None and self._satisfied(*seen)
        return _Place(counts, progress, kept, ended)

    def _satisfied(self, counts: tuple[int, ...], progress: int) -> bool:
        return progress == len(self.order) and all(
            count >= wanted.least for count, wanted in zip(counts, self.requirements)
        )

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
        return self._number(self._place(counts, progress, reached, character or None))

    # -- from byte to byte --------------------------------------------------------------------

    def _expand(self, place: _Place, source: int) -> None:
        moves: dict[str, set[int]] = {}
        for node in place.nodes:
            for key, child in self.trie.children[node].items():
                for character in self.variants[key]:
                    moves.setdefault(character, set()).add(child)
        for character in self.ends_with or "":
            moves.setdefault(character, set())
        letter = self._step(place, "", True, set())
        other = self._step(place, "", False, set())
        masks: dict[int, int] = {}
        beyond: list[tuple[bytes, int]] = []
        special = 0
        for character, nodes in moves.items():
            target = self._step(place, character, is_letter(character), nodes)
            if ord(character) < 128:
                special |= 1 << ord(character)
                if target is not None:
                    masks[target] = masks.get(target, 0) | 1 << ord(character)
            else:
                beyond.append((character.encode(), -1 if target is None else target))
        allowed = _PRINTABLE if self.ascii_only else _ALL_ASCII
        for target, group in (
            (letter, _ASCII_LETTERS),
            (other, _ALL_ASCII & ~_ASCII_LETTERS),
        ):
            if target is not None:
                masks[target] = masks.get(target, 0) | group & ~special
        for target, mask in masks.items():
            if mask & allowed:
                self.edges.append((source, target, mask & allowed))
        if not self.ascii_only:
            for target, mask in self._bytes("lead", letter, other, tuple(sorted(beyond))):
                self.edges.append((source, target, mask))

    def _bytes(
        self,
        kind: str,
        letter: int | None,
        other: int | None,
        special: tuple[tuple[bytes, int], ...],
    ) -> list[tuple[int, int]]:
        """The edges (target, bytes) from a state in the middle of a character.

        Args:
            kind: The state of the decoder, a key of the table.
            letter: Where a letter leads.
            other: Where another character leads.
            special: The rest of the bytes of characters that lead elsewhere (-1: nowhere).
        """
        key = (kind, letter, other, special)
        if key in self.leads:
            return self.leads[key]
        masks: dict[int, int] = {}
        firsts = {text[0] for text, _ in special}
        for first, last, following in UTF8_STATES[kind]:
            plain = 0
            for byte in range(first, last + 1):
                if byte not in firsts:
                    plain |= 1 << byte
                    continue
                rest = tuple((text[1:], state) for text, state in special if text[0] == byte)
                target = self._partial(following, letter, other, rest)
                if target is not None:
                    masks[target] = masks.get(target, 0) | 1 << byte
            if plain:
                target = self._partial(following, letter, other, ())
                if target is not None:
                    masks[target] = masks.get(target, 0) | plain
        self.leads[key] = list(masks.items())
        return self.leads[key]

    def _partial(
        self,
        kind: str,
        letter: int | None,
        other: int | None,
        special: tuple[tuple[bytes, int], ...],
    ) -> int | None:
        """The state after some bytes of a character, or after all of them."""
        if special and not special[0][0]:
            return None if special[0][1] < 0 else special[0][1]
        if kind in "LN":
            return letter if kind == "L" else other
        if not special:
            if letter == other:
                kind = WITHOUT_LETTERS.get(kind, kind)
            if kind in ONLY_OTHERS:
                letter = None
                if other is None:
                    return None
            elif kind == "l1":
                other = None
                if letter is None:
                    return None
        key = (kind, letter, other, special)
        if key not in self.partials:
            self.partials[key] = state = self._fresh()
            for target, mask in self._bytes(*key):
                self.edges.append((state, target, mask))
        return self.partials[key]

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
            number = self._fresh()
            self.places[place] = number
            self.waiting.append(place)
            if place.ended:
                self.accepting.append(number)
        return self.places[place]

    def _automaton(self, start: int) -> FiniteAutomaton:
        num_states = len(self.places) + len(self.partials)
        useful = _useful_states(self.edges, self.accepting, num_states)
        if not useful[start]:
            raise EmptyLanguageError(
                "no text has all of the concepts and none of the banned words; lift a ban, or "
                "allow other forms or more occurrences"
            )
        renumbered = (np.cumsum(useful) - 1).tolist()
        kept = (
            (renumbered[source], renumbered[target], mask)
            for source, target, mask in self.edges
            if useful[source] and useful[target]
        )
        return byte_automaton(
            renumbered[-1] + 1,
            kept,
            [renumbered[state] for state in self.accepting],
            initial=renumbered[start],
        )


def _useful_states(
    edges: list[tuple[int, int, int]], accepting: list[int], num_states: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """From which states an accepting one can be reached."""
    before: list[list[int]] = [[] for _ in range(num_states)]
    for source, target, _ in edges:
        before[target].append(source)
    useful = np.zeros(num_states, dtype=np.bool_)
    useful[accepting] = True
    waiting = list(accepting)
    while waiting:
        for source in before[waiting.pop()]:
            if not useful[source]:
                useful[source] = True
                waiting.append(source)
    return useful

"""Disjoint occurrences of concepts whose forms overlap.

The two words "hot dog" can be taken for the concept "dog" or for "hot dog", but not for both. All
ways of taking occurrences are followed at once, except those that cannot turn out better than
another one. Concepts without overlaps need none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pcgcd.constraints.keywords.requirement import Requirement
from pcgcd.constraints.keywords.word_trie import WordTrie

_OUTSIDE = -1  # the node of a choice that is in no occurrence, where no word starts either
_NOWHERE: frozenset[int] = frozenset()


class Choice(NamedTuple):
    """Which occurrences are taken, as far as it matters for what follows.

    A bounded concept is one that may occur only so many times. What lies inside an occurrence that
    is taken does not count for that.
    """

    taken: tuple[int, ...]  # occurrences of each concept, up to those that must be
    found: tuple[int, ...]  # occurrences of each bounded concept, 0 for the others
    progress: int  # how many of the ordered concepts are taken in their order
    node: int  # where in the trie the occurrence is that is being taken; 0 where one may start
    inside: frozenset[int]  # where bounded words may be that started in this occurrence
    outside: frozenset[int]  # where other bounded words may be

    @property
    def is_outside(self) -> bool:
        """Whether no occurrence is being taken."""
        return self.node <= 0


class Choices(NamedTuple):
    """The choices between two characters; none if the text is lost."""

    open: frozenset[Choice]
    fresh: bool  # whether a word may start here with a character that is no letter


class DisjointConcepts:
    """Some concepts, of which every word of the text is taken for one at most."""

    def __init__(
        self,
        trie: WordTrie,
        requirements: Mapping[int, Requirement],
        order: Sequence[int],
        variants: Mapping[str, Sequence[str]],
        continues: Callable[[str], bool],
    ) -> None:
        """Prepare to follow the choices.

        Args:
            trie: The words of all concepts, merged: children have lower numbers than parents.
            requirements: How often each of these concepts must occur, by its bit.
            order: The concepts that must occur one after the other.
            variants: What stands in a text for a character of the trie.
            continues: Whether words go on at a character.
        """
        self.concepts = sum(1 << i for i in requirements)
        self.bounded = sum(1 << i for i, each in requirements.items() if each.most is not None)
        self.bits = tuple(requirements)
        self.requirements = tuple(requirements.values())
        self.order = order
        self.ends = trie.ends
        self.below = trie.below
        self.children = [
            {character: child for key, child in node.items() for character in variants[key]}
            for node in trie.children
        ]
        # The concepts of the words that end at or below a node; the root is the last one.
        self.endings: list[frozenset[int]] = [_NOWHERE] * len(trie.children)
        for node in [*range(1, len(trie.children)), 0]:
            own = {self.ends[node] & self.concepts} - {0}
            below = (self.endings[child] for child in trie.children[node].values())
            self.endings[node] = frozenset(own).union(*below)
        self.starts_freshly = not all(map(continues, self.children[0]))
        self._after: dict[tuple[Choices, str, bool], Choices] = {}

    def start(self) -> Choices:
        """The choice before the first character."""
        none = (0,) * len(self.bits)
        return self._best([Choice(none, none, 0, 0, _NOWHERE, self._root())], fresh=True)

    def characters(self, choices: Choices) -> set[str]:
        """The characters by which words start or go on."""
        nodes = {0} if choices.fresh else set[int]()
        for choice in choices.open:
            nodes |= {choice.node} | choice.inside | choice.outside
        return {character for node in nodes - {_OUTSIDE} for character in self.children[node]}

    def step(self, choices: Choices, character: str, letter: bool) -> Choices:
        """The choices after a character; "" stands for any by which no word goes on."""
        key = (choices, character, letter)
        if key not in self._after:
            here = choices.open if letter else self._settled(choices)
            found = [new for choice in here for new in self._moved(choice, character, letter)]
            self._after[key] = self._best(found, fresh=not letter)
        return self._after[key]

    def may_end(self, choices: Choices) -> bool:
        """Whether a text that ends here has what is required."""
        return any(
            choice.is_outside
            and choice.progress == len(self.order)
            and all(count >= each.least for count, each in zip(choice.taken, self.requirements))
            for choice in self._settled(choices)
        )

    # -- one choice ---------------------------------------------------------------------------

    def _settled(self, choices: Choices) -> Iterator[Choice]:
        """The choices once the words that end here are whole words."""
        for choice in choices.open:
            passed = self._ending(choice.outside)
            found = self._counted(choice.found, passed)
            if found is not None:
                yield choice._replace(found=found)
            own = 0 if choice.is_outside else self.ends[choice.node] & self.concepts
            found = self._counted(choice.found, passed | own)
            if own and found is not None:
                taken, progress = self._with(choice, own)
                node = 0 if choices.fresh else _OUTSIDE
                yield Choice(taken, found, progress, node, _NOWHERE, choice.inside | choice.outside)

    def _moved(self, choice: Choice, character: str, letter: bool) -> Iterator[Choice]:
        """The ways on from a choice by a character."""
        start = _NOWHERE if letter else self._root()
        inside, outside = choice.inside, choice.outside
        if choice.is_outside:
            yield choice._replace(
                node=_OUTSIDE if letter else 0, outside=self._along(outside, character) | start
            )
            inside, outside = outside & {0}, outside - {0}
        following = None
        if choice.node != _OUTSIDE:
            following = self.children[choice.node].get(character)
        if following is not None:
            yield choice._replace(
                node=following,
                inside=self._along(inside, character) | start,
                outside=self._along(outside, character),
            )

    def _root(self) -> frozenset[int]:
        return frozenset({0}) if self.bounded else _NOWHERE

    def _along(self, nodes: Iterable[int], character: str) -> frozenset[int]:
        following = (self.children[node].get(character) for node in nodes)
        return frozenset(n for n in following if n is not None and self.below[n] & self.bounded)

    def _ending(self, nodes: Iterable[int]) -> int:
        mask = 0
        for node in nodes:
            mask |= self.ends[node]
        return mask

    def _counted(self, found: tuple[int, ...], ended: int) -> tuple[int, ...] | None:
        """How often bounded concepts have occurred after those that end here; None: too often."""
        ended &= self.bounded
        if not ended:
            return found
        result = tuple(count + (ended >> bit & 1) for count, bit in zip(found, self.bits))
        lost = any(
            wanted.most is not None and count > wanted.most
            for count, wanted in zip(result, self.requirements)
        )
        return None if lost else result

    def _with(self, choice: Choice, ended: int) -> tuple[tuple[int, ...], int]:
        """What is taken, and in order, together with an occurrence of the given concepts."""
        taken = tuple(
            min(count + (ended >> bit & 1), wanted.least)
            for count, bit, wanted in zip(choice.taken, self.bits, self.requirements)
        )
        progress = choice.progress
        if progress < len(self.order) and ended >> self.order[progress] & 1:
            progress += 1
        return taken, progress

    # -- the choices that can turn out best ---------------------------------------------------

    def _best(self, found: Iterable[Choice], fresh: bool) -> Choices:
        """Leave out each choice that is never better than the others."""
        kept: list[Choice] = []
        for choice in dict.fromkeys(found):
            if not any(self._covers(other, choice) for other in kept):
                kept = [other for other in kept if not self._covers(choice, other)]
                kept.append(choice)
        if not self.bounded:
            outside = [choice for choice in kept if choice.is_outside]
            kept = [self._at_rest(choice) for choice in outside] + [
                choice
                for choice in kept
                if not choice.is_outside and not self._is_useless(choice, outside)
            ]
        return Choices(frozenset(kept), fresh and self.starts_freshly)

    def _covers(self, better: Choice, choice: Choice) -> bool:
        """Whether the first choice is no worse than the second one, whatever follows."""
        return (
            better.node == choice.node
            and better.progress >= choice.progress
            and all(more >= less for more, less in zip(better.taken, choice.taken))
            and all(less <= more for less, more in zip(better.found, choice.found))
            and better.outside <= choice.outside
        )

    def _is_useless(self, choice: Choice, outside: Sequence[Choice]) -> bool:
        """Whether the others are no worse, however the occurrence of a choice ends."""
        ways = (self._with(choice, mask) for mask in self.endings[choice.node])
        return all(
            any(
                other.progress >= progress
                and all(more >= less for more, less in zip(other.taken, taken))
                for other in outside
            )
            for taken, progress in ways
        )

    def _at_rest(self, choice: Choice) -> Choice:
        """The same choice, not at a start from which nothing is gained."""
        gain = self._with(choice, self.below[0]) != (choice.taken, choice.progress)
        return choice._replace(node=_OUTSIDE) if choice.node == 0 and not gain else choice

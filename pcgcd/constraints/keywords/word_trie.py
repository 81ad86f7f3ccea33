"""Words by their characters, for automata that look for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class WordTrie:
    """Words by their characters. Bit i of a mask stands for concept i, the last one for bans."""

    children: list[dict[str, int]] = field(default_factory=lambda: [{}])
    ends: list[int] = field(default_factory=lambda: [0])
    below: list[int] = field(default_factory=lambda: [0])

    def insert(self, word: Iterable[str], bit: int) -> None:
        """Add a word of the concept with the given bit."""
        node = 0
        self.below[0] |= 1 << bit
        for character in word:
            following = self.children[node].get(character)
            if following is None:
                following = len(self.children)
                self.children[node][character] = following
                self.children.append({})
                self.ends.append(0)
                self.below.append(0)
            node = following
            self.below[node] |= 1 << bit
        self.ends[node] |= 1 << bit

    def merged(self) -> WordTrie:
        """A graph of the same words in which what goes on alike is one node."""
        number: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}
        result = WordTrie()
        merged = [0] * len(self.children)
        for node in range(len(self.children) - 1, -1, -1):
            children = {key: merged[child] for key, child in self.children[node].items()}
            if node == 0:
                result.children[0], result.below[0] = children, self.below[0]
                break
            shape = (self.ends[node], tuple(sorted(children.items())))
            if shape not in number:
                number[shape] = len(result.children)
                result.children.append(children)
                result.ends.append(self.ends[node])
                result.below.append(self.below[node])
            merged[node] = number[shape]
        return result

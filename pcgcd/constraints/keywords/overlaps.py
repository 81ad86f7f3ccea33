"""Which concepts can share words: those of which a form contains or overlaps one of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pcgcd.constraints.keywords.requirement import Requirement
from pcgcd.constraints.keywords.word_trie import WordTrie


def overlapping_concepts(
    trie: WordTrie,
    requirements: Sequence[Requirement],
    order: Sequence[int],
    continues: Callable[[str], bool],
) -> list[tuple[int, ...]]:
    """Return the sets of concepts for which it matters how overlapping occurrences are taken.

    Args:
        trie: The words of all concepts.
        requirements: How often each concept must occur.
        order: The concepts that must occur one after the other.
        continues: Whether words go on at a character of the trie.
    """
    everything = range(len(requirements))
    bounded = [each.most is not None for each in requirements]
    wanted = [each.least > 0 or i in order for i, each in enumerate(requirements)]
    groups = [{i} for i in everything]
    overlapping: set[int] = set()
    for i, j in _overlaps(trie, (1 << len(requirements)) - 1, continues):
        repeated = i == j and requirements[i].least > 1
        if bounded[i] or bounded[j] or repeated or (i != j and wanted[i] and wanted[j]):
            overlapping |= {i, j}
            if groups[i] is not groups[j]:
                groups[i] |= groups[j]
                for k in groups[i]:
                    groups[k] = groups[i]
    if overlapping and order:
        return [tuple(everything)]  # the order ties them together
    return sorted({tuple(sorted(groups[i])) for i in overlapping})


def _overlaps(
    trie: WordTrie, concepts: int, continues: Callable[[str], bool]
) -> set[tuple[int, int]]:
    """Pairs of concepts, or of a concept and itself, that can share some of their words.

    Occurrences of the same words are one that counts for both, and those of one concept that end at
    the same place count once.
    """
    result: set[tuple[int, int]] = set()
    seen: set[tuple[int, int, bool]] = set()
    for one, other, same_end in _overlapping_words(trie, continues):
        if (one, other, same_end) not in seen:
            seen.add((one, other, same_end))
            others = tuple(_bits(other & concepts))
            pairs = ((i, j) for i in _bits(one & concepts) for j in others)
            result.update((i, j) for i, j in pairs if i != j or not same_end)
    return result


def _overlapping_words(
    trie: WordTrie, continues: Callable[[str], bool]
) -> Iterator[tuple[int, int, bool]]:
    """The concepts of a word, those of another one that overlaps it, and whether both end alike."""
    for word, concepts in _words(trie):
        starts = [i for i in range(len(word)) if not i or not continues(word[i - 1])]
        for start in starts:
            node = 0
            for place in range(start, len(word)):
                if word[place] not in trie.children[node]:
                    break
                node = trie.children[node][word[place]]
                if place + 1 == len(word):
                    if start:
                        yield concepts, trie.ends[node], True
                    for character, child in trie.children[node].items():
                        if not continues(character):
                            yield concepts, trie.below[child], False
                elif trie.ends[node] and not continues(word[place + 1]):
                    yield concepts, trie.ends[node], False


def _words(trie: WordTrie) -> Iterator[tuple[str, int]]:
    """The words, each with its concepts."""
    waiting = [(0, "")]
    while waiting:
        node, word = waiting.pop()
        if trie.ends[node]:
            yield word, trie.ends[node]
        waiting += [(child, word + key) for key, child in trie.children[node].items()]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1

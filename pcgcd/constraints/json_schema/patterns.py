"""What the patterns of a schema find: in a given text, and as expressions over quoted strings."""

from __future__ import annotations

from functools import lru_cache, partial

from pcgcd.automata.expressions import Expression, star
from pcgcd.constraints.json_schema.characters import ALL_CHARACTERS, JSON, Notation, spell_set
from pcgcd.constraints.regex.ecma_syntax import parse_ecma
from pcgcd.constraints.regex.lowering import lower
from pcgcd.constraints.regex.tree import (
    Assertion,
    Characters,
    Choice,
    Look,
    Node,
    Repetition,
    Sequence,
    found,
)

_FEW_TEXTS = 32


@lru_cache(maxsize=4096)
def searched(source: str, wide: bool = False, notation: Notation = JSON) -> Expression:
    """The strings, without quotes, in which a pattern is found, in one of its two readings."""
    return lower(found(parse_ecma(source, wide)), partial(spell_set, notation=notation))


@lru_cache(maxsize=4096)
def not_found(source: str, notation: Notation = JSON) -> Expression:
    """The strings, without quotes, in which a pattern is found under no reading."""
    return star(spell_set(ALL_CHARACTERS, notation)) - searched(source, True, notation)


@lru_cache(maxsize=4096)
def listed(source: str) -> tuple[str, ...] | None:
    """The texts in which a pattern is found, if they are few and it is the same in both readings.

    >>> listed("^(?:get|put)s?$"), listed("^a"), listed("^a*$")
    (('get', 'gets', 'put', 'puts'), None, None)
    """
    tree = parse_ecma(source, False)
    whole = tree.options if isinstance(tree, Choice) else (tree,)
    result: dict[str, None] = {}
    for node in whole:
        parts = node.parts if isinstance(node, Sequence) else ()
        if len(parts) < 2 or (parts[0], parts[-1]) != (Assertion("start"), Assertion("end")):
            return None
        texts = _texts(Sequence(parts[1:-1]))
        if texts is None:
            return None
        result.update(dict.fromkeys(texts))
    return tuple(result) if tree == parse_ecma(source, True) else None


def _texts(node: Node) -> list[str] | None:
    """All texts of a node, if they are few."""
    result: list[str] | None = None
    if isinstance(node, Characters):
        if sum(last - first + 1 for first, last in node.ranges) <= _FEW_TEXTS:
            result = [chr(c) for first, last in node.ranges for c in range(first, last + 1)]
    elif isinstance(node, Choice):
        options = [_texts(option) for option in node.options]
        if None not in options:
            result = [text for texts in options for text in texts or ()]
    elif isinstance(node, Sequence):
        result = [""]
        for part in node.parts:
            texts = _texts(part)
            if texts is None or len(result) * len(texts) > _FEW_TEXTS:
                return None
            result = [before + text for before in result for text in texts]
    elif isinstance(node, Repetition) and node.most is not None and node.most <= _FEW_TEXTS:
        counts = range(node.least, node.most + 1)
        return _texts(Choice(tuple(Sequence((node.body,) * count) for count in counts)))
    return result if result is None or len(result) <= _FEW_TEXTS else None


def finds(source: str, text: str, wide: bool = False) -> bool:
    """Return whether a pattern is found in a text.

    >>> finds("^a+$", "aa"), finds("^a+$", "ab")
    (True, False)
    """
    tree = parse_ecma(source, wide)
    return any(_ends(tree, text, start) for start in range(len(text) + 1))


def _ends(node: Node, text: str, start: int) -> set[int]:
    """Where a match that begins at ``start`` may end."""
    if isinstance(node, Characters):
        fits = start < len(text) and any(a <= ord(text[start]) <= b for a, b in node.ranges)
        return {start + 1} if fits else set()
    if isinstance(node, Assertion):
        return {start} if start == (0 if node.kind == "start" else len(text)) else set()
    if isinstance(node, Look):
        return {start} if (len(text) in _ends(node.body, text, start)) == node.positive else set()
    if isinstance(node, Choice):
        return set().union(*(_ends(option, text, start) for option in node.options))
    if isinstance(node, Sequence):
        current = {start}
        for part in node.parts:
            current = set().union(*(_ends(part, text, place) for place in current))
        return current
    current, result = {start}, {start} if node.least == 0 else set()
    for count in range(1, len(text) + 1 + node.least if node.most is None else node.most + 1):
        current = set().union(*(_ends(node.body, text, place) for place in current))
        if not current or (count >= node.least and current <= result):
            break
        if count >= node.least:
            result |= current
    return result

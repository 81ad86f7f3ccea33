"""What a pattern finds: in a given text, and as an expression over quoted strings."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    complement,
    concatenation,
    intersection,
    repeat,
    star,
    union,
)
from pcgcd.constraints.json_schema.characters import ALL_CHARACTERS, JSON, Notation, spell_set
from pcgcd.constraints.json_schema.patterns import (
    Chars,
    Choice,
    Edge,
    Look,
    Pattern,
    Repeated,
    Sequence,
    parse_pattern,
)
from pcgcd.errors import UnsupportedConstraintError

__all__ = ["finds", "not_found", "searched"]


@lru_cache(maxsize=4096)
def searched(source: str, wide: bool = False, notation: Notation = JSON) -> Expression:
    """The strings, without quotes, in which a pattern is found somewhere.

    Args:
        source: The pattern.
        wide: Take the larger reading of classes on which ECMA-262 and Python disagree.
        notation: How the strings are written.
    """
    return _Language(source, wide, notation).searched(parse_pattern(source))


@lru_cache(maxsize=4096)
def not_found(source: str, notation: Notation = JSON) -> Expression:
    """The strings, without quotes, in which a pattern is found under no reading."""
    text = star(spell_set(ALL_CHARACTERS, notation))
    return intersection(text, complement(searched(source, True, notation)))


class _Part(NamedTuple):
    """What a pattern matches, by whether the match must touch the edges of the text."""

    start: bool
    end: bool
    empty: bool
    filled: Expression


class _Language:
    def __init__(self, source: str, wide: bool, notation: Notation) -> None:
        self.source = source
        self.wide = wide
        self.notation = notation
        self.anything = star(spell_set(ALL_CHARACTERS, notation))

    def searched(self, pattern: Pattern) -> Expression:
        if isinstance(pattern, Choice):
            return union(*(self.searched(option) for option in pattern.options))
        parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
        for i, part in enumerate(parts):
            if isinstance(part, Look):
                return self.ahead(Sequence(parts[:i]), part, Sequence(parts[i + 1 :]))
        return self.framed(self.parts(pattern), from_start=False)

    def ahead(self, before: Sequence, look: Look, after: Sequence) -> Expression:
        body = self.rest(look.body, self.wide if look.positive else not self.wide)
        following = intersection(self.rest(after, self.wide), body if look.positive else ~body)
        options = []
        for part in self.parts(before):
            head = union(EMPTY_STRING if part.empty else NOTHING, part.filled)
            if not part.end:
                lead = EMPTY_STRING if part.start else self.anything
                options.append(concatenation(lead, head, following))
            elif part.empty:
                raise self.error("a look-ahead after the end")
        return union(*options)

    def rest(self, pattern: Pattern, wide: bool) -> Expression:
        """All that may follow a place from which the pattern matches."""
        language = _Language(self.source, wide, self.notation)
        if isinstance(pattern, Choice):
            return union(*(language.rest(option, wide) for option in pattern.options))
        parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
        for i, part in enumerate(parts):
            if isinstance(part, Look):
                head = language.plain(Sequence(parts[:i]))
                body = language.rest(part.body, wide if part.positive else not wide)
                tail = language.rest(Sequence(parts[i + 1 :]), wide)
                return concatenation(head, intersection(tail, body if part.positive else ~body))
        return language.framed(language.parts(pattern), from_start=True)

    def framed(self, parts: list[_Part], from_start: bool) -> Expression:
        options = []
        for part in parts:
            if part.start and from_start and part.filled != NOTHING:
                raise self.error("an anchor inside a look-ahead")
            core = union(EMPTY_STRING, part.filled) if part.empty else part.filled
            lead = EMPTY_STRING if part.start or from_start else self.anything
            options.append(concatenation(lead, core, EMPTY_STRING if part.end else self.anything))
        return union(*options)

    def plain(self, pattern: Pattern) -> Expression:
        """The language of a pattern without assertions."""
        if isinstance(pattern, Chars):
            return spell_set(pattern.wide if self.wide else pattern.narrow, self.notation)
        if isinstance(pattern, Sequence):
            return concatenation(*(self.plain(part) for part in pattern.parts))
        if isinstance(pattern, Choice):
            return union(*(self.plain(option) for option in pattern.options))
        if isinstance(pattern, Repeated):
            return repeat(self.plain(pattern.body), pattern.least, pattern.most)
        raise self.error("an assertion in a place where it cannot be followed")

    def parts(self, pattern: Pattern) -> list[_Part]:
        if isinstance(pattern, Edge):
            return [_Part(pattern.start, not pattern.start, True, NOTHING)]
        if isinstance(pattern, Choice) and _asserts(pattern):
            return [part for option in pattern.options for part in self.parts(option)]
        if isinstance(pattern, Repeated) and _asserts(pattern):
            return self.repeated(pattern)
        if isinstance(pattern, Sequence) and _asserts(pattern):
            result = [_Part(False, False, True, NOTHING)]
            for part in self.runs(pattern.parts):
                result = [self.joined(a, b) for a in result for b in part]
                if len(result) > 256:
                    raise self.error("too many anchored alternatives")
            return [part for part in result if part.empty or part.filled != NOTHING]
        whole = self.plain(pattern)
        empty = finds(Sequence((Edge(True), pattern, Edge(False))), "")
        if whole == EMPTY_STRING:
            return [_Part(False, False, True, NOTHING)]
        return [_Part(False, False, empty, _filled(self, pattern) if empty else whole)]

    def runs(self, parts: tuple[Pattern, ...]) -> list[list[_Part]]:
        """The parts of a sequence, those without assertions taken together."""
        result: list[list[_Part]] = []
        run: list[Pattern] = []
        for part in (*parts, None):
            if part is not None and not _asserts(part):
                run.append(part)
                continue
            if run:
                result.append(self.parts(Sequence(tuple(run))))
                run = []
            if part is not None:
                result.append(self.parts(part))
        return result

    def repeated(self, pattern: Repeated) -> list[_Part]:
        if pattern.most is None or pattern.most > 1:
            raise self.error("an anchor under a repeat")
        inner = self.parts(pattern.body)
        return inner if pattern.least else [_Part(False, False, True, NOTHING), *inner]

    def joined(self, first: _Part, second: _Part) -> _Part:
        """One after the other: nothing comes after an end nor before a start."""
        options = []
        if not (first.end or second.start):
            options.append(concatenation(first.filled, second.filled))
        if first.empty and not first.end:
            options.append(second.filled)
        if second.empty and not second.start:
            options.append(first.filled)
        return _Part(
            first.start or second.start,
            first.end or second.end,
            first.empty and second.empty,
            union(*options),
        )

    def error(self, what: str) -> UnsupportedConstraintError:
        return UnsupportedConstraintError(
            f"the pattern {self.source[:200]!r} has {what}; write it without, or leave the keyword "
            f"out with strict=False"
        )


def _filled(language: _Language, pattern: Pattern) -> Expression:
    """The language without the empty text."""
    return intersection(language.plain(pattern), complement(EMPTY_STRING))


def _asserts(pattern: Pattern) -> bool:
    if isinstance(pattern, Edge | Look):
        return True
    if isinstance(pattern, Sequence):
        return any(_asserts(part) for part in pattern.parts)
    if isinstance(pattern, Choice):
        return any(_asserts(option) for option in pattern.options)
    return isinstance(pattern, Repeated) and _asserts(pattern.body)


# -- one text -----------------------------------------------------------------------------------


def finds(pattern: str | Pattern, text: str, wide: bool = False) -> bool:
    """Whether the pattern is found in a text.

    >>> finds("^a+$", "aa"), finds("^a+$", "ab")
    (True, False)
    """
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    return any(_ends(tree, text, start, wide) for start in range(len(text) + 1))


def _ends(pattern: Pattern, text: str, start: int, wide: bool) -> set[int]:
    """Where a match that begins at ``start`` may end."""
    if isinstance(pattern, Chars):
        ranges = pattern.wide if wide else pattern.narrow
        fits = start < len(text) and any(a <= ord(text[start]) <= b for a, b in ranges)
        return {start + 1} if fits else set()
    if isinstance(pattern, Edge):
        return {start} if start == (0 if pattern.start else len(text)) else set()
    if isinstance(pattern, Look):
        seen = _ends(pattern.body, text, start, wide if pattern.positive else not wide)
        return {start} if bool(seen) == pattern.positive else set()
    if isinstance(pattern, Choice):
        return set().union(*(_ends(option, text, start, wide) for option in pattern.options))
    if isinstance(pattern, Sequence):
        current = {start}
        for part in pattern.parts:
            current = set().union(*(_ends(part, text, place, wide) for place in current))
        return current
    current, result = {start}, {start} if pattern.least == 0 else set()
    for count in range(
        1, (len(text) + 1 + pattern.least) if pattern.most is None else pattern.most + 1
    ):
        following = set().union(*(_ends(pattern.body, text, place, wide) for place in current))
        if count >= pattern.least:
            if following <= result:
                break
            result |= following
        current = following
        if not current:
            break
    return result

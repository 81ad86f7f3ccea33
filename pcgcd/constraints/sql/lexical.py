"""The smallest parts of queries: spaces, words, names, numbers, strings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pcgcd.constraints.sql.diagram import (
    Diagram,
    Part,
    byte,
    compact,
    either,
    mask_of,
    maybe,
    names,
    repeated,
    then,
    word,
)

# Words that SQLite does not take as names, or takes for something else.
_NOT_NAMES = """
    add all alter and as asc autoincrement between by case cast check collate commit constraint
    create cross current_date current_time current_timestamp default deferrable delete desc
    distinct drop else end escape except exists false filter foreign from full glob group having
    in index indexed inner insert intersect into is isnull join left like limit match natural
    not nothing notnull null offset on or order outer over primary raise references regexp
    returning right select set table then to transaction true union unique update using values
    when where window with
"""
RESERVED = frozenset(_NOT_NAMES.split())
_PLAIN_NAME = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
_LETTERS = [*range(65, 91), *range(97, 123)]
_DIGITS = range(48, 58)
_NO_LETTERS = [*_DIGITS, ord("_")]
_NAME_BYTES = [*_LETTERS, *_NO_LETTERS]


def spellings(name: str) -> tuple[str, ...]:
    """How a name is written: as it is if SQLite takes it so, otherwise in quotes.

    >>> spellings("city"), spellings("order")
    (('city',), ('"order"', '`order`', '[order]'))
    """
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED:
        return (name,)
    return quotations(name)


@dataclass(frozen=True)
class Lexicon:
    """The parts that the rest is drawn from, but for the names of tables and columns.

    Wherever white space may stand, it is one character: a blank, or the end of a line in front of
    a clause. There is none before commas, nor inside of parentheses.
    """

    _made: dict[tuple[str, ...], Part] = field(default_factory=dict, compare=False, repr=False)

    # -- spaces and words ---------------------------------------------------------------------

    @cached_property
    def space(self) -> Part:
        """One blank."""
        return byte(b" ")

    @cached_property
    def gap(self) -> Part:
        """One blank or none."""
        return compact(maybe(self.space))

    @cached_property
    def line(self) -> Part:
        """One blank, or the end of a line, before a clause."""
        return byte(b" \n")

    def words(self, text: str) -> Part:
        """Keywords with blanks between them."""
        first, *others = text.split()
        parts = [word(first)]
        for other in others:
            parts += [self.space, word(other)]
        return then(*parts)

    def sign(self, *texts: str) -> Part:
        """One of several signs, each side with a blank or without."""
        return self._once(("sign", *texts), then(self.gap, names(texts), self.gap))

    @cached_property
    def comma(self) -> Part:
        """A comma, with a blank after it or without."""
        return compact(then(byte(b","), self.gap))

    def phrase(self, *texts: str) -> Part:
        """One of several phrases; common beginnings are drawn once."""
        heads = dict.fromkeys(text.partition(" ")[0] for text in texts)
        parts = []
        for head in heads:
            rests = [text.partition(" ")[2] for text in texts if text.split()[0] == head]
            more = [rest for rest in rests if rest]
            tail = then(self.space, self.phrase(*more)) if more else then()
            parts.append(then(word(head), maybe(tail) if "" in rests and more else tail))
        return either(*parts)

    def infix(self, *texts: str) -> Part:
        """One of several phrases, with blanks around it."""
        part = then(self.space, self.phrase(*texts), self.space)
        return self._once(("infix", *texts), part)

    def clause(self, *texts: str) -> Part:
        """The beginning of a clause: one of several phrases, maybe on a line of its own."""
        return self._once(("clause", *texts), then(self.line, self.phrase(*texts), self.space))

    @cached_property
    def set_operation(self) -> Part:
        """A set operation between two queries, maybe on a line of its own."""
        operation = self.phrase("union", "union all", "intersect", "except")
        return compact(then(self.line, operation, self.line))

    def _once(self, key: tuple[str, ...], part: Part) -> Part:
        return self._made.setdefault(key, compact(part))

    @cached_property
    def opening(self) -> Part:
        """A parenthesis that opens."""
        return byte(b"(")

    @cached_property
    def closing(self) -> Part:
        """A parenthesis that closes."""
        return byte(b")")

    @cached_property
    def is_in(self) -> Part:
        """``IN`` or ``NOT IN``."""
        return compact(then(maybe(word("not"), self.space), word("in"), self.gap))

    def enclosed(self, part: Part) -> Part:
        """A part in parentheses."""
        return then(self.opening, part, self.closing)

    def listed(self, part: Part) -> Part:
        """A part once or more, with commas."""
        return repeated(part, self.comma)

    @cached_property
    def direction(self) -> Part:
        """``ASC`` or ``DESC``, or neither."""
        return maybe(self.space, names(("asc", "desc")))

    # -- literals -----------------------------------------------------------------------------

    @cached_property
    def integer(self) -> Part:
        """Digits."""
        return repeated(byte(_DIGITS))

    @cached_property
    def number(self) -> Part:
        """An integer or a decimal number, with or without a sign."""
        return then(maybe(byte(b"-")), self.integer, maybe(byte(b"."), self.integer))

    @cached_property
    def string(self) -> Part:
        """Text in single or double quotes; SQLite takes both. The quote itself is doubled."""
        return compact(either(_quoted(ord("'")), _quoted(ord('"'))))

    @cached_property
    def short_literal(self) -> Part:
        """A number, or a string in single quotes."""
        return compact(either(self.number, _quoted(ord("'"))))

    @cached_property
    def literal(self) -> Part:
        """A number or a string."""
        return compact(either(self.number, self.string))

    @cached_property
    def rare_literal(self) -> Part:
        """What else stands for a value: blobs, other spellings of numbers, words."""
        hexadecimal = byte(b"0123456789abcdefABCDEF")
        pairs = maybe(repeated(then(hexadecimal, hexadecimal)))
        exponent = then(byte(b"eE"), maybe(byte(b"+-")), self.integer)
        return either(
            then(byte(b"xX"), byte(b"'"), pairs, byte(b"'")),
            then(byte(b"0"), byte(b"xX"), *[hexadecimal] * 2),
            then(self.integer, maybe(byte(b"."), self.integer), exponent),
            then(byte(b"."), self.integer),
            names(("true", "false", "current_date", "current_time", "current_timestamp")),
        )

    # -- names --------------------------------------------------------------------------------

    @cached_property
    def label(self) -> Part:
        """A name that nothing refers to: letters, digits and _, but no reserved word."""
        return compact(_names_but(RESERVED, max(map(len, RESERVED)) + 1))

    @cached_property
    def short_label(self) -> Part:
        """The same, but no letters whose first three begin a reserved word: less to remember."""
        return compact(_names_but(RESERVED, 3))

    @cached_property
    def any_label(self) -> Part:
        """A name that nothing refers to, or one in quotes, with AS or without."""
        named = then(maybe(word("as"), self.space), self.label)
        return compact(either(named, then(word("as"), self.space, self.string)))


def quotations(name: str) -> tuple[str, ...]:
    """The ways to write a name in quotes."""
    escaped = {'"': name.replace('"', '""'), "`": name.replace("`", "``")}
    quoted = tuple(f"{quote}{text}{quote}" for quote, text in escaped.items())
    return quoted if "]" in name else (*quoted, f"[{name}]")


def _names_but(words: Iterable[str], telling: int) -> Part:
    """Letters, digits and _ after a first letter, but none of the words, in any case.

    Letters alone that begin like a word for so many letters are left out.
    """
    root = frozenset(words)
    nexts: dict[frozenset[str], dict[str, frozenset[str]]] = {}

    def follow(rests: frozenset[str], depth: int) -> None:
        if rests in nexts or depth == telling:
            return
        heads = sorted({rest[0] for rest in rests if rest[:1].isalpha()})
        nexts[rests] = {h: frozenset(r[1:] for r in rests if r[:1] == h) for h in heads}
        for rest in nexts[rests].values():
            follow(rest, depth + 1)

    follow(root, 0)

    def draw(diagram: Diagram, start: int) -> int:
        free, like_a_word, end = diagram.state(), diagram.state(), diagram.state()
        diagram.read(free, free, mask_of(_NAME_BYTES))
        diagram.read(like_a_word, like_a_word, mask_of(_LETTERS))
        diagram.read(like_a_word, free, mask_of(_NO_LETTERS))
        diagram.skip(free, end)
        drawn = {rests: diagram.state() for rests in nexts if rests != root}
        drawn[root] = start
        for rests, following in nexts.items():
            state = drawn[rests]
            known = {ord(case) for head in following for case in (head, head.upper())}
            diagram.read(state, free, mask_of(set(_LETTERS) - known))
            for head, rest in following.items():
                either_case = mask_of(map(ord, head + head.upper()))
                diagram.read(state, drawn.get(rest, like_a_word), either_case)
            if rests != root:
                diagram.read(state, free, mask_of(_NO_LETTERS))
                if "" not in rests:
                    diagram.skip(state, end)
        return end

    return draw


def _quoted(quote: int) -> Part:
    """Any characters but NUL between two quotes."""
    plain = byte(value for value in range(1, 128) if value != quote)
    doubled = then(byte([quote]), byte([quote]))
    return then(
        byte([quote]), maybe(repeated(either(plain, doubled, _beyond_ascii()))), byte([quote])
    )


def _beyond_ascii() -> Part:
    """A character of two to four bytes in UTF-8; what they end with is shared."""
    follows = byte(range(0x80, 0xC0))
    three = either(
        then(byte([0xE0]), byte(range(0xA0, 0xC0))),
        then(byte([*range(0xE1, 0xED), 0xEE, 0xEF]), follows),
        then(byte([0xED]), byte(range(0x80, 0xA0))),
    )
    four = either(
        then(byte([0xF0]), byte(range(0x90, 0xC0))),
        then(byte(range(0xF1, 0xF4)), follows),
        then(byte([0xF4]), byte(range(0x80, 0x90))),
    )
    return then(either(byte(range(0xC2, 0xE0)), three, then(four, follows)), follows)

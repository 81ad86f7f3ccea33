"""The text of a grammar, in Lark's notation, as rules and terminals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pcgcd.automata.expressions import Expression
from pcgcd.constraints.grammar.literals import COMMON, character_range, pattern, string
from pcgcd.errors import InvalidParameterError, UnsupportedConstraintError

MAX_LENGTH = 100_000
MAX_NESTING = 50

_TOKENS = {
    "space": r"[ \t\f]+|\\[ \t]*\r?\n",
    "comment": r"\s*//[^\n]*|\#[^\n]*",
    "newline": r"(?:\r?\n[ \t\f]*)+",
    "string": r'"(?:\\.|[^"\\\n])*"i?',
    "regex": r"/(?!/)(?:\\.|[^/\\])+/[imslux]*",
    "dots": r"\.\.",
    "arrow": r"->",
    "modifier": r"(?:!\??|\?!?)(?=[_a-z])",
    "operator": r"[*+]|\?",
    "number": r"[+-]?\d+",
    "directive": r"%[a-z]+",
    "rule": r"_?[a-z][_a-z0-9]*",
    "terminal": r"_?[A-Z][_A-Z0-9]*",
    "sign": r"[|:()\[\]{},.~]",
}
_TOKEN = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _TOKENS.items()))
_OPERATORS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class Name:
    """A rule or a terminal, by its name."""

    name: str
    line: int = field(compare=False)

    @property
    def is_terminal(self) -> bool:
        """Terminals are written in capitals."""
        return self.name.lstrip("_")[:1].isupper()


@dataclass(frozen=True)
class Literal:
    """A text, a pattern or a range of characters."""

    expression: Expression


@dataclass(frozen=True)
class Row:
    """Items one after the other."""

    parts: tuple[Item, ...]


@dataclass(frozen=True)
class Alternatives:
    """One of the options."""

    parts: tuple[Item, ...]


@dataclass(frozen=True)
class Repeated:
    """The body at least ``least`` and at most ``most`` times (None: without end)."""

    body: Item
    least: int
    most: int | None


Item: TypeAlias = "Name | Literal | Row | Alternatives | Repeated"


class Definition(NamedTuple):
    """What a name stands for, and the line that says so."""

    body: Item
    line: int


@dataclass
class Grammar:
    """The rules and terminals by name, and what may stand between terminals."""

    rules: dict[str, Definition] = field(default_factory=dict)
    terminals: dict[str, Definition] = field(default_factory=dict)
    ignored: list[Item] = field(default_factory=list)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_grammar(text: str) -> Grammar:
    """Read a grammar."""
    if not isinstance(text, str):
        raise InvalidParameterError(
            f"a grammar is a text (str), but {type(text).__name__} was given"
        )
    if len(text) > MAX_LENGTH:
        raise InvalidParameterError(
            f"the text of a grammar has at most {MAX_LENGTH:,} characters, but this one has "
            f"{len(text):,}; split it"
        )
    return _Reader(list(_joined_lines(_tokens(text)))).grammar()


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found or found.lastgroup is None:
            raise InvalidParameterError(
                f"line {line} of the grammar has {text[at : at + 20]!r} where a rule, a terminal, "
                "a string or a sign of Lark's notation was expected; correct it"
            )
        if found.lastgroup not in ("space", "comment"):
            yield _Token(found.lastgroup, found.group(), line)
        line += found.group().count("\n")
        if found.lastgroup == "comment" and "\n" in found.group():
            yield _Token("newline", "\n", line)
        at = found.end()
    yield _Token("newline", "\n", line)
    yield _Token("end", "the end", line)


def _joined_lines(tokens: Iterator[_Token]) -> Iterator[_Token]:
    """Drop line ends inside brackets, before an alternative, and next to each other."""
    depth = 0
    newline: _Token | None = None
    for token in tokens:
        if token.kind == "newline":
            newline = newline or token
            continue
        if newline and not depth and token.text != "|":
            yield newline
        newline = None
        depth = max(0, depth + (token.text in "([") - (token.text in ")]"))
        yield token


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self._all = tokens
        self._at = 0
        self._depth = 0
        self._grammar = Grammar()

    # -- tokens -------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._all[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _take_if(self, text: str) -> bool:
        if self._next.kind in ("string", "regex") or self._next.text != text:
            return False
        self._take()
        return True

    def _expect(self, what: str, *kinds: str) -> _Token:
        token = self._take()
        if token.kind not in kinds and (token.kind != "sign" or token.text != what):
            shown = "the end of the line" if token.kind == "newline" else repr(token.text[:40])
            raise InvalidParameterError(
                f"line {token.line} of the grammar has {shown} where {what} was expected; correct "
                "it"
            )
        return token

    # -- statements ---------------------------------------------------------------------------

    def grammar(self) -> Grammar:
        while self._next.kind != "end":
            if self._next.kind == "newline":
                self._take()
            elif self._next.kind == "directive":
                self._directive()
            else:
                self._definition()
        return self._grammar

    def _definition(self) -> None:
        if self._next.kind == "modifier":
            self._take()
        name = self._expect("the name of a rule or a terminal", "rule", "terminal")
        self._refuse_template(name)
        if self._take_if("."):
            self._expect("a priority", "number")
        self._expect(":")
        body = self._alternatives()
        self._expect("the end of the line", "newline")
        self._define(name, body)

    def _define(self, name: _Token, body: Item) -> None:
        is_terminal = name.kind == "terminal"
        definitions = self._grammar.terminals if is_terminal else self._grammar.rules
        if name.text in definitions:
            raise InvalidParameterError(
                f"{name.text} is defined twice, in lines {definitions[name.text].line} and "
                f"{name.line} of the grammar; leave one out"
            )
        definitions[name.text] = Definition(body, name.line)

    def _refuse_template(self, name: _Token) -> None:
        if self._next.text == "{":
            raise UnsupportedConstraintError(
                f"the template {name.text}{{...}} in line {name.line} of the grammar cannot be "
                "honoured; write out the rules it stands for"
            )

    def _directive(self) -> None:
        token = self._take()
        if token.text == "%ignore":
            self._grammar.ignored.append(self._alternatives())
        elif token.text == "%import":
            self._import(token)
        else:
            raise UnsupportedConstraintError(
                f"{token.text} in line {token.line} of the grammar cannot be honoured, only "
                "%ignore and %import are; write the rules it stands for"
            )
        self._expect("the end of the line", "newline")

    def _import(self, token: _Token) -> None:
        path = ""
        while self._next.text == "." or self._next.kind in ("rule", "terminal"):
            path += self._take().text
        module, _, name = path.rpartition(".")
        if self._take_if("("):
            module, names = path, []
            while not self._take_if(")"):
                names.append(self._expect("the name of a terminal", "terminal"))
                self._take_if(",")
        else:
            names = [_Token("terminal", name, token.line)]
        alias = None
        if self._take_if("->"):
            alias = self._expect("the new name of the terminal", "terminal")
        for each in names:
            if module != "common" or each.text not in COMMON:
                raise UnsupportedConstraintError(
                    f"line {token.line} of the grammar imports {module}.{each.text}, but only "
                    f"these can be imported: common.{', common.'.join(COMMON)}; write the "
                    "definition into the grammar"
                )
            self._define(alias or each, Literal(pattern(COMMON[each.text])))

    # -- bodies -------------------------------------------------------------------------------

    def _alternatives(self) -> Item:
        options = [self._row()]
        while self._take_if("|"):
            options.append(self._row())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _row(self) -> Item:
        items: list[Item] = []
        while self._next.kind in ("rule", "terminal", "string", "regex") or (
            self._next.kind == "sign" and self._next.text in "(["
        ):
            items.append(self._item())
        if self._take_if("->"):
            self._expect("a name", "rule", "terminal")
        return items[0] if len(items) == 1 else Row(tuple(items))

    def _item(self) -> Item:
        body = self._atom()
        if self._next.kind == "operator":
            least, most = _OPERATORS[self._take().text]
            return Repeated(body, least, most)
        if self._take_if("~"):
            first = self._expect("a number", "number")
            least = self._count(first)
            most = least
            if self._take_if(".."):
                most = self._count(self._expect("a number", "number"))
            if most < least:
                raise InvalidParameterError(
                    f"line {first.line} of the grammar repeats something {least} to {most} times; "
                    "the second number must not be smaller"
                )
            return Repeated(body, least, most)
        return body

    @staticmethod
    def _count(token: _Token) -> int:
        if len(token.text) > 9 or int(token.text) < 0:
            raise InvalidParameterError(
                f"line {token.line} of the grammar repeats something {token.text[:20]} times; it "
                "must be between 0 and 999999999 times"
            )
        return int(token.text)

    def _atom(self) -> Item:
        token = self._take()
        if token.kind in ("rule", "terminal"):
            self._refuse_template(token)
            return Name(token.text, token.line)
        if token.kind == "regex":
            return Literal(pattern(token.text, token.line))
        if token.kind == "string":
            if not self._take_if(".."):
                return Literal(string(token.text, token.line))
            last = self._expect("a string", "string")
            return Literal(character_range(token.text, last.text, token.line))
        return self._group(token)

    def _group(self, opening: _Token) -> Item:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise InvalidParameterError(
                f"groups can be nested {MAX_NESTING} deep, but those in line {opening.line} of the "
                "grammar are nested deeper; make rules of them"
            )
        body = self._alternatives()
        self._depth -= 1
        self._expect(")" if opening.text == "(" else "]")
        return body if opening.text == "(" else Repeated(body, 0, 1)

"""Quoted strings as byte expressions."""

from __future__ import annotations

from functools import cache, lru_cache

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import (
    Expression,
    byte_set,
    concatenation,
    intersection,
    literal,
    repeat,
    star,
    union,
)
from pcgcd.automata.expressions.compilation import compile_block, compile_expression
from pcgcd.automata.expressions.utf8 import character_set
from pcgcd.automata.expressions.word_lists import all_but, word_list
from pcgcd.constraints.json_schema.characters import (
    ALL_CHARACTERS,
    JSON,
    Notation,
    hexadecimal,
    only_spelling,
    spell_set,
    spell_text,
    spelled,
)
from pcgcd.constraints.json_schema.patterns import not_found, searched
from pcgcd.constraints.json_schema.specs import StringSpec
from pcgcd.errors import UnsupportedConstraintError

_MAX_LEAST = 5_000
# Up to this length, characters may be spelled in all ways even if states are scarce.
SHORT = 32
# Up to so many given strings may be spelled in all ways.
_FEW_VALUES = 64


@cache
def _any_character(notation: Notation) -> Expression:
    """One character in any usual spelling; half a surrogate pair is not one."""
    if not notation.is_json:
        return spell_set(ALL_CHARACTERS, notation)
    escape = literal("\\u")
    pair = escape + hexadecimal(0xD800, 0xDBFF, 4) + escape + hexadecimal(0xDC00, 0xDFFF, 4)
    return union(
        character_set(notation.raw),
        literal("\\") + byte_set(b'"\\/bfnrt'),
        escape + hexadecimal(0, 0xD7FF, 4),
        escape + hexadecimal(0xE000, 0xFFFF, 4),
        pair,
    )


@cache
def _raw_character(notation: Notation) -> Expression:
    """One character, without escapes by number."""
    short = "".join(notation.short.values()).encode()
    return character_set(notation.raw) | literal("\\") + byte_set(short)


def _quoted(body: Expression, notation: Notation) -> Expression:
    return concatenation(literal(notation.quote), body, literal(notation.quote))


@cache
def any_string(notations: tuple[Notation, ...] = (JSON,)) -> Expression:
    """Any string."""
    return compile_block(union(*(_quoted(star(_any_character(n)), n) for n in notations)))


def string_literal(text: str, notations: tuple[Notation, ...] = (JSON,)) -> Expression:
    """A given string."""
    if len(notations) == 1:
        [notation] = notations
        only = only_spelling(text, notation)
        if only is not None:
            return literal(notation.quote + only + notation.quote)
    return union(*(_quoted(spell_text(text, n), n) for n in notations))


def string_expression(
    spec: StringSpec,
    max_length: int,
    escapes: bool = True,
    notations: tuple[Notation, ...] = (JSON,),
) -> Expression:
    """All strings of a specification, quotes included.

    Characters are counted up to ``max_length``; where many are, they may be escaped by number only
    if ``escapes`` says so.
    """
    if spec.values is not None:
        return _listed(spec.values, notations)
    if spec == StringSpec():
        return any_string(notations)
    return union(*(_quoted(_body(spec, max_length, escapes, n), n) for n in notations))


@lru_cache(maxsize=64)
def _listed(values: tuple[str, ...], notations: tuple[Notation, ...]) -> Expression:
    """Given strings; where they are many, each with as few escapes as can be, or in ASCII."""
    if len(values) <= _FEW_VALUES:
        return union(*(string_literal(text, notations) for text in values))
    return word_list(
        spelled(text, notation, ascii_only=ascii_only).encode()
        for text in values
        for notation in notations
        for ascii_only in ((False,) if text.isascii() else (False, True))
    )


@cache
def _all_strings(notation: Notation) -> FiniteAutomaton:
    """All strings without quotes, where a printable character of ASCII has one spelling."""
    return compile_expression(star(spell_set(ALL_CHARACTERS, notation)), deterministic=True)


@lru_cache(maxsize=512)
def _body(spec: StringSpec, max_length: int, escapes: bool, notation: Notation) -> Expression:
    most = spec.most if spec.most is None else min(spec.most, max(max_length, spec.least))
    if spec.least > _MAX_LEAST:
        raise UnsupportedConstraintError(
            f"a string of at least {spec.least:,} characters is longer than the {_MAX_LEAST:,} "
            f"that can be counted"
        )
    parts = [
        searched(source, False, notation) if positive else not_found(source, notation)
        for source, positive in spec.patterns
    ]
    counted = spec.least > 0 or most is not None
    names = [only_spelling(text, notation) for text in spec.excluded]
    if names and None not in names and not counted and not parts:
        return all_but(
            _all_strings(notation), (name.encode() for name in names if name is not None)
        )
    if spec.excluded:
        parts.append(~union(*(spell_text(text, notation) for text in sorted(spec.excluded))))
    rich = escapes or not counted or max(spec.least, most or 0) <= SHORT
    plain = spell_set(ALL_CHARACTERS, notation) if parts else _any_character(notation)
    character = plain if rich else _raw_character(notation)
    if counted or not spec.patterns:
        parts.insert(0, repeat(character, spec.least, most))
    return intersection(*parts)

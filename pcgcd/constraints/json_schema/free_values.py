"""Values of which nothing is known, nested to a depth: built once for all schemas."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from pcgcd.automata.expressions import Expression, literal, union
from pcgcd.automata.expressions.compilation import compile_block
from pcgcd.constraints.json_schema.characters import Notation
from pcgcd.constraints.json_schema.layout import Layout, listing
from pcgcd.constraints.json_schema.numbers import ANY_NUMBER
from pcgcd.constraints.json_schema.strings import any_string


class Writing(NamedTuple):
    """What the text of a value depends on."""

    layout: Layout
    notations: tuple[Notation, ...]
    constants: tuple[str, str, str]  # what null, true and false are called


@cache
def free_value(writing: Writing, depth: int) -> Expression:
    """Any value with so many levels of brackets."""
    simple = (*map(literal, writing.constants), ANY_NUMBER, any_string(writing.notations))
    return union(*simple, *(free_brackets(writing, depth) if depth else ()))


@cache
def free_brackets(writing: Writing, depth: int) -> tuple[Expression, Expression]:
    """The arrays and the objects with one level or more."""
    layout, inner = writing.layout, free_value(writing, depth - 1)
    entry = any_string(writing.notations) + layout.colon + inner
    array = layout.bracketed("[", listing(inner, layout.comma), "]")
    members = layout.bracketed("{", listing(entry, layout.comma), "}")
    return compile_block(array), compile_block(members)

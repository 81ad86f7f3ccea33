"""Other blocks in place of some of those that an expression is made of."""

from __future__ import annotations

from collections.abc import Mapping

from pcgcd.automata.expressions import (
    AnyOrder,
    Block,
    Complement,
    Concatenation,
    Expression,
    InOrder,
    Intersection,
    Member,
    Repeat,
    Union,
)
from pcgcd.automata.expressions.blocks import expanded_size
from pcgcd.automata.expressions.thompson import post_order


def substituted(expression: Expression, other: Mapping[Expression, Expression]) -> Expression:
    """The expression with other blocks in place of some, also inside of the blocks that it has.

    A block may stand for another one only if their texts begin with the same bytes, so that what
    was deterministic stays so. What is written out in an automaton (of an intersection, or where a
    block was opened because something else begins like it) stays as it is.

    >>> from pcgcd.automata.expressions import literal, repeat
    >>> from pcgcd.automata.expressions.compilation import compile_block, compile_expression
    >>> left, a, right = map(literal, "[a]")
    >>> few, many = (compile_block(left + repeat(a, 1, most) + right) for most in (1, 2))
    >>> nested = compile_block(left + few + right)
    >>> compile_expression(substituted(nested, {few: many})).accepts(b"[[aa]]")
    True
    """
    blocks = {a: b for a, b in other.items() if isinstance(a, Block) and isinstance(b, Block)}
    done: dict[int, Expression] = {}

    def block(old: Block) -> Block:
        new = blocks.get(old)
        if new is None:
            inside, new = tuple(map(block, old.inside)), old
            if any(a is not b for a, b in zip(inside, old.inside)):
                new = Block(old.graph, inside, old.first, expanded_size(old.graph, inside))
            blocks[old] = new
        return new

    for node in post_order(expression):
        done[id(node)] = block(node) if isinstance(node, Block) else _with(node, done)
    return done[id(expression)]


def _with(node: Expression, done: Mapping[int, Expression]) -> Expression:
    """An expression of the parts that were made of its parts."""

    def of(part: Expression) -> Expression:
        return done[id(part)]

    if isinstance(node, Concatenation | Intersection):
        return type(node)(tuple(map(of, node.parts)))
    if isinstance(node, Union):
        return Union(tuple(map(of, node.options)))
    if isinstance(node, Complement):
        return Complement(of(node.body))
    if isinstance(node, Repeat):
        return Repeat(of(node.body), node.least, node.most)
    if isinstance(node, AnyOrder | InOrder):
        members = tuple(Member(of(member.body), member.required) for member in node.members)
        separator = of(node.separator)
        if isinstance(node, InOrder):
            return InOrder(members, separator, of(node.tail))
        return AnyOrder(members, separator, node.least, node.most)
    return node

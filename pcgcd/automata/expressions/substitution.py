"""Other blocks in place of some of those that an expression is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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


class Substitution:
    """Other blocks in place of some of an expression, also inside of the blocks that it has.

    A block may stand for another one only if their texts begin with the same bytes, so that what
    was deterministic stays so. What is written out in an automaton (of an intersection, or where a
    block was opened because something else begins like it) stays as it is.

    Args:
        other: What takes the place of which block.
        without: Blocks for which there is nothing.

    >>> from pcgcd.automata.expressions import literal, repeat
    >>> from pcgcd.automata.expressions.compilation import compile_block, compile_expression
    >>> left, a, right = map(literal, "[a]")
    >>> few, many = (compile_block(left + repeat(a, 1, most) + right) for most in (1, 2))
    >>> nested = compile_block(left + few + right)
    >>> compile_expression(Substitution({few: many}).of(nested)).accepts(b"[[aa]]")
    True
    """

    def __init__(
        self, other: Mapping[Expression, Expression], without: Collection[Expression] = ()
    ) -> None:
        self._blocks: dict[Block, Block | None] = {
            a: b for a, b in other.items() if isinstance(a, Block) and isinstance(b, Block)
        }
        self._blocks.update((a, None) for a in without if isinstance(a, Block))
        self._done: dict[int, tuple[Expression, Expression | None]] = {}  # by id, kept alive

    def of(self, expression: Expression) -> Expression | None:
        """The expression with other blocks; None if one is left for which there is nothing."""
        for node in post_order(expression):
            if id(node) not in self._done:
                new = self._block(node) if isinstance(node, Block) else self._made(node)
                self._done[id(node)] = node, new
        return self._done[id(expression)][1]

    def _block(self, old: Block) -> Block | None:
        if old in self._blocks:
            return self._blocks[old]
        inside = [self._block(each) for each in old.inside]
        new: Block | None = old
        if any(block is None for block in inside):
            new = None
        elif any(a is not b for a, b in zip(inside, old.inside)):
            others = tuple(block for block in inside if block is not None)
            new = Block(old.graph, others, old.first, expanded_size(old.graph, others))
        self._blocks[old] = new
        return new

    def _made(self, node: Expression) -> Expression | None:
        parts = [self._done[id(child)] for child in node.children]
        if any(new is None for _, new in parts):
            return None
        if all(old is new for old, new in parts):
            return node
        return _with(node, {id(old): new for old, new in parts if new is not None})


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

"""From a tree to an expression over bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    ByteSet,
    Expression,
    complement,
    concatenation,
    intersection,
    literal,
    repeat,
    star,
    union,
)
from pcgcd.automata.expressions.utf8 import Ranges, character_set
from pcgcd.constraints.regex.assertions import Spelling, mark, marked, obeyed, settle
from pcgcd.constraints.regex.tree import (
    Assertion,
    Characters,
    Choice,
    Look,
    Node,
    Repetition,
    Sequence,
    assertions_of,
    looks_of,
)
from pcgcd.errors import UnsupportedConstraintError


def _utf8(ranges: Ranges) -> Expression:
    first, last = ranges[0] if len(ranges) == 1 else (0, -1)
    if first == last and first >= 0x80 and not 0xD800 <= first <= 0xDFFF:
        return literal(chr(first))
    return character_set(ranges)


def lower(tree: Node, spelling: Spelling = _utf8) -> Expression:
    """The texts that a tree matches as a whole; what it repeats has no look-aheads.

    Raises:
        UnsupportedConstraintError: In a look-ahead, an anchor depends on the text.
        AutomatonTooLargeError: Anchors or word boundaries depend on the text, and the automaton
            that is built for them is too large.
    """
    tree = settle(tree)
    kinds = assertions_of(tree)
    looks = looks_of(tree)
    if not kinds:
        return _Lowering(spelling, bool(looks)).before(EMPTY_STRING, tree)
    if any(assertions_of(look.body) for look in looks):
        raise UnsupportedConstraintError(
            "a look-ahead of the pattern has an anchor between parts that may be empty; write it "
            "without"
        )
    marks = star(union(*(mark(kind) for kind in kinds)))
    lowering = _Lowering(marked(spelling, kinds), bool(looks), marks)
    return obeyed(lowering.before(EMPTY_STRING, tree), kinds)


@dataclass(frozen=True)
class _Lowering:
    """A walk through a tree; the marks may stand anywhere in the text that a look-ahead sees."""

    spelling: Spelling
    has_looks: bool
    marks: Expression = EMPTY_STRING

    def before(self, rest: Expression, node: Node) -> Expression:
        """The texts of a node, each followed by what the rest of the text may be.

        A look-ahead is an intersection with the rest, so what contains one is lowered together
        with what follows it, and anything else by itself.
        """
        looks = self.has_looks and looks_of(node)
        if isinstance(node, Look):
            inside = _Lowering(lambda ranges: self.marks + self.spelling(ranges), True)
            body = inside.before(self.marks, node.body)
            return intersection(rest, body if node.positive else complement(body))
        if isinstance(node, Sequence) and looks:
            return reduce(self.before, reversed(node.parts), rest)
        if isinstance(node, Choice) and looks:
            return union(*(self.before(rest, option) for option in node.options))
        if isinstance(node, Repetition) and looks:  # at most once
            some = self.before(rest, node.body)
            return some if node.least else union(some, rest)
        return concatenation(self._alone(node), rest)

    def _alone(self, node: Characters | Assertion | Sequence | Choice | Repetition) -> Expression:
        if isinstance(node, Characters):
            spelled = self.spelling(node.ranges)
            if isinstance(spelled, ByteSet) and spelled.mask.bit_count() == 1:
                return literal(bytes([spelled.mask.bit_length() - 1]))  # joins its neighbours
            return spelled
        if isinstance(node, Assertion):
            return mark(node.kind)
        if isinstance(node, Choice):
            return union(*(self.before(EMPTY_STRING, option) for option in node.options))
        if isinstance(node, Repetition):
            return repeat(self.before(EMPTY_STRING, node.body), node.least, node.most)
        return concatenation(*(self.before(EMPTY_STRING, part) for part in node.parts))

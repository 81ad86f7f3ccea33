"""Regular expressions over bytes, as values: what constraints are written in.

An expression is a small immutable tree. Nothing is built until it is compiled into an automaton
(:mod:`pcgcd.automata.expressions.compilation`); huge repeats and intersections therefore cost
nothing here, and :attr:`Expression.size` says beforehand how large the automaton may become.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pcgcd.automata.weights import language_only
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton
    from pcgcd.automata.graphs import Graph

__all__ = [
    "ANYTHING",
    "ANY_BYTE",
    "EMPTY_STRING",
    "NOTHING",
    "AnyOrder",
    "Block",
    "ByteSet",
    "Complement",
    "Concatenation",
    "Embedded",
    "Expression",
    "InOrder",
    "Intersection",
    "Literal",
    "Member",
    "Repeat",
    "Union",
    "any_order",
    "byte_range",
    "byte_set",
    "complement",
    "concatenation",
    "difference",
    "in_order",
    "intersection",
    "literal",
    "option",
    "repeat",
    "star",
    "union",
]

_ALL_BYTES = (1 << 256) - 1
# Longer concatenations stay whole inside others: x + x doubles the size, not the parts.
_MAX_FLAT = 256
# What is copied so often has an automaton of its own, unless it is at most so large.
_MANY_COPIES = 4
_SMALL = 4


class Expression:
    """A set of byte strings. Made by the functions of this module, which simplify as they go.

    Expressions are compared by structure and hashed once, so they must never be changed. Thousands
    are made for a constraint: plain classes with slots cost a third of frozen ones.

    Attributes:
        size: A bound on the states of an automaton for it; without a bound on intersections,
            complements and orders, whose automata are built by themselves.
        children: The expressions that it is made of.
        apart: The expressions inside whose automata are built by themselves, since they are copied
            often or are no sums of their parts; each after those inside of it.
        has_blocks: Whether there are blocks inside, but for those of intersections and complements.
    """

    __slots__ = ("__weakref__", "_hash", "_own", "size")
    __match_args__: ClassVar[tuple[str, ...]]
    is_combined: ClassVar[bool] = False
    size: int
    children: tuple[Expression, ...] = ()
    apart: tuple[Expression, ...] = ()
    has_blocks: bool = False

    def __init__(self, size: int, own: Any) -> None:
        self.size = size
        self._own = own  # what it consists of besides its children
        self._hash = hash((type(self).__name__, own))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare structures, without recursion since expressions may be deep."""
        if self is other:
            return True
        if not isinstance(other, Expression):
            return NotImplemented
        stack: list[tuple[Expression, Expression]] = [(self, other)]
        while stack:
            a, b = stack.pop()
            if a is b:
                continue
            if a._hash != b._hash or type(a) is not type(b) or a._own != b._own:
                return False
            if len(a.children) != len(b.children):
                return False
            stack += zip(a.children, b.children)
        return True

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies anew: hashes of strings differ between processes."""
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def __add__(self, other: Expression) -> Expression:
        """This, then the other."""
        return concatenation(self, other)

    def __or__(self, other: Expression) -> Expression:
        """This or the other."""
        return union(self, other)

    def __and__(self, other: Expression) -> Expression:
        """Both this and the other."""
        return intersection(self, other)

    def __sub__(self, other: Expression) -> Expression:
        """This, but not the other."""
        return difference(self, other)

    def __invert__(self) -> Expression:
        """Any byte string but this."""
        return complement(self)


class _Composite(Expression):
    """An expression that is made of others.

    Its size is what it needs by itself, and that of its children so many times.
    """

    __slots__ = ("apart", "children", "has_blocks")

    def __init__(
        self,
        children: tuple[Expression, ...],
        own: Any = None,
        size: int = 0,
        times: int = 1,
        copied: tuple[Expression, ...] = (),
    ) -> None:
        total, has_blocks, hashes = 0, False, [hash(type(self).__name__)]
        apart: dict[int, Expression] = {}
        for child in children:
            total += child.size
            hashes.append(child._hash)
            if child.has_blocks:
                has_blocks = True
            if child.apart:
                apart.update([(id(part), part) for part in child.apart])
            if child.is_combined:
                apart[id(child)] = child
        for child in copied:
            if child.size > _SMALL and not child.has_blocks:
                apart[id(child)] = child
        self.size = size + total * times
        self._own = own
        self._hash = hash((own, *hashes))
        self.children = children
        self.apart = tuple(apart.values())
        self.has_blocks = has_blocks and not self.is_combined


class Literal(Expression):
    """One byte string."""

    __slots__ = __match_args__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text
        super().__init__(len(text) + 1, text)


class ByteSet(Expression):
    """One byte of a set, given as 256 bits. The empty set is the empty language."""

    __slots__ = __match_args__ = ("mask",)

    def __init__(self, mask: int) -> None:
        self.mask = mask
        super().__init__(2, mask)

    def members(self) -> list[int]:
        """The bytes of the set, in order."""
        return [byte for byte in range(256) if self.mask >> byte & 1]


class Concatenation(_Composite):
    """One part after the other."""

    __slots__ = __match_args__ = ("parts",)

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        self.parts = parts
        super().__init__(parts)


class Union(_Composite):
    """Any one of the options."""

    __slots__ = __match_args__ = ("options",)

    def __init__(self, options: tuple[Expression, ...]) -> None:
        self.options = options
        super().__init__(options, size=1)


class Repeat(_Composite):
    """The body at least ``least`` and at most ``most`` times (None: without end)."""

    __slots__ = __match_args__ = ("body", "least", "most")

    def __init__(self, body: Expression, least: int, most: int | None) -> None:
        self.body, self.least, self.most = body, least, most
        bodies, copies = (body,), self.copies
        copied = bodies if copies >= _MANY_COPIES else ()
        super().__init__(bodies, (least, most), size=1, times=copies, copied=copied)

    @property
    def copies(self) -> int:
        """How often the body is placed."""
        return max(1, self.least if self.most is None else self.most)


class Intersection(_Composite):
    """All of the parts at once."""

    __slots__ = __match_args__ = ("parts",)
    is_combined = True

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        self.parts = parts
        super().__init__(parts)


class Complement(_Composite):
    """Every byte string that the body is not."""

    __slots__ = __match_args__ = ("body",)
    is_combined = True

    def __init__(self, body: Expression) -> None:
        self.body = body
        super().__init__((body,))


class Member(NamedTuple):
    """An element of :class:`AnyOrder` or :class:`InOrder`."""

    body: Expression
    required: bool = True


class AnyOrder(_Composite):
    """Members in any order, each at most once, required ones exactly once, with a separator.

    The number of present members lies between ``least`` and ``most``. An automaton has to remember
    which members it has seen, so it grows as 2 ** (number of members).
    """

    __slots__ = __match_args__ = ("members", "separator", "least", "most")

    def __init__(
        self, members: tuple[Member, ...], separator: Expression, least: int, most: int | None
    ) -> None:
        self.members, self.separator, self.least, self.most = members, separator, least, most
        bodies = [member.body for member in members]
        required = [member.required for member in members]
        children = (*bodies, separator)
        times = 1 << min(len(members), 60)
        super().__init__(children, (*required, least, most), times=times, copied=children)


class InOrder(_Composite):
    """Members in the given order, required ones always, then the tail any number of times.

    A separator stands between any two. Each member is placed once, however many are optional.
    """

    __slots__ = __match_args__ = ("members", "separator", "tail")

    def __init__(
        self, members: tuple[Member, ...], separator: Expression, tail: Expression
    ) -> None:
        self.members, self.separator, self.tail = members, separator, tail
        bodies = [member.body for member in members]
        required = tuple([member.required for member in members])
        others = len(members) * (1 + separator.size) + 1
        copied = (separator,) if len(members) >= _MANY_COPIES else ()
        super().__init__((*bodies, separator, tail), required, size=others, copied=copied)


class Block(Expression):
    """A part that was compiled by itself, and is one letter of what it stands in.

    None of its texts is empty or begins another one, so an automaton that has entered it leaves it
    in one way. Made by :func:`pcgcd.automata.expressions.compilation.compile_block`.

    Attributes:
        graph: Its automaton over the 256 bytes and the blocks inside, with one accepting state,
            which no edge leaves.
        inside: The blocks that are letters of the automaton, from 256 on.
        first: The bytes that its texts begin with, as 256 bits.
        num_states: The states of its automaton over bytes.
    """

    __match_args__ = ("graph", "inside", "first", "num_states")
    has_blocks = True

    def __init__(
        self, graph: Graph, inside: tuple[Block, ...], first: int, num_states: int
    ) -> None:
        self.graph, self.inside, self.first, self.num_states = graph, inside, first, num_states
        super().__init__(num_states, (id(graph), inside))


class Embedded(Expression):
    """The language of an automaton over bytes."""

    __slots__ = __match_args__ = ("automaton",)

    def __init__(self, automaton: FiniteAutomaton) -> None:
        if automaton.vocab_size != 256:
            raise InvalidParameterError(
                f"an embedded automaton must be over the 256 bytes, but this one is over "
                f"{automaton.vocab_size} tokens"
            )
        language_only("an expression", automaton)
        self.automaton = automaton
        super().__init__(automaton.num_states, id(automaton))


NOTHING: Expression = ByteSet(0)
EMPTY_STRING: Expression = Literal(b"")
ANY_BYTE: Expression = ByteSet(_ALL_BYTES)
ANYTHING: Expression = Repeat(ANY_BYTE, 0, None)


def literal(text: str | bytes) -> Expression:
    """One string, in UTF-8."""
    return Literal(text.encode("utf-8") if isinstance(text, str) else text)


def byte_set(members: Iterable[int]) -> Expression:
    """One byte of the given ones."""
    mask = 0
    for byte in members:
        if not 0 <= byte < 256:
            raise InvalidParameterError(f"bytes lie in 0..255, but {byte} was given")
        mask |= 1 << byte
    return ByteSet(mask)


def byte_range(first: int, last: int) -> Expression:
    """One byte between two, both included."""
    return byte_set(range(first, last + 1))


def concatenation(*parts: Expression) -> Expression:
    """The parts one after the other.

    >>> concatenation(literal("a"), literal("b"))
    Literal(text=b'ab')
    """
    flat: list[Expression] = []
    for part in parts:
        pieces: tuple[Expression, ...] = (part,)
        if isinstance(part, Concatenation) and len(part.parts) <= _MAX_FLAT:
            pieces = part.parts
        for piece in pieces:
            if isinstance(piece, Literal):
                if not piece.text:
                    continue
                last = flat[-1] if flat else None
                if isinstance(last, Literal):
                    flat[-1] = Literal(last.text + piece.text)
                    continue
            elif isinstance(piece, ByteSet) and not piece.mask:
                return NOTHING
            flat.append(piece)
    if not flat:
        return EMPTY_STRING
    return flat[0] if len(flat) == 1 else Concatenation(tuple(flat))


def _byte_mask(expression: Expression) -> int | None:
    if isinstance(expression, ByteSet):
        return expression.mask
    if isinstance(expression, Literal) and len(expression.text) == 1:
        return 1 << expression.text[0]
    return None


def union(*options: Expression) -> Expression:
    """Any one of the options; single bytes are joined into one set, doubles are dropped.

    >>> union(literal("a"), literal("b"), literal("a")) == byte_set(b"ab")
    True
    """
    kept: dict[Expression, None] = {}
    mask = 0
    for option in options:
        for piece in option.options if isinstance(option, Union) else (option,):
            bits = _byte_mask(piece)
            if bits is None:
                kept[piece] = None
            else:
                mask |= bits
    if mask:
        kept[ByteSet(mask)] = None
    if not kept:
        return NOTHING
    return next(iter(kept)) if len(kept) == 1 else Union(tuple(kept))


def repeat(body: Expression, least: int = 0, most: int | None = None) -> Expression:
    """The body between ``least`` and ``most`` times (None: any number)."""
    if least < 0 or (most is not None and most < least):
        raise InvalidParameterError(f"cannot repeat at least {least} and at most {most} times")
    if most == 0 or body == EMPTY_STRING:
        return EMPTY_STRING
    if body == NOTHING:
        return EMPTY_STRING if least == 0 else NOTHING
    if (least, most) == (1, 1):
        return body
    if isinstance(body, Repeat) and (body.least, body.most) == (0, None) and least <= 1:
        return body
    return Repeat(body, least, most)


def star(body: Expression) -> Expression:
    """The body any number of times."""
    return repeat(body)


def option(body: Expression) -> Expression:
    """The body or nothing."""
    return repeat(body, 0, 1)


def intersection(*parts: Expression) -> Expression:
    """What all of the parts have in common."""
    kept: dict[Expression, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, Intersection) else (part,):
            if piece == NOTHING:
                return NOTHING
            if piece != ANYTHING:
                kept[piece] = None
    if not kept:
        return ANYTHING
    masks = [_byte_mask(piece) for piece in kept]
    if all(mask is not None for mask in masks):
        return ByteSet(reduce(lambda a, b: a & b, [mask for mask in masks if mask is not None]))
    return next(iter(kept)) if len(kept) == 1 else Intersection(tuple(kept))


def complement(body: Expression) -> Expression:
    """Every byte string but the body's."""
    if isinstance(body, Complement):
        return body.body
    if body == NOTHING:
        return ANYTHING
    return NOTHING if body == ANYTHING else Complement(body)


def difference(left: Expression, right: Expression) -> Expression:
    """What is in the left and not in the right one."""
    return intersection(left, complement(right))


def any_order(
    members: Iterable[Member],
    separator: Expression = EMPTY_STRING,
    least: int = 0,
    most: int | None = None,
) -> Expression:
    """The members in any order; see :class:`AnyOrder`."""
    chosen = tuple(members)
    required = sum(member.required for member in chosen)
    least = max(least, required)
    if least > len(chosen) or (most is not None and most < least):
        return NOTHING
    if not chosen:
        return EMPTY_STRING
    return AnyOrder(chosen, separator, least, most)


def in_order(
    members: Iterable[Member],
    separator: Expression = EMPTY_STRING,
    tail: Expression = NOTHING,
) -> Expression:
    """The members in the given order, then the tail; see :class:`InOrder`.

    >>> letters = [Member(literal("a")), Member(literal("b"), required=False)]
    >>> in_order(letters, literal(",")).size
    15
    """
    chosen = tuple(member for member in members if member.required or member.body != NOTHING)
    if any(member.body == NOTHING for member in chosen):
        return NOTHING
    if tail == NOTHING and len(chosen) <= 1:
        return (
            option(chosen[0].body)
            if chosen and not chosen[0].required
            else (chosen[0].body if chosen else EMPTY_STRING)
        )
    return InOrder(chosen, separator, tail)

"""An oracle for expressions: Brzozowski derivatives, slow and simple."""

from __future__ import annotations

from pcgcd.automata.expressions import (
    ANYTHING,
    EMPTY_STRING,
    NOTHING,
    AnyOrder,
    ByteSet,
    Complement,
    Concatenation,
    Embedded,
    Expression,
    Intersection,
    Literal,
    Repeat,
    Union,
    complement,
    concatenation,
    intersection,
    repeat,
    union,
)


def matches(expression: Expression, text: bytes) -> bool:
    """Whether the text is in the expression's language."""
    for byte in text:
        expression = derivative(expression, byte)
        if expression == NOTHING:
            return False
        if expression == ANYTHING:
            return True
    return nullable(expression)


def nullable(e: Expression) -> bool:
    """Whether the empty string is in the language."""
    if isinstance(e, Literal):
        return not e.text
    if isinstance(e, ByteSet):
        return False
    if isinstance(e, Concatenation | Intersection):
        return all(nullable(part) for part in e.parts)
    if isinstance(e, Union):
        return any(nullable(option) for option in e.options)
    if isinstance(e, Repeat):
        return e.least == 0 or nullable(e.body)
    if isinstance(e, Complement):
        return not nullable(e.body)
    if isinstance(e, AnyOrder):
        return nullable(expanded(e))
    if isinstance(e, Embedded):
        return bool((e.automaton.initial_mask & e.automaton.accepting_mask).any())
    raise TypeError(e)


def derivative(e: Expression, byte: int) -> Expression:
    """What may follow after the byte."""
    if isinstance(e, Literal):
        return Literal(e.text[1:]) if e.text[:1] == bytes([byte]) else NOTHING
    if isinstance(e, ByteSet):
        return EMPTY_STRING if e.mask >> byte & 1 else NOTHING
    if isinstance(e, Concatenation):
        first, rest = e.parts[0], concatenation(*e.parts[1:])
        result = concatenation(derivative(first, byte), rest)
        return union(result, derivative(rest, byte)) if nullable(first) else result
    if isinstance(e, Union):
        return union(*(derivative(option, byte) for option in e.options))
    if isinstance(e, Repeat):
        least = max(0, e.least - 1)
        most = None if e.most is None else e.most - 1
        return concatenation(derivative(e.body, byte), repeat(e.body, least, most))
    if isinstance(e, Intersection):
        return intersection(*(derivative(part, byte) for part in e.parts))
    if isinstance(e, Complement):
        return complement(derivative(e.body, byte))
    if isinstance(e, AnyOrder):
        return derivative(expanded(e), byte)
    raise TypeError(f"no derivative of {e!r}")


def expanded(e: AnyOrder) -> Expression:
    """Written out: every order of every admissible choice of members."""

    def rest(left: tuple[int, ...], seen: int) -> Expression:
        options = []
        if seen >= e.least and not any(e.members[i].required for i in left):
            options.append(EMPTY_STRING)
        if e.most is None or seen < e.most:
            for i in left:
                others = tuple(j for j in left if j != i)
                before = e.separator if seen else EMPTY_STRING
                options.append(concatenation(before, e.members[i].body, rest(others, seen + 1)))
        return union(*options)

    return rest(tuple(range(len(e.members))), 0)

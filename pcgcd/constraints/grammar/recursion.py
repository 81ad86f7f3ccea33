"""Which rules of a grammar refer to themselves, and which of these are repetitions in disguise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    concatenation,
    star,
    union,
)
from pcgcd.constraints.grammar.parser import (
    Alternatives,
    Definition,
    Item,
    Literal,
    Name,
    Repeated,
    Row,
)

MAX_LINEAR_RULES = 30

# A sum: what stands beside each rule, and (under None) what stands alone.
_Sum: TypeAlias = dict[str | None, Expression]


class Component(NamedTuple):
    """Rules that refer to each other, in the order of first reference."""

    names: list[str]
    is_recursive: bool


def references(item: Item) -> Iterator[Name]:
    """The names in an item, from left to right."""
    if isinstance(item, Name):
        yield item
    elif isinstance(item, Repeated):
        yield from references(item.body)
    elif not isinstance(item, Literal):
        for part in item.parts:
            yield from references(part)


def components(
    definitions: Mapping[str, Definition], starts: Iterable[str], *, terminals: bool
) -> list[Component]:
    """The strongly connected components that can be reached, each after those it refers to."""
    targets = {
        name: list(
            dict.fromkeys(
                found.name
                for found in references(definition.body)
                if found.is_terminal == terminals and found.name in definitions
            )
        )
        for name, definition in definitions.items()
    }
    # Tarjan's algorithm, with a stack of its own.
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    closed: set[str] = set()
    result = []
    for start in starts:
        work = [(start, iter(targets[start]))] if start not in order else []
        while work:
            name, rest = work[-1]
            if name not in order:
                order[name] = lowest[name] = len(order)
                open_names.append(name)
            for target in rest:
                if target not in order:
                    work.append((target, iter(targets[target])))
                    break
                if target not in closed:
                    lowest[name] = min(lowest[name], order[target])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == order[name]:
                    members = open_names[open_names.index(name) :]
                    del open_names[-len(members) :]
                    closed.update(members)
                    recursive = len(members) > 1 or name in targets[name]
                    result.append(Component(members, recursive))
    return result


# -- one rule that has itself at an end ---------------------------------------------------------


def without_own_ends(name: str, body: Item) -> Item:
    """A rule's body, with the rule itself at the ends of alternatives turned into repetition.

    For ``a: a x a | a z | w a | y`` a text is ``u (x u)*`` with ``u: w* y z*``.
    """
    joints: list[Item] = []
    before: list[Item] = []
    after: list[Item] = []
    plain: list[Item] = []
    for option in _options(body):
        items = list(option.parts) if isinstance(option, Row) else [option]
        own = [isinstance(item, Name) and item.name == name for item in items]
        if own == [True]:
            continue
        if own and own[0] and own[-1]:
            joints.append(Row(tuple(items[1:-1])))
        elif own and own[0]:
            after.append(Row(tuple(items[1:])))
        elif own and own[-1]:
            before.append(Row(tuple(items[:-1])))
        else:
            plain.append(option)
    head, tail = Repeated(_factored(before), 0, None), Repeated(_factored(after), 0, None)
    unit = Row((head, _factored(plain), tail))
    return Row((unit, Repeated(Row((_factored(joints), unit)), 0, None)))


def _factored(options: list[Item]) -> Item:
    """Alternatives that end with the same rule name it once: copies of rules are what costs."""
    heads: dict[Name, list[Item]] = {}
    result: list[Item] = []
    for option in options:
        if isinstance(option, Row) and option.parts and isinstance(option.parts[-1], Name):
            heads.setdefault(option.parts[-1], []).append(Row(option.parts[:-1]))
        else:
            result.append(option)
    result += [Row((Alternatives(tuple(rows)), end)) for end, rows in heads.items()]
    return Alternatives(tuple(result))


def _options(body: Item) -> Iterator[Item]:
    """The alternatives of a body, also of those that are in groups of their own."""
    if isinstance(body, Alternatives):
        for option in body.parts:
            yield from _options(option)
    elif isinstance(body, Repeated) and (body.least, body.most) == (0, 1):
        yield Row(())
        yield from _options(body.body)
    else:
        yield body


# -- rules that are linear on one side ----------------------------------------------------------


def linear_solution(
    bodies: Mapping[str, Item],
    expression_of: Callable[[Item], Expression],
    check: Callable[[Expression], Expression],
    *,
    from_left: bool,
) -> dict[str, Expression] | None:
    """The exact languages of rules that mention each other at one end of alternatives only.

    None if they do not. ``expression_of`` is called with items that mention none of them, and
    ``check`` raises if an expression is too large.
    """
    if len(bodies) > MAX_LINEAR_RULES:
        return None
    equations: dict[str, _Sum] = {}
    for name, body in bodies.items():
        found = _linear(body, set(bodies), expression_of, from_left)
        if found is None:
            return None
        equations[name] = found

    def join(beside: Expression, rule: Expression) -> Expression:
        parts = (rule, beside) if from_left else (beside, rule)
        return check(concatenation(*parts))

    def substitute(target: _Sum, name: str, value: _Sum) -> None:
        beside = target.pop(name, NOTHING)
        if beside != NOTHING:
            for key, factor in value.items():
                target[key] = check(union(target.get(key, NOTHING), join(beside, factor)))

    # Arden's lemma: the least solution of a = x a | y is x* y.
    names = list(bodies)
    for i in reversed(range(len(names))):
        own = equations[names[i]]
        loop = star(own.pop(names[i], NOTHING))
        for key in own:
            own[key] = join(loop, own[key])
        for other in names[:i]:
            substitute(equations[other], names[i], own)
    solution: dict[str, Expression] = {}
    for name in names:
        for known, expression in solution.items():
            substitute(equations[name], known, {None: expression})
        solution[name] = equations[name].get(None, NOTHING)
    return solution


def _linear(
    item: Item, names: set[str], expression_of: Callable[[Item], Expression], from_left: bool
) -> _Sum | None:
    """An item as a sum, if it mentions the names at one end only."""
    if isinstance(item, Literal) or not any(found.name in names for found in references(item)):
        return {None: expression_of(item)}
    if isinstance(item, Name):
        return {item.name: EMPTY_STRING}
    if isinstance(item, Repeated):
        if (item.least, item.most) != (0, 1):
            return None
        return _linear(Alternatives((Row(()), item.body)), names, expression_of, from_left)
    if isinstance(item, Alternatives):
        total: _Sum = {}
        for option in item.parts:
            found = _linear(option, names, expression_of, from_left)
            if found is None:
                return None
            for key, factor in found.items():
                total[key] = union(total.get(key, NOTHING), factor)
        return total
    end, rest = (item.parts[0], item.parts[1:]) if from_left else (item.parts[-1], item.parts[:-1])
    if any(found.name in names for part in rest for found in references(part)):
        return None
    inner = _linear(end, names, expression_of, from_left)
    if inner is None:
        return None
    beside = expression_of(Row(rest))
    return {
        key: concatenation(*((factor, beside) if from_left else (beside, factor)))
        for key, factor in inner.items()
    }

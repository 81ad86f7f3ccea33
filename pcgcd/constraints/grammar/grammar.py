"""Context-free grammars in Lark's notation, unrolled to a depth."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from pcgcd.automata.expressions import (
    EMPTY_STRING,
    NOTHING,
    Expression,
    concatenation,
    repeat,
    star,
    union,
)
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.grammar.parser import (
    Alternatives,
    Grammar,
    Item,
    Literal,
    Name,
    Repeated,
    read_grammar,
)
from pcgcd.constraints.grammar.recursion import (
    components,
    linear_solution,
    references,
    without_own_ends,
)
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError

MAX_SIZE = 500_000
MAX_ITEMS = 200_000
MAX_DEPTH = 1000


def grammar(text: str, *, start: str = "start", max_depth: int = 4) -> Constraint:
    r"""Accept the texts that a context-free grammar derives, up to a depth of nesting.

    The notation is Lark's: rules, terminals in capitals, strings, patterns, ranges, ``| * + ? ~``,
    groups, ``[ ]``, ``%ignore`` and ``%import common.X``. There is no lexer that would prefer one
    terminal to another: a text is accepted if it can be divided into terminals in some way.

    Recursion on one side of a rule (``list: item | list "," item``), and sets of rules that are
    linear on one side, become repetition and are exact. Any other is cut off: on the way from the
    start down to a terminal, references back to a rule that is being derived may be nested
    ``max_depth`` deep. The constraint's ``dropped`` lists the rules that this concerns.

    Args:
        text: The grammar.
        start: The rule to start from.
        max_depth: How deep recursion may go, at most 1,000.

    Raises:
        InvalidParameterError: The grammar is broken.
        UnsupportedConstraintError: It uses templates, look-around, or directives that cannot be
            honoured.
        AutomatonTooLargeError: To this depth it needs more than 500,000 states before it is made
            small, or has more than 200,000 items.
        EmptyLanguageError: To this depth there is no text.

    >>> grammar('''
    ...     start: "(" start ")" | INT
    ...     %import common.INT
    ... ''')
    Constraint(grammar from start, depth 4)
    """
    check_whole_number("max_depth", max_depth, most=MAX_DEPTH)
    rules = read_grammar(text)
    if not isinstance(start, str) or start not in rules.rules:
        raise InvalidParameterError(
            f"the grammar has no rule {start!r:.60} to start from; its rules are "
            f"{', '.join(rules.rules)[:200] or 'none'}"
        )
    unrolling = _Unrolling(rules, max_depth)
    try:
        expression = unrolling.text_of(start)
    except RecursionError as error:
        raise AutomatonTooLargeError(
            f"the rules of the grammar are nested too deeply at max_depth={max_depth}; lower it"
        ) from error
    if expression == NOTHING:
        raise EmptyLanguageError(
            f"the rule {start} derives no text at max_depth={max_depth}; raise it, or give every "
            "recursive rule an alternative that ends"
        )
    dropped = tuple(f"rule {name}: nested to {max_depth} levels" for name in unrolling.cut)
    return Constraint(expression, f"grammar from {start}, depth {max_depth}", dropped)


class _Unrolling:
    """Expressions of rules, each computed after those that it needs.

    Attributes:
        cut: The rules to which references back were cut off.
    """

    def __init__(self, rules: Grammar, max_depth: int) -> None:
        self._grammar = rules
        self._max_depth = max_depth
        self._terminals: dict[str, Expression] = {}
        self._rules: dict[str, Expression] = {}
        self._between: Expression = EMPTY_STRING
        self.cut: list[str] = []
        for group in components(rules.terminals, list(rules.terminals), terminals=True):
            self._add_terminal(group.names[0], group.is_recursive)
        self._between = star(union(*map(self._terminal_expression, rules.ignored)))

    def text_of(self, start: str) -> Expression:
        for group in components(self._grammar.rules, [start], terminals=False):
            if group.is_recursive:
                self._add_recursive(group.names)
            else:
                name = group.names[0]
                body = self.expression(self._grammar.rules[name].body, self._rules)
                self._rules[name] = self._checked(body, 0)
        return self._checked(concatenation(self._between, self._rules[start]), self._max_depth)

    def _checked(self, expression: Expression, depth: int) -> Expression:
        if expression.size > MAX_SIZE:
            advice = f"use a max_depth below {depth}" if depth else "use fewer and smaller repeats"
            raise AutomatonTooLargeError(
                f"unrolled to depth {depth}, the grammar needs about {expression.size:.3g} states; "
                f"the limit is {MAX_SIZE:,}; {advice}"
            )
        return expression

    # -- terminals ----------------------------------------------------------------------------

    def _add_terminal(self, name: str, is_recursive: bool) -> None:
        definition = self._grammar.terminals[name]
        if is_recursive:
            raise InvalidParameterError(
                f"the terminal {name} in line {definition.line} of the grammar refers to itself; "
                "make it a rule"
            )
        self._terminals[name] = self._checked(self._terminal_expression(definition.body), 0)

    def _terminal_expression(self, item: Item) -> Expression:
        between, self._between = self._between, EMPTY_STRING
        result = self.expression(item, {}, in_terminal=True)
        self._between = between
        return result

    # -- rules --------------------------------------------------------------------------------

    def expression(
        self, item: Item, rules: Mapping[str, Expression], *, in_terminal: bool = False
    ) -> Expression:
        """The expression of an item, given those of the rules."""
        if isinstance(item, Literal):
            return concatenation(item.expression, self._between)
        if isinstance(item, Name):
            return self._named(item, rules, in_terminal)
        if isinstance(item, Repeated):
            body = self.expression(item.body, rules, in_terminal=in_terminal)
            return repeat(body, item.least, item.most)
        found = [self.expression(part, rules, in_terminal=in_terminal) for part in item.parts]
        return union(*found) if isinstance(item, Alternatives) else concatenation(*found)

    def _named(self, item: Name, rules: Mapping[str, Expression], in_terminal: bool) -> Expression:
        if item.is_terminal:
            if item.name not in self._terminals:
                raise _undefined(item, "terminal")
            return concatenation(self._terminals[item.name], self._between)
        if in_terminal:
            raise InvalidParameterError(
                f"line {item.line} of the grammar uses the rule {item.name} in a terminal; "
                "terminals are made of strings, patterns and terminals only"
            )
        if item.name not in rules:
            raise _undefined(item, "rule")
        return rules[item.name]

    def _add_recursive(self, names: list[str]) -> None:
        bodies = {name: self._grammar.rules[name].body for name in names}
        for from_left in (False, True):
            solution = linear_solution(
                bodies,
                lambda item: self.expression(item, self._rules),
                lambda expression: self._checked(expression, 0),
                from_left=from_left,
            )
            if solution is not None:
                self._rules.update(solution)
                return
        self._unroll(names, {name: without_own_ends(name, bodies[name]) for name in names})

    def _unroll(self, names: list[str], bodies: dict[str, Item]) -> None:
        """Depth by depth: what comes later in the list may be used at the same depth."""
        shallower = dict.fromkeys(names, NOTHING)
        items = sum(_num_items(body) for body in bodies.values())
        for depth in range(self._max_depth + 1):
            if depth * items > MAX_ITEMS:
                raise AutomatonTooLargeError(
                    f"the rules that refer to each other have {items:,} items, and unrolled to "
                    f"depth {depth} they are over the limit of {MAX_ITEMS:,}; use a max_depth "
                    f"below {depth}"
                )
            current: dict[str, Expression] = {}
            for name in reversed(names):
                known = ChainMap(current, shallower, self._rules)
                current[name] = self._checked(self.expression(bodies[name], known), depth)
            if current == shallower:
                break
            shallower = current
        else:
            self.cut += _referred_back(names, bodies)
        self._rules.update(shallower)


def _referred_back(names: list[str], bodies: dict[str, Item]) -> list[str]:
    """The rules that are referred to by themselves, or by rules later in the list."""
    later: set[str] = set()
    found = []
    for name in reversed(names):
        later.update(reference.name for reference in references(bodies[name]))
        if name in later:
            found.append(name)
    return found[::-1]


def _num_items(item: Item) -> int:
    """How many strings, patterns and names an item has."""
    if isinstance(item, Literal | Name):
        return 1
    parts = (item.body,) if isinstance(item, Repeated) else item.parts
    return 1 + sum(map(_num_items, parts))


def _undefined(item: Name, what: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"line {item.line} of the grammar uses the {what} {item.name}, which is not defined; "
        "define it"
    )

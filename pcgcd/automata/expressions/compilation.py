"""From an expression over bytes to an automaton."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, TypeAlias
from typing import Literal as OneOf

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import AnyOrder, Complement, Expression, Intersection, Member
from pcgcd.automata.expressions.thompson import construct, copied, post_order, states_inside
from pcgcd.automata.graphs import Graph, too_large
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.products import complemented, intersect
from pcgcd.errors import InvalidParameterError

Determinism: TypeAlias = "bool | OneOf['auto']"

# "auto" tries a deterministic automaton of so many states, with so many steps for each of them.
_MODEST_STATES = 2_000
_MODEST_GROWTH = 4
_MODEST_STEPS = 500
# Parts of at most this size are not worth an automaton of their own.
_SMALL = 4
_KEPT_AUTOMATA = 256
_KEPT_EDGES = 4_000_000


def compile_expression(
    expression: Expression,
    *,
    state_limit: int = STATE_LIMIT,
    deterministic: Determinism = "auto",
) -> FiniteAutomaton:
    """The automaton of an expression, over the 256 bytes.

    Args:
        expression: What to compile. Equal expressions are compiled once.
        state_limit: How many states any automaton on the way may have.
        deterministic: True: the minimal deterministic automaton, whatever it costs up to the
            limit. False: one with choices, reduced by bisimulation. "auto": the minimal
            deterministic one if that stays about as small, otherwise one with choices.

    Raises:
        AutomatonTooLargeError: The limit was passed.

    >>> from pcgcd.automata.expressions import literal, star
    >>> fa = compile_expression(literal("ab") | star(literal("c")))
    >>> fa
    FiniteAutomaton(4 states, 4 edges, 3 labels, 256 tokens)
    >>> fa.accepts(b"ccc"), fa.accepts(b"abc")
    (True, False)
    """
    if deterministic not in (True, False, "auto"):
        raise InvalidParameterError(
            f'deterministic must be True, False or "auto", but it is {deterministic!r}'
        )
    if state_limit < 1:
        raise InvalidParameterError(f"state_limit must be at least 1, but it is {state_limit}")
    found = _CACHE.get(expression, state_limit, deterministic)
    if found is None:
        found = _compile(expression, state_limit, deterministic)
        _CACHE.put(expression, state_limit, deterministic, found)
    return found


def _compile(
    expression: Expression, state_limit: int, deterministic: Determinism
) -> FiniteAutomaton:
    """Post-order: a part that is copied often, or is no sum of its parts, is built by itself."""
    nodes = post_order(expression)
    often = {id(child) for node in nodes for child in copied(node) if child.size > _SMALL}
    built: dict[int, FiniteAutomaton] = {}
    inside: dict[int, int] = {}
    for node in nodes:
        inside[id(node)] = states_inside(node, inside)
        _check_size(node, inside[id(node)] + 2, state_limit)
        combined = isinstance(node, Intersection | Complement)
        if combined or id(node) in often:
            choices = deterministic is False and not combined
            kind: Determinism = False if choices else "auto"
            found = _CACHE.get(node, state_limit, kind)
            if found is None:
                found = _by_itself(node, built, state_limit, kind).automaton()
                _CACHE.put(node, state_limit, kind, found)
            built[id(node)] = found
            inside[id(node)] = found.num_states
    graph = _graph(expression, built, state_limit)
    return _finished(graph, state_limit, deterministic).numbered().automaton()


def _graph(expression: Expression, built: dict[int, FiniteAutomaton], state_limit: int) -> Graph:
    if id(expression) in built:
        return Graph.of(built[id(expression)])
    return construct(expression, built, state_limit)


def _by_itself(
    node: Expression,
    built: dict[int, FiniteAutomaton],
    state_limit: int,
    deterministic: Determinism,
) -> Graph:
    if isinstance(node, Complement):
        body = _finished(_graph(node.body, built, state_limit), state_limit, True)
        return _finished(complemented(body), state_limit, "auto")
    if isinstance(node, Intersection):
        parts = [
            _finished(_graph(part, built, state_limit), state_limit, "auto") for part in node.parts
        ]
        result, *others = sorted(parts, key=lambda part: part.num_states)
        for other in others:
            result = _finished(intersect(result, other, state_limit).trimmed(), state_limit, "auto")
        return result
    graph = _graph(node, built, state_limit)
    result = _finished(graph, state_limit, deterministic)
    return result if result.num_states <= graph.num_states else graph.reduced()


def _check_size(node: Expression, needed: int, state_limit: int) -> None:
    if needed <= state_limit:
        return
    if needed < 10**12:
        number = f"{needed:,}"
    else:
        number = f"about 10^{needed.bit_length() * 0.30103:.0f}"
    what = "the automaton of this expression"
    if isinstance(node, AnyOrder):
        what = f"an automaton for {len(node.members)} members in any order"
    raise too_large(what, state_limit, number)


def _finished(graph: Graph, state_limit: int, deterministic: Determinism) -> Graph:
    """Trim and small, and deterministic as asked for."""
    if deterministic is False:
        return graph.reduced()
    states = graph.num_states
    if deterministic == "auto":
        limit = min(state_limit, max(_MODEST_STATES, _MODEST_GROWTH * states))
        result = graph.determinized(limit, _MODEST_STEPS * limit)
    else:
        result = graph.determinized(state_limit)
    if result is not None:
        return result.trimmed().refined()
    if deterministic == "auto":
        return graph.reduced()
    raise too_large(f"a deterministic automaton for one with {states:,} states", state_limit)


# -- what was compiled before -----------------------------------------------------------------


class _Cache:
    """The automata that were used last, by expression."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Any, tuple[Expression, FiniteAutomaton]] = OrderedDict()
        self.edges = 0
        self.lock = Lock()

    def get(
        self, expression: Expression, state_limit: int, deterministic: Determinism
    ) -> FiniteAutomaton | None:
        key = (hash(expression), state_limit, deterministic)
        with self.lock:
            entry = self.entries.get(key)
            if entry is None or not _equal(entry[0], expression):
                return None
            self.entries.move_to_end(key)
            return entry[1]

    def put(
        self,
        expression: Expression,
        state_limit: int,
        deterministic: Determinism,
        fa: FiniteAutomaton,
    ) -> None:
        key = (hash(expression), state_limit, deterministic)
        with self.lock:
            old = self.entries.pop(key, None)
            self.edges += fa.num_edges - (old[1].num_edges if old else 0)
            self.entries[key] = (expression, fa)
            while len(self.entries) > _KEPT_AUTOMATA or self.edges > _KEPT_EDGES:
                _, (_, dropped) = self.entries.popitem(last=False)
                self.edges -= dropped.num_edges


_CACHE = _Cache()


def _equal(left: Expression, right: Expression) -> bool:
    """Equality of structure without recursion, since expressions may be deep."""
    stack: list[tuple[Any, Any]] = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Expression) and isinstance(b, Expression):
            if hash(a) != hash(b) or len(a._key) != len(b._key):
                return False
            stack += zip(a._key, b._key)
        elif isinstance(a, Member) and isinstance(b, Member):
            stack += [(a.body, b.body), (a.required, b.required)]
        elif a != b:
            return False
    return True

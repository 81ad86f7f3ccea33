"""From an expression over bytes to an automaton."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, TypeAlias
from typing import Literal as OneOf
from weakref import WeakKeyDictionary

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import (
    NOTHING,
    AnyOrder,
    Block,
    Complement,
    Embedded,
    Expression,
    Intersection,
)
from pcgcd.automata.expressions.blocks import clashes, expand, expanded_size, make_block, opened
from pcgcd.automata.expressions.chains import Chain
from pcgcd.automata.expressions.thompson import (
    construct,
    post_order,
    states_inside,
)
from pcgcd.automata.graphs import Graph, too_large
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.products import complemented, intersect
from pcgcd.basics.memory import give_back
from pcgcd.errors import InvalidParameterError

Determinism: TypeAlias = "bool | OneOf['auto']"

# "auto" tries a deterministic automaton of so many states, with so many steps for each of them. It
# may be so many times as large, and not any larger where it has more than the most.
_MODEST_STATES = 2_000
_MODEST_GROWTH = 4
_MODEST_MOST = 60_000
_MODEST_STEPS = 500
# Blocks are opened as long as the automaton has so many states at most.
_MOST_OPENED = 40_000
# What so many states are made from leaves memory behind that is worth giving back.
_MANY_STATES = 50_000
_KEPT_AUTOMATA = 256
_KEPT_EDGES = 500_000
# What is larger is kept as long as its expression.
_MOST_KEPT = 150_000


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
    found: FiniteAutomaton | None = _CACHE.get(expression, state_limit, deterministic)
    if found is None:
        if deterministic == "auto":
            graph, inside = compile_folded(expression, state_limit=state_limit)
        else:
            graph, inside = _symbolic(expression, state_limit, deterministic)
        if inside:
            graph = expand(graph, inside).classified().refined()
        found = graph.numbered().automaton()
        _CACHE.put(expression, state_limit, deterministic, found, found.num_edges)
        if found.num_states > _MANY_STATES:
            del graph
            give_back()
    return found


def compile_folded(
    expression: Expression, *, state_limit: int = STATE_LIMIT
) -> tuple[Graph, tuple[Block, ...]]:
    """Return the automaton with blocks as letters, from 256 on, and these blocks.

    Args:
        expression: What to compile. Equal expressions are compiled once.
        state_limit: How many states any automaton may have, this one with its blocks written out.

    Raises:
        AutomatonTooLargeError: The limit was passed.
    """
    found: tuple[Graph, tuple[Block, ...]] | None = _CACHE.get(expression, state_limit, "folded")
    if found is None:
        graph, inside = found = _symbolic(expression, state_limit, "auto")
        size = expanded_size(graph, inside)
        _check_size(expression, size, state_limit)
        _CACHE.put(expression, state_limit, "folded", found, max(size, len(graph.source)))
    return found


def compile_block(expression: Expression, *, state_limit: int = STATE_LIMIT) -> Expression:
    """The same language as one letter of whatever it becomes a part of.

    What is compiled in this way is compiled once, and may be placed often at no cost. It needs a
    language in which no text begins another one, such as that of a text in brackets; any other is
    embedded as an automaton.

    Args:
        expression: What to compile. Equal expressions are compiled once.
        state_limit: How many states any automaton on the way may have; blocks inside are one.

    Raises:
        AutomatonTooLargeError: The limit was passed.

    >>> from pcgcd.automata.expressions import literal, star
    >>> compile_block(literal("[") + star(literal("a")) + literal("]")).size
    3
    """
    found: Expression | None = _CACHE.get(expression, state_limit, "block")
    if found is None:
        graph, inside = _symbolic(expression, state_limit, "auto")
        found = make_block(graph, inside) if graph.accepting.any() else NOTHING
        if found is None:
            found = Embedded(compile_expression(expression, state_limit=state_limit))
        _CACHE.put(expression, state_limit, "block", found, len(graph.source))
    return found


def _symbolic(
    expression: Expression, state_limit: int, deterministic: Determinism
) -> tuple[Graph, tuple[Block, ...]]:
    """An automaton with blocks as letters, and these blocks.

    Blocks that begin like something else at the same state are opened there, until there are none.
    Where that would make the automaton large, they stay letters, and it has choices.
    """
    if isinstance(expression, Block) and deterministic == "auto":
        return expression.graph, expression.inside
    if deterministic == "auto" and (chain := Chain.of(expression)) is not None:
        body = compile_expression(chain.body, state_limit=state_limit)
        _check_size(expression, chain.num_states(body), state_limit)
        linked = chain.linked(body)
        if linked is not None:
            return linked, ()
    built = _built_parts(expression, state_limit, deterministic)
    graph, inside = _graph(expression, built, state_limit, with_letters=deterministic == "auto")
    if deterministic != "auto":
        return _finished(graph, state_limit, deterministic), ()
    while True:
        found = graph.with_subsets(*_modest_limits(graph, state_limit))
        if found is None:
            return graph.reduced(), inside
        clashing = clashes(*found, graph, inside) if inside else None
        if clashing is None or not len(clashing.edges):
            return found[0].refined(), inside
        del found  # most of the memory
        larger, letters = opened(graph, inside, clashing)
        if larger.num_states > _MOST_OPENED:
            return graph.reduced(), inside
        graph, inside = larger.classified(), letters


def _built_parts(
    expression: Expression, state_limit: int, deterministic: Determinism
) -> dict[int, FiniteAutomaton]:
    """The automata of those parts that are built by themselves, by id."""
    built: dict[int, FiniteAutomaton] = {}
    inside: dict[int, int] | None = {} if 2 * expression.size > state_limit else None
    for node in (*expression.apart, expression) if expression.is_combined else expression.apart:
        if inside is not None:
            _check_sizes(node, built, inside, state_limit)
        choices = deterministic is False and not node.is_combined
        kind: Determinism = False if choices else "auto"
        found = _CACHE.get(node, state_limit, kind)
        if found is None:
            found = _by_itself(node, built, state_limit, kind).automaton()
            _CACHE.put(node, state_limit, kind, found, found.num_edges)
        built[id(node)] = found
    if inside is not None:
        _check_sizes(expression, built, inside, state_limit)
    return built


def _check_sizes(
    expression: Expression,
    built: dict[int, FiniteAutomaton],
    inside: dict[int, int],
    state_limit: int,
) -> None:
    """Refuse what would pass the limit before it is built; ``inside`` are the states by id."""
    for node in post_order(expression):
        found = built.get(id(node))
        inside[id(node)] = states_inside(node, inside) if found is None else found.num_states
        _check_size(node, inside[id(node)] + 2, state_limit)


def _graph(
    expression: Expression,
    built: dict[int, FiniteAutomaton],
    state_limit: int,
    *,
    with_letters: bool,
) -> tuple[Graph, tuple[Block, ...]]:
    if id(expression) in built:
        return Graph.of(built[id(expression)]), ()
    return construct(expression, built, state_limit, with_letters)


def _by_itself(
    node: Expression,
    built: dict[int, FiniteAutomaton],
    state_limit: int,
    deterministic: Determinism,
) -> Graph:
    def graph_of(part: Expression) -> Graph:
        return _graph(part, built, state_limit, with_letters=False)[0]

    if isinstance(node, Complement):
        body = _finished(graph_of(node.body), state_limit, True)
        return _finished(complemented(body).trimmed(), state_limit, "auto")
    if isinstance(node, Intersection):
        # Blocks are as small as they can be already.
        parts = [
            graph_of(part)
            if isinstance(part, Block)
            else _finished(graph_of(part), state_limit, "auto")
            for part in node.parts
        ]
        result, *others = sorted(parts, key=lambda part: part.num_states)
        for other in others:
            result = _finished(intersect(result, other, state_limit).trimmed(), state_limit, "auto")
        return result
    graph = graph_of(node)
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
    """What a trim automaton becomes: small, and deterministic as asked for."""
    if deterministic is False:
        return graph.reduced()
    limits = _modest_limits(graph, state_limit) if deterministic == "auto" else (state_limit,)
    result = graph.determinized(*limits)
    if result is None and deterministic == "auto":
        return graph.reduced()
    if result is None:
        what = f"a deterministic automaton for one with {graph.num_states:,} states"
        raise too_large(what, state_limit)
    return result.refined()


def _modest_limits(graph: Graph, state_limit: int) -> tuple[int, int]:
    """How many states and steps a deterministic automaton may take where it need not be one."""
    most = min(_MODEST_GROWTH * graph.num_states, max(_MODEST_MOST, graph.num_states))
    limit = min(state_limit, max(_MODEST_STATES, most))
    return limit, _MODEST_STEPS * limit


# -- what was compiled before -----------------------------------------------------------------


class _Cache:
    """The automata and blocks that were made last, by expression."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Any, tuple[Expression, Any, int]] = OrderedDict()
        self.edges = 0
        self.large: WeakKeyDictionary[Expression, dict[Any, Any]] = WeakKeyDictionary()
        self.lock = Lock()

    def get(self, expression: Expression, state_limit: int, kind: object) -> Any:
        key = (hash(expression), state_limit, kind)
        with self.lock:
            entry = self.entries.get(key)
            if entry is None or entry[0] != expression:
                return self.large.get(expression, {}).get((state_limit, kind))
            self.entries.move_to_end(key)
            return entry[1]

    def put(
        self, expression: Expression, state_limit: int, kind: object, value: Any, edges: int
    ) -> None:
        key = (hash(expression), state_limit, kind)
        with self.lock:
            # What a block is made from goes when it is made, but others may be made from the same.
            if edges > _MOST_KEPT and kind != "block":
                self.large.setdefault(expression, {})[state_limit, kind] = value
                return
            old = self.entries.pop(key, None)
            self.edges += edges - (old[2] if old else 0)
            self.entries[key] = (expression, value, edges)
            while len(self.entries) > _KEPT_AUTOMATA or self.edges > _KEPT_EDGES:
                *_, dropped = self.entries.popitem(last=False)[1]
                self.edges -= dropped


_CACHE = _Cache()

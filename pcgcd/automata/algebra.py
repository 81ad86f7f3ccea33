"""Operations on the languages of automata, over any vocabulary.

These are also methods of :class:`pcgcd.FiniteAutomaton`. Its ``*`` and ``+`` are something else:
they multiply and add circuits, that is, numbers of paths. Union and intersection add and multiply
these too, and weights; reversal and trimming change neither. The other operations are about words
only, and refuse automata with weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.empty_moves import assemble, orders, side_by_side
from pcgcd.automata.graphs import Graph, too_large
from pcgcd.automata.kernels.jit import Indices
from pcgcd.automata.limits import NEVER, STATE_LIMIT
from pcgcd.automata.products import complemented, path_product, with_common_classes
from pcgcd.automata.weights import language_only
from pcgcd.errors import InvalidParameterError

_NONE: Indices = np.empty(0, dtype=np.int64)


def _graphs(operation: str, automata: Sequence[FiniteAutomaton]) -> list[Graph]:
    language_only(operation, *automata)
    return with_common_classes([Graph.of(fa) for fa in automata])


def _starts(graphs: Sequence[Graph]) -> tuple[list[Indices], list[Indices], int]:
    """The initial and the accepting states of automata put side by side, and their number."""
    first = np.cumsum([0, *(graph.num_states for graph in graphs)])
    initial = [np.flatnonzero(g.initial) + at for g, at in zip(graphs, first)]
    accepting = [np.flatnonzero(g.accepting) + at for g, at in zip(graphs, first)]
    return initial, accepting, int(first[-1])


def _moves(source: Indices | int, target: Indices | int) -> tuple[Indices, Indices]:
    """Empty moves from all of some states to all of others."""
    sources, targets = np.atleast_1d(source), np.atleast_1d(target)
    return np.repeat(sources, len(targets)), np.tile(targets, len(sources))


# -- rational operations ----------------------------------------------------------------------


def union(*automata: FiniteAutomaton) -> FiniteAutomaton:
    """Accept the words of any of the automata: their paths, and so their weights, are added."""
    return side_by_side([Graph.of(fa) for fa in automata]).trimmed().numbered().automaton()


def concatenate(*automata: FiniteAutomaton) -> FiniteAutomaton:
    """Accept a word of the first, then one of the second, and so on; linear in their sizes."""
    graphs = _graphs("concatenate", automata)
    initial, accepting, count = _starts(graphs)
    between = count + np.arange(len(graphs) - 1)
    moves = []
    for i, state in enumerate(between.tolist()):
        moves += [_moves(accepting[i], state), _moves(state, initial[i + 1])]
    whole = assemble(graphs, moves, len(between), initial[0], accepting[-1])
    return whole.numbered().automaton()


def star(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Accept any number of its words, one after the other."""
    return repeat(fa, 0, None)


def option(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Accept its words and the empty one."""
    return repeat(fa, 0, 1)


def repeat(
    fa: FiniteAutomaton, least: int = 0, most: int | None = None, *, state_limit: int = STATE_LIMIT
) -> FiniteAutomaton:
    """Accept from ``least`` to ``most`` of its words (None: any number), one after the other."""
    if least < 0 or (most is not None and most < least):
        raise InvalidParameterError(f"cannot repeat at least {least} and at most {most} times")
    copies = max(1, least if most is None else most)
    needed = copies * (fa.num_states + 1) + 1
    if needed > state_limit:
        raise too_large(
            f"{copies:,} copies of {fa.num_states:,} states", state_limit, f"{needed:,}"
        )
    graphs = _graphs("repeat", [fa]) * copies
    initial, accepting, count = _starts(graphs)
    # State i of these is passed before copy i, the last one after the last copy.
    between = count + np.arange(copies + 1)
    end = between[-1]
    moves = []
    if most != 0:
        for i in range(copies):
            moves += [_moves(between[i], initial[i]), _moves(accepting[i], between[i + 1])]
    moves.append(_moves(between[least:], end))
    if most is None:
        moves.append(_moves(end, between[-2]))
    whole = assemble(graphs, moves, copies + 1, between[:1], between[-1:])
    return whole.numbered().automaton()


def reverse(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Accept its words read backwards."""
    return Graph.of(fa).reversed().numbered().automaton()


# -- boolean operations -----------------------------------------------------------------------


def intersection(*automata: FiniteAutomaton, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
    """Accept what all of the automata accept; see :func:`pcgcd.automata.products.path_product`.

    The numbers of accepting paths of a word, and so its weights, are multiplied.
    """
    return path_product(automata, state_limit=state_limit)


def complement(fa: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
    """Accept every other word over the vocabulary, by a minimal deterministic automaton."""
    others = complemented(_minimal("complement", fa, state_limit))
    return others.trimmed().refined().numbered().automaton()


def difference(
    fa: FiniteAutomaton, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT
) -> FiniteAutomaton:
    """Accept the words of the first that the other does not accept."""
    return intersection(fa, complement(other, state_limit=state_limit), state_limit=state_limit)


# -- the same words from another automaton ----------------------------------------------------


def _deterministic(operation: str, fa: FiniteAutomaton, state_limit: int) -> Graph:
    graph = _graphs(operation, [fa])[0].trimmed()
    result = graph.determinized(state_limit)
    if result is None:
        raise too_large(
            f"a deterministic automaton for one with {graph.num_states:,} states", state_limit
        )
    return result


def _minimal(operation: str, fa: FiniteAutomaton, state_limit: int) -> Graph:
    return _deterministic(operation, fa, state_limit).trimmed().refined()


def determinize(fa: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
    """Make the automaton deterministic, by the subset construction."""
    return _deterministic("determinize", fa, state_limit).numbered().automaton()


def minimize(fa: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
    """Make the smallest deterministic automaton: the same arrays for every one of a language."""
    return _minimal("minimize", fa, state_limit).numbered().automaton()


def reduce(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Shrink the automaton by bisimulation, forward and backward; it may stay ambiguous."""
    return _graphs("reduce", [fa])[0].reduced().numbered().automaton()


def support(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Accept the same words, without weights."""
    return replace(Graph.of(fa), weight=None).automaton() if fa.is_weighted else fa


def trim(fa: FiniteAutomaton) -> FiniteAutomaton:
    """Keep only the states on a path from an initial to an accepting one, in their order."""
    return Graph.of(fa).trimmed().automaton()


# -- orders -----------------------------------------------------------------------------------


def shuffle(
    fa: FiniteAutomaton, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT
) -> FiniteAutomaton:
    """Accept a word of each, their tokens interleaved in any way."""
    a, b = (graph.trimmed() for graph in _graphs("shuffle", [fa, other]))
    count = a.num_states * b.num_states
    if count > state_limit:
        raise too_large("the shuffle of the automata", state_limit, f"{count:,}")
    # The pair (p, q) is state p * S2 + q; an edge of one moves while the other stays.
    pair = np.arange(count).reshape(a.num_states, b.num_states)
    label = [np.repeat(a.label, b.num_states), np.tile(b.label + len(a.sets), a.num_states)]
    whole = replace(
        a,
        num_states=count,
        source=np.concatenate([pair[a.source].ravel(), pair[:, b.source].ravel()]),
        target=np.concatenate([pair[a.target].ravel(), pair[:, b.target].ravel()]),
        label=np.concatenate(label),
        sets=np.concatenate([a.sets, b.sets]),
        initial=np.outer(a.initial, b.initial).ravel(),
        accepting=np.outer(a.accepting, b.accepting).ravel(),
    )
    return whole.numbered().automaton()


def any_order(
    *members: FiniteAutomaton,
    required: Sequence[bool] | None = None,
    separator: FiniteAutomaton | None = None,
    least: int = 0,
    most: int | None = None,
    state_limit: int = STATE_LIMIT,
) -> FiniteAutomaton:
    """Accept a word of each member, one whole word after the other, in any order.

    Args:
        members: The automata. Each has to be copied 2 ** (number of members - 1) times.
        required: Which of them must come; by default all.
        separator: What stands between two of them; by default nothing.
        least: How many of them come at least.
        most: How many of them come at most; by default all may.
        state_limit: How many states the automaton may have before it is reduced.
    """
    flags = [True] * len(members) if required is None else list(required)
    if len(flags) != len(members):
        raise InvalidParameterError(
            f"required has {len(flags)} entries for {len(members)} members; give one for each"
        )
    between = [] if separator is None else [separator]
    graphs = [graph.reduced() for graph in _graphs("any_order", [*members, *between])]
    half = 1 << (len(members) - 1)
    needed = half * (
        sum(g.num_states * (1 + (i == len(members))) for i, g in enumerate(graphs)) + 4
    )
    if needed > state_limit:
        raise too_large(
            f"an automaton for {len(members)} members in any order", state_limit, f"{needed:,}"
        )
    choice = orders(flags, least, most)
    copies: list[Graph] = []
    ways: list[tuple[int, int]] = []
    count = 2 * half
    # State S is passed when the members of S have been seen, state count + S when one may follow.
    for i, before in enumerate(choice.before):
        copies += [graphs[i]] * len(before)
        ways += [(count + s, s | 1 << i) for s in before.tolist()]
    direct = [(0, count)]
    if separator is None:
        direct += [(s, count + s) for s in choice.open.tolist()]
    else:
        copies += [graphs[-1]] * len(choice.open)
        ways += [(s, count + s) for s in choice.open.tolist()]
    # At least one automaton, so that the vocabulary is known.
    initial, accepting, first = _starts(copies or graphs)
    moves = [_moves(first + s, first + t) for s, t in direct]
    for (entry, exit_), starts, ends in zip(ways, initial, accepting):
        moves += [_moves(first + entry, starts), _moves(ends, first + exit_)]
    whole = assemble(copies or graphs, moves, 2 * count, np.array([first]), first + choice.final)
    return whole.numbered().automaton()


# -- questions --------------------------------------------------------------------------------


def is_empty(fa: FiniteAutomaton) -> bool:
    """Return whether no word is accepted."""
    return bool((fa.distance_to_accept[fa.initial_mask] == NEVER).all())


def is_universal(fa: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> bool:
    """Return whether every word over the vocabulary is accepted."""
    return is_empty(complement(fa, state_limit=state_limit))


def is_equivalent(
    fa: FiniteAutomaton, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT
) -> bool:
    """Return whether both accept the same words: whether their minimal automata are the same."""
    _graphs("is_equivalent", [fa, other])
    a, b = minimize(fa, state_limit=state_limit), minimize(other, state_limit=state_limit)
    pairs = [
        (a.source, b.source),
        (a.target, b.target),
        (a.label, b.label),
        (a.accepting_mask, b.accepting_mask),
        (a.labels.label_class, b.labels.label_class),
        (a.labels.token_class, b.labels.token_class),
    ]
    return all(np.array_equal(x, y) for x, y in pairs)

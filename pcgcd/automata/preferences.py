"""Soft constraints: weighted automata that prefer some texts to others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pcgcd.automata.algebra import difference, intersection, minimize
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.empty_moves import side_by_side
from pcgcd.automata.graphs import Graph
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.weights import language_only, positive_weight

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary


def length_preference(
    vocabulary: Vocabulary | int, weight_per_token: float, *, eos_ids: Iterable[int] | None = None
) -> FiniteAutomaton:
    """Weigh all texts by ``weight_per_token ** (number of tokens before the end)``.

    Below one it prefers short texts, above one long ones. The text ends with the first EOS, after
    which only EOS may follow; these weigh one.

    Args:
        vocabulary: The tokens, or how many there are.
        weight_per_token: The weight of each token of the text, above zero.
        eos_ids: The end-of-sequence tokens; by default those of the vocabulary, if it is given.

    >>> from math import exp
    >>> short = length_preference(3, 0.5, eos_ids=[2])
    >>> [round(exp(short.log_weight(x)), 3) for x in ([0, 1, 0], [0, 1, 2], [0, 2, 2], [2, 0])]
    [0.125, 0.25, 0.5, 0.0]
    """
    weight = positive_weight(weight_per_token)
    if isinstance(vocabulary, int | np.integer):
        size, ends = int(vocabulary), set(eos_ids or ())
    else:
        size, ends = vocabulary.logits_size, set(vocabulary.eos_ids if eos_ids is None else eos_ids)
    text = [token for token in range(size) if token not in ends]
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=size,
        initial=0,
        accepting={0, 1},
        edges=[(0, 0, text), (0, 1, ends), (1, 1, ends)],
        weights=[weight, 1.0, 1.0],
    )


def preferring(
    allowed: FiniteAutomaton,
    preferred: FiniteAutomaton,
    weight: float,
    *,
    state_limit: int = STATE_LIMIT,
) -> FiniteAutomaton:
    """Weigh the texts of ``allowed``: ``weight`` where ``preferred`` accepts too, otherwise one.

    Each text is weighed once, however many paths it has in the two automata. If these are padded
    with EOS, as compiled constraints are, then so is the result.

    Args:
        allowed: The texts that may be written.
        preferred: Those that are preferred (or, with a weight below one, avoided).
        weight: Their weight, above zero.
        state_limit: How many states each automaton on the way may have.

    >>> from math import exp
    >>> digits = FiniteAutomaton.from_edges(
    ...     num_states=1, vocab_size=10, initial=0, accepting=[0], edges=[(0, 0, range(10))]
    ... )
    >>> odd = FiniteAutomaton.from_edges(
    ...     num_states=2,
    ...     vocab_size=10,
    ...     initial=0,
    ...     accepting=[1],
    ...     edges=[(0, 0, range(10)), (0, 1, range(1, 10, 2))],
    ... )
    >>> soft = preferring(digits, odd, 4.0)
    >>> [round(exp(soft.log_weight(x)), 3) for x in ([1, 2], [1, 1], [7])]
    [1.0, 4.0, 4.0]
    """
    value = positive_weight(weight)
    language_only("preferring", allowed, preferred)
    # Deterministic automata have one path for each text, and so has their product.
    once = minimize(allowed, state_limit=state_limit)
    liked = minimize(preferred, state_limit=state_limit)
    both = intersection(once, liked, state_limit=state_limit)
    others = difference(once, liked, state_limit=state_limit)
    parts = [_paying_at_once(Graph.of(both), value), Graph.of(others)]
    return side_by_side(parts).trimmed().numbered().automaton()


def _paying_at_once(graph: Graph, weight: float) -> Graph:
    """The weight on the first edge of every path: they leave a new state, which none enters."""
    start = np.flatnonzero(graph.initial)
    first = np.flatnonzero(np.isin(graph.source, start))
    return replace(
        graph,
        num_states=graph.num_states + 1,
        source=np.concatenate([graph.source, np.full(len(first), graph.num_states)]),
        target=np.concatenate([graph.target, graph.target[first]]),
        label=np.concatenate([graph.label, graph.label[first]]),
        initial=np.arange(graph.num_states + 1) == graph.num_states,
        accepting=np.append(graph.accepting, graph.accepting[start].any()),
        weight=np.concatenate([np.ones(len(graph.source)), np.full(len(first), weight)]),
    )

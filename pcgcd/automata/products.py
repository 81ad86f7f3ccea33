"""Products and complements of automata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pcgcd.automata.arrays import Weights
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.graphs import WORK_LIMIT, Graph, pack, too_large, unpack
from pcgcd.automata.kernels.product import product
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError


def with_common_classes(graphs: Sequence[Graph]) -> list[Graph]:
    """The same automata over the coarsest classes that all of their classes are unions of."""
    if not graphs:
        raise InvalidParameterError(
            "give at least one automaton; without one the vocabulary is unknown"
        )
    first = graphs[0]
    if all(graph.token_class is first.token_class for graph in graphs):
        return list(graphs)
    for graph in graphs:
        if len(graph.token_class) != len(first.token_class):
            raise VocabularyMismatchError(
                f"the automata must be over one vocabulary, but they have "
                f"{len(first.token_class)} and {len(graph.token_class)} tokens; lift them with the "
                f"same Vocabulary"
            )
    token_class = first.token_class
    for graph in graphs[1:]:
        if graph.token_class is not first.token_class:
            codes = token_class * graph.num_classes + graph.token_class
            token_class = np.unique(codes, return_inverse=True)[1].reshape(-1)
    num_classes = int(token_class.max()) + 1
    member = np.empty(num_classes, dtype=np.int64)
    member[token_class] = np.arange(len(token_class))
    return [
        replace(
            graph,
            sets=pack(unpack(graph.sets, graph.num_classes)[:, graph.token_class[member]]),
            num_classes=num_classes,
            token_class=token_class,
        )
        for graph in graphs
    ]


def path_product(automata: Sequence[FiniteAutomaton], *, state_limit: int) -> FiniteAutomaton:
    """The automaton whose paths are one path of each automaton, side by side.

    So the number of accepting paths of each word is the product of their numbers, and its weight
    the product of its weights: the same circuit as ``a * b``, with the states that matter only. It
    is deterministic if all are.
    """
    graphs = with_common_classes([Graph.of(fa) for fa in automata])
    result, *others = sorted(graphs, key=lambda graph: graph.num_states)
    result = result.trimmed()
    for other in others:
        result = intersect(result, other, state_limit).trimmed()
    return result.numbered().automaton()


def intersect(left: Graph, right: Graph, state_limit: int) -> Graph:
    """The pairs of states that can be reached, with one edge for each pair of edges.

    Between two states of an operand there is one edge, so that no two paths become one; if there
    are several, with different weights, they share no token, and so do their pairs.
    """
    left, right = with_common_classes([left, right])
    is_weighted = left.weight is not None or right.weight is not None
    (left, left_weight), (right, right_weight) = _weighted_labels(left), _weighted_labels(right)
    starts = np.flatnonzero(left.initial)[:, None] * right.num_states
    count, codes, source, target, pairs = product(
        *left.adjacency(),
        *right.adjacency(),
        left.sets,
        right.sets,
        (starts + np.flatnonzero(right.initial)).ravel(),
        state_limit,
        WORK_LIMIT,
    )
    if count < 0:
        raise too_large(
            f"the intersection of automata with {left.num_states:,} and {right.num_states:,} "
            "states",
            state_limit,
        )
    if count == 0:
        return Graph.nothing(left.num_classes, left.token_class)
    distinct, label = np.unique(pairs, return_inverse=True)
    label_left, label_right = np.divmod(distinct, max(1, len(right.sets)))
    weight = left_weight[label_left] * right_weight[label_right]
    if not (np.isfinite(weight) & (weight > 0)).all():
        raise InvalidParameterError(
            "a product of weights is too large or too small for a number of 64 bits; give the "
            "automata weights nearer to one"
        )
    return replace(
        left,
        num_states=count,
        source=source,
        target=target,
        label=label,
        sets=left.sets[label_left] & right.sets[label_right],
        initial=np.arange(count) < left.initial.sum() * right.initial.sum(),
        accepting=left.accepting[codes // right.num_states]
        & right.accepting[codes % right.num_states],
        weight=weight[label] if is_weighted else None,
    )


def _weighted_labels(graph: Graph) -> tuple[Graph, Weights]:
    """The same with labels that differ where weights do, and the weight of each label."""
    if graph.weight is None:
        return graph, np.ones(len(graph.sets))
    values, rank = np.unique(graph.weight, return_inverse=True)
    codes, label = np.unique(graph.label * len(values) + rank, return_inverse=True)
    sets = graph.sets[codes // len(values)]
    return replace(graph, label=label, sets=sets), values[codes % len(values)]


def complemented(graph: Graph) -> Graph:
    """All that a deterministic automaton does not accept; one more state takes what it lacks."""
    allowed = np.zeros((graph.num_states, graph.sets.shape[1]), dtype=np.int64)
    np.bitwise_or.at(allowed, graph.source, graph.sets[graph.label])
    everything = pack(np.ones((1, graph.num_classes), dtype=np.bool_))
    sink = graph.num_states
    states = np.arange(sink + 1)
    first = len(graph.sets)
    return replace(
        graph,
        num_states=sink + 1,
        source=np.concatenate([graph.source, states]),
        target=np.concatenate([graph.target, np.full(sink + 1, sink)]),
        label=np.concatenate([graph.label, first + states]),
        sets=np.concatenate([graph.sets, everything & ~allowed, everything]),
        initial=np.append(graph.initial, not graph.initial.any()),
        accepting=np.append(~graph.accepting, True),
    ).joined()

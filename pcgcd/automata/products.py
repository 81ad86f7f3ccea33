"""Intersection and complement of automata given as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pcgcd.automata.graphs import WORK_LIMIT, Graph, pack, too_large, unpack
from pcgcd.automata.kernels.product import product
from pcgcd.errors import VocabularyMismatchError

__all__ = ["complete", "intersect", "with_common_classes"]


def with_common_classes(graphs: Sequence[Graph]) -> list[Graph]:
    """The same automata over the coarsest classes that all of their classes are unions of."""
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


def intersect(left: Graph, right: Graph, state_limit: int) -> Graph:
    """The pairs of states that can be reached; deterministic if both are."""
    left, right = with_common_classes([left, right])
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
    num_right = max(1, len(right.sets))
    initial = np.zeros(count, dtype=np.bool_)
    initial[: left.initial.sum() * right.initial.sum()] = True
    return replace(
        left,
        num_states=count,
        source=source,
        target=target,
        label=label.reshape(-1),
        sets=left.sets[distinct // num_right] & right.sets[distinct % num_right],
        initial=initial,
        accepting=left.accepting[codes // right.num_states]
        & right.accepting[codes % right.num_states],
    )


def complete(graph: Graph) -> Graph:
    """A deterministic automaton with an edge for every state and class: one more state, a sink."""
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
        accepting=np.append(graph.accepting, False),
    ).joined()

"""Edges as people write them: checked, and those between the same two states joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from pcgcd.automata.arrays import Indices, Weights, token_array
from pcgcd.automata.labels import Labels
from pcgcd.automata.weights import weight_array
from pcgcd.basics.numbers import check_whole_number

Triple: TypeAlias = "tuple[int, int, Iterable[int]]"
Parts: TypeAlias = "list[tuple[Indices, float]]"


def read_edges(
    num_states: int,
    vocab_size: int,
    edges: Iterable[Triple],
    weights: Iterable[float] | None = None,
) -> tuple[Indices, Indices, Labels, Weights | None]:
    """Sources and targets (E, 2), labels and weights of (source, target, tokens) triples.

    Without weights there is one edge for two states. With them there is one for each weight, and
    their token sets are disjoint: the weights of a token that several have are added.
    """
    triples = list(edges)
    given = np.ones(len(triples)) if weights is None else weight_array(weights, len(triples))
    between: dict[tuple[int, int], Parts] = {}
    for (source, target, tokens), weight in zip(triples, given.tolist()):
        members = token_array(tokens, vocab_size)
        if len(members) and weight:
            for state in (source, target):
                check_whole_number("edge states", state, most=num_states - 1)
            between.setdefault((source, target), []).append((members, weight))
    pairs: list[tuple[int, int]] = []
    token_sets: list[Indices] = []
    sums: list[float] = []
    for pair, parts in between.items():
        for members, weight in _joined(parts, weights is not None):
            pairs.append(pair)
            token_sets.append(members)
            sums.append(weight)
    label, labels = Labels.from_token_sets(token_sets, vocab_size)
    total = None if weights is None else weight_array(sums, len(sums))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), label, labels, total


def _joined(parts: Parts, is_weighted: bool) -> Parts:
    """The same tokens in disjoint sets, one for each sum of weights; in one, if it is no matter."""
    if len(parts) == 1:
        return parts
    members, place = np.unique(np.concatenate([tokens for tokens, _ in parts]), return_inverse=True)
    if not is_weighted:
        return [(members, 1.0)]
    each = np.repeat([weight for _, weight in parts], [len(tokens) for tokens, _ in parts])
    total = np.bincount(place.reshape(-1), each)
    return [(members[total == weight], weight) for weight in np.unique(total).tolist()]

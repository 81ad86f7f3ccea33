"""Automata put together from others with empty moves, which are removed at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pcgcd.automata.graphs import Graph
from pcgcd.automata.kernels.empty_moves import remove_epsilons
from pcgcd.automata.kernels.jit import Bits, Indices, Mask
from pcgcd.automata.products import with_common_classes
from pcgcd.errors import AutomatonTooLargeError

# Empty moves may lead from each state to the edges of all others: this many steps for each state.
_STEPS = 50
_LEAST_STEPS = 10_000_000


def without_empty_moves(
    empty: tuple[Indices, Indices],
    edges: tuple[Indices, Indices, Indices],
    classes: tuple[Bits, int, Indices],
    initial: Mask,
    accepting: Mask,
) -> Graph:
    """The trim automaton without empty moves, which are given as sources and targets.

    The other edges are sources, targets and labels; the classes are the sets of the labels, the
    number of classes, and the class of each token.
    """
    limit = max(_LEAST_STEPS, _STEPS * len(initial))
    sets, num_classes, token_class = classes
    work, count, source, target, label, sets, starts, accepts = remove_epsilons(
        *empty, *edges, sets, initial, accepting, limit
    )
    if work > limit:
        raise AutomatonTooLargeError(
            f"an automaton with {len(initial):,} states has so many optional parts in a row that "
            f"they make over {limit:,} edges; make fewer parts optional, or put them in groups"
        )
    if not count:
        return Graph.nothing(num_classes, token_class)
    return Graph(count, source, target, label, sets, num_classes, token_class, starts, accepts)


def side_by_side(graphs: Sequence[Graph]) -> Graph:
    """Several automata as one, which accepts what any of them does; their states in turn."""
    parts = with_common_classes(graphs)
    first = np.cumsum([0, *(part.num_states for part in parts)])
    first_label = np.cumsum([0, *(len(part.sets) for part in parts)])
    weight = None
    if any(part.weight is not None for part in parts):
        weight = np.concatenate(
            [np.ones(len(p.source)) if p.weight is None else p.weight for p in parts]
        )
    return Graph(
        int(first[-1]),
        _join(part.source + at for part, at in zip(parts, first)),
        _join(part.target + at for part, at in zip(parts, first)),
        _join(part.label + at for part, at in zip(parts, first_label)),
        np.concatenate([part.sets for part in parts]),
        parts[0].num_classes,
        parts[0].token_class,
        np.concatenate([part.initial for part in parts]),
        np.concatenate([part.accepting for part in parts]),
        weight,
    )


def assemble(
    graphs: Sequence[Graph],
    empty: Iterable[tuple[Indices, Indices]],
    extra: int,
    initial: Indices | list[int],
    accepting: Indices | list[int],
) -> Graph:
    """Several automata side by side and then ``extra`` states, joined by empty moves."""
    whole = side_by_side(graphs)
    moves = list(empty)
    count = whole.num_states + extra
    return without_empty_moves(
        (_join(move[0] for move in moves), _join(move[1] for move in moves)),
        (whole.source, whole.target, whole.label),
        (whole.sets, whole.num_classes, whole.token_class),
        np.isin(np.arange(count), initial),
        np.isin(np.arange(count), accepting),
    )


def _join(arrays: Iterable[Indices]) -> Indices:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


class Orders(NamedTuple):
    """The sets of members that can have been seen, as bits, when members come in any order."""

    final: Indices  # with which it may end
    open: Indices  # not empty, after which another member may come
    before: list[Indices]  # for each member, after which it may come


def orders(required: Sequence[bool], least: int, most: int | None) -> Orders:
    """All sets of at most ``most`` members from which every required one can still be reached."""
    seen = np.arange(1 << len(required))
    size = missing = np.array([0], dtype=np.int64)
    for is_required in required:
        size = np.concatenate([size, size + 1])
        missing = np.concatenate([missing + is_required, missing])
    most = len(required) if most is None else most
    possible = size + missing <= most
    final = (missing == 0) & (size >= least) & possible
    before = []
    for i in range(len(required)):
        without = seen[(seen >> i & 1) == 0]
        before.append(without[possible[without] & possible[without | 1 << i]])
    followed = np.setdiff1d(_join(before), [0])
    return Orders(np.flatnonzero(final), followed, before)

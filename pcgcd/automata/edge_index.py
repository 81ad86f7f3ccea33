"""The edges of an automaton by their source: the index that runs, masks and engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pcgcd.automata.arrays import Indices, Weights

if TYPE_CHECKING:
    from pcgcd.automata.automaton import FiniteAutomaton


class EdgeIndex(NamedTuple):
    """The edges from whose targets acceptance can be reached, by source; read-only.

    The edges of a state are in the order in which shrinking budgets forbid them: by the distance
    of their targets to acceptance.
    """

    first: Indices  # where the edges of each state begin, (S + 1,)
    source: Indices  # rising
    target: Indices
    label: Indices
    weight: Weights | None  # None: all are one

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> EdgeIndex:
        """The index of an automaton, which keeps it as ``edge_index``."""
        from pcgcd.automata.kernels.edges import group

        # Two stable sorts: by distance, of which S or more means never, then by source.
        away = np.minimum(fa.distance_to_accept, fa.num_states)[fa.target]
        order, at_distance = group(away, fa.num_states + 1)
        order = order[: at_distance[fa.num_states]]
        by_source, first = group(fa.source[order], fa.num_states)
        order = order[by_source]
        source = np.repeat(np.arange(fa.num_states), np.diff(first))
        weight = None if fa.weight is None else fa.weight[order]
        index = cls(first, source, fa.target[order], fa.label[order], weight)
        for array in index:
            if array is not None:
                array.flags.writeable = False
        return index

    def leaving(self, states: Indices) -> Indices:
        """The places of the edges that leave some states, those of the first state first."""
        return places_in(self.first, states)


def places_in(first: Indices, groups: Indices) -> Indices:
    """The places of the members of some groups, group by group.

    >>> places_in(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
    [2, 3, 4, 0, 1]

    Args:
        first: Where each group begins, and after the last one where it ends.
        groups: The groups.
    """
    sizes = first[groups + 1] - first[groups]
    ends: Indices = np.cumsum(sizes)
    places: Indices = np.arange(int(ends[-1]) if len(ends) else 0)
    places += np.repeat(first[groups] - ends + sizes, sizes)
    return places

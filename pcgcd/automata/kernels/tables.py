"""The tables of an automaton that lifting and masks need."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.edges import group
from pcgcd.automata.kernels.jit import Indices, compiled_if_large
from pcgcd.automata.kernels.searches import search


def steps_to_accept(source: Any, target: Any, accepting: Any) -> Indices:
    """Return the least number of steps from each state to an accepting one, or NEVER, (S,).

    Breadth-first search against the edges. The arrays are copied, since read-only ones would have
    to be compiled for again.
    """
    order, offsets = group(np.array(target, dtype=np.int64), len(accepting))
    sources = np.asarray(source)[order].astype(np.int64, copy=False)
    return search(offsets, sources, np.array(accepting))[1]


@compiled_if_large()
def index_moves(source: Any, target: Any, label: Any, label_class: Any, num_states: Any) -> Any:
    """Return the table of :class:`pcgcd.automata.kernels.walks.Moves`, from edges over bytes.

    A pass over the edges and classes, O(E C), finds the cells with several targets. If there are
    any, two more count their targets and write them.

    Args:
        source: The source of each edge, (E,).
        target: The target of each edge, (E,).
        label: The label of each edge, (E,).
        label_class: Which classes are in each label, (L, C).
        num_states: The number of states S.
    """
    num_classes = label_class.shape[1]
    delta = np.empty((num_states, num_classes), dtype=np.int32)
    for state in range(num_states):
        for letter in range(num_classes):
            delta[state, letter] = -1
    # First the number of targets of each cell with several: -2 - k for the k-th such cell.
    num_cells = 0
    for edge in range(len(source)):
        for letter in range(num_classes):
            if label_class[label[edge], letter]:
                cell = delta[source[edge], letter]
                if cell == -1:
                    delta[source[edge], letter] = target[edge]
                elif cell >= 0:
                    delta[source[edge], letter] = -2 - num_cells
                    num_cells += 1
    first = np.zeros(num_cells + 1, dtype=np.int64)
    for edge in range(len(source) if num_cells else 0):
        for letter in range(num_classes):
            cell = delta[source[edge], letter]
            if cell < -1 and label_class[label[edge], letter]:
                first[-1 - cell] += 1
    for k in range(num_cells):
        first[k + 1] += first[k]
    several = np.empty(first[num_cells], dtype=np.int32)
    place = np.empty(num_cells, dtype=np.int64)
    for k in range(num_cells):
        place[k] = first[k]
    for edge in range(len(source) if num_cells else 0):
        for letter in range(num_classes):
            cell = delta[source[edge], letter]
            if cell < -1 and label_class[label[edge], letter]:
                several[place[-2 - cell]] = target[edge]
                place[-2 - cell] += 1
    return delta, several, first


@compiled_if_large()
def self_loops(delta: Any, byte_class: Any) -> Any:
    """Return the bytes on which each state only stays where it is, (S, 4)."""
    num_classes = delta.shape[1]
    members = np.zeros((num_classes, 4), dtype=np.uint64)
    for b in range(256):
        members[byte_class[b], b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    loops = np.zeros((len(delta), 4), dtype=np.uint64)
    for state in range(len(delta)):
        for letter in range(num_classes):
            if delta[state, letter] == state:
                for w in range(4):
                    loops[state, w] |= members[letter, w]
    return loops

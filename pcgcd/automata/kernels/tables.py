"""Compiled: the tables of an automaton that lifting and masks need."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.jit import compiled

__all__ = ["index_moves", "self_loops", "steps_to_accept"]


@compiled
def steps_to_accept(source: Any, target: Any, accepting: Any) -> Any:
    """The least number of steps from each state to an accepting one, or -1, (S,)."""
    num_states = len(accepting)
    first = np.zeros(num_states + 1, dtype=np.int64)
    for edge in range(len(target)):
        first[target[edge] + 1] += 1
    for state in range(num_states):
        first[state + 1] += first[state]
    place = np.empty(num_states, dtype=np.int64)
    distance = np.empty(num_states, dtype=np.int64)
    queue = np.empty(num_states, dtype=np.int64)
    tail = 0
    for state in range(num_states):
        place[state] = first[state]
        distance[state] = -1
        if accepting[state]:
            distance[state] = 0
            queue[tail] = state
            tail += 1
    back = np.empty(len(source), dtype=np.int64)
    for edge in range(len(source)):
        back[place[target[edge]]] = source[edge]
        place[target[edge]] += 1
    head = 0
    while head < tail:
        state = queue[head]
        head += 1
        for i in range(first[state], first[state + 1]):
            if distance[back[i]] < 0:
                distance[back[i]] = distance[state] + 1
                queue[tail] = back[i]
                tail += 1
    return distance


@compiled
def index_moves(source: Any, target: Any, label: Any, label_class: Any, num_states: Any) -> Any:
    """The table of :class:`pcgcd.automata.kernels.walks.Moves`, from edges over bytes."""
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
    for edge in range(len(source)):
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
    for edge in range(len(source)):
        for letter in range(num_classes):
            cell = delta[source[edge], letter]
            if cell < -1 and label_class[label[edge], letter]:
                several[place[-2 - cell]] = target[edge]
                place[-2 - cell] += 1
    return delta, several, first


@compiled
def self_loops(delta: Any, byte_class: Any) -> Any:
    """The bytes on which each state only stays where it is, (S, 4)."""
    loops = np.zeros((len(delta), 4), dtype=np.uint64)
    for state in range(len(delta)):
        for b in range(256):
            if delta[state, byte_class[b]] == state:
                loops[state, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    return loops

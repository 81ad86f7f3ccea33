"""The tokens that one state of a byte automaton allows, without their edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcgcd.automata.kernels.bits import set_intervals
from pcgcd.automata.kernels.jit import compiled_if_large, in_place, one
from pcgcd.automata.kernels.templates import TEMPLATE_BYTES, Scratch, fitting, root_key, walk_exits
from pcgcd.automata.kernels.walks import begin_walk, walk_whole
from pcgcd.automata.limits import NEVER

NO_TEMPLATE = -1
NO_ROOM = -2


def new_names(num_states: int, num_locals: int) -> Scratch:
    """Room to name the local states of a template, and none to make one."""
    return Scratch(
        np.zeros(num_locals, dtype=np.int32),
        np.zeros(1, dtype=np.int32),
        np.zeros(num_states, dtype=np.int64),
        np.empty((1, 1), dtype=np.int32),
        np.zeros((1, 4), dtype=np.uint64),
        np.empty(1, dtype=np.int32),
        np.empty(1, dtype=np.int32),
        np.empty(1, dtype=np.int32),
        np.zeros(4, dtype=np.int64),
    )


@in_place
def _begin(words: Any, source: Any, out: Any) -> None:
    begin_walk(out, source)
    for w in range(len(words)):
        words[w] = 0


@in_place
def _finish(words: Any, enough: Any, distance: Any, token: Any, out: Any) -> Any:
    """Add the intervals of a walk; the largest distance after one of their tokens, plus one."""
    if out.counter[3]:
        return np.int64(NO_ROOM)
    low, high, target = out.low, out.high, out.target
    for i in range(out.counter[2]):
        away = distance[target[i]]
        if away < NEVER:
            enough = max(enough, away + 1)
            for rank in range(low[i], high[i]):
                words[token[rank] >> 5] |= np.uint32(1) << np.uint32(token[rank] & 31)
    return enough


@compiled_if_large(one, in_place=True)
def write_narrow(
    words: Any,
    source: Any,
    any_width: Any,
    distance: Any,
    token: Any,
    nodes: Any,
    moves: Any,
    out: Any,
) -> Any:
    """Write the tokens that lead from a state to states that can accept.

    Args:
        words: Where to write, (W,).
        source: The state.
        any_width: Whether also to walk from a state with so many bytes that it may share a walk.
        distance: From each state to acceptance, or NEVER.
        token: The token of each rank.
        nodes: The trie.
        moves: The automaton.
        out: Room for a walk.

    Returns:
        The largest distance after one of the tokens, plus one; or NO_TEMPLATE, or NO_ROOM.
    """
    if not any_width and root_key(moves, source)[1] >= TEMPLATE_BYTES:
        return np.int64(NO_TEMPLATE)
    _begin(words, source, out)
    walk_whole(nodes, moves, source, out)
    return _finish(words, np.int64(1), distance, token, out)


@compiled_if_large(one, in_place=True)
def write_wide(
    words: Any,
    source: Any,
    distance: Any,
    token: Any,
    nodes: Any,
    moves: Any,
    out: Any,
    templates: Any,
    names: Any,
    recent: Any,
    packed_label: Any,
    packed: Any,
) -> Any:
    """Write the same with a walk to share; NO_TEMPLATE if none fits.

    Args:
        words: See :func:`write_narrow`, as for those that follow.
        source: The state.
        distance: From each state to acceptance, or NEVER.
        token: The token of each rank.
        nodes: The trie.
        moves: The automaton.
        out: Room for a walk.
        templates: Walks to share.
        names: Room from :func:`new_names`.
        recent: The templates that fitted last, by hash.
        packed_label: Which label of the templates each row of ``packed`` holds, or -1.
        packed: Some of the labels, (rows, W).
    """
    key, _ = root_key(moves, source)
    number = fitting(moves, source, key, templates, recent, names)
    if number < 0:
        return np.int64(NO_TEMPLATE)
    _begin(words, source, out)
    enough = np.int64(1)
    targets, labels = templates.targets, templates.labels
    for i in range(targets.first[number], targets.first[number + 1], 2):
        away = distance[names.state[targets.pool[i]]]
        if away == NEVER:
            continue
        enough = max(enough, away + 1)
        label = targets.pool[i + 1]
        row = packed[label % len(packed)]
        if packed_label[label % len(packed)] != label:
            packed_label[label % len(packed)] = label
            for w in range(len(row)):
                row[w] = 0
            set_intervals(row, labels.pool, labels.first[label], labels.first[label + 1], token)
        for w in range(len(words)):
            words[w] |= row[w]
    walk_exits(nodes, moves, templates, number, names, out)
    return _finish(words, enough, distance, token, out)

"""Automata over bytes, drawn as people read them: characters and words instead of single bytes."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

import numpy as np
from matplotlib.figure import Figure

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.vocabulary.token_sets import describe
from pcgcd.constraints import Constraint
from pcgcd.viz.automaton import figure_automaton
from pcgcd.viz.style import shortened

_BYTES = 256
_ASCII = 128
_CONTINUATION = range(0x80, 0xC0)
_MANY = range(0x80, 0x100)
_READABLE = 60  # states; with more, the picture is simplified
_WIDTH = 24
_MOST = 400

# From state to state, the texts of the edges between them.
_Edges: TypeAlias = "dict[tuple[int, int], list[str]]"


def figure_constraint(source: FiniteAutomaton | Constraint) -> Figure:
    """Draw the automaton over bytes of a constraint; simplify a large one, see :func:`collapsed`.

    Of one that is still too large to be read, the beginning is drawn; an edge says how many states
    there are beyond it.

    Args:
        source: The constraint, or its automaton over bytes.
    """
    fa = source.automaton if isinstance(source, Constraint) else source
    if fa.num_states <= _READABLE and fa.num_edges <= 2 * _READABLE:
        return figure_automaton(fa)
    small, words = collapsed(fa)
    if small.num_states > 2 * _READABLE:
        small, words = _beginning(small, words)
    return figure_automaton(small, token_names=words, max_edges=small.num_edges, max_states=_MOST)


def collapsed(fa: FiniteAutomaton) -> tuple[FiniteAutomaton, list[str]]:
    """Return the same texts with fewer states: an edge for each character or word, not each byte.

    The bytes of a character beyond ASCII become one step, and states with one way in and one way
    out become part of a word.

    Args:
        fa: An automaton over bytes.

    Returns:
        An automaton over words, and what each word says.

    >>> from pcgcd.constraints import choice
    >>> small, words = collapsed(choice(["green", "grey"]).automaton)
    >>> small.num_states, sorted(words)
    (3, ['en', 'gre', 'y'])
    """
    fa = fa.determinize().minimize()
    ends = set(np.flatnonzero(fa.initial_mask | fa.accepting_mask).tolist())
    edges = _of_characters(_by_pair(fa), ends)
    texts: _Edges = {pair: [describe(sorted(found), _BYTES)] for pair, found in edges.items()}
    _join_words(texts, ends)
    used = sorted({state for pair in texts for state in pair} | ends)
    number = {state: i for i, state in enumerate(used)}
    words = [shortened(word, _WIDTH) for found in texts.values() for word in found]
    words = list(dict.fromkeys(words))
    place = {word: i for i, word in enumerate(words)}
    small = FiniteAutomaton.from_edges(
        num_states=len(used),
        vocab_size=len(words),
        initial=[number[int(s)] for s in np.flatnonzero(fa.initial_mask)],
        accepting=[number[int(s)] for s in np.flatnonzero(fa.accepting_mask)],
        edges=[
            (number[s], number[t], {place[shortened(word, _WIDTH)] for word in found})
            for (s, t), found in texts.items()
        ],
    )
    return small, words


def _beginning(fa: FiniteAutomaton, words: list[str]) -> tuple[FiniteAutomaton, list[str]]:
    """The states that are nearest to the start; all others are one, at the end."""
    ways: dict[int, list[int]] = defaultdict(list)
    for s, t in zip(fa.source.tolist(), fa.target.tolist()):
        ways[s].append(t)
    order = dict.fromkeys(np.flatnonzero(fa.initial_mask).tolist())
    for state in (queue := list(order)):
        for target in ways[state]:
            if target not in order and len(order) < _READABLE:
                order[target] = None
                queue.append(target)
    number = {state: i for i, state in enumerate(order)}
    rest = len(number)
    edges: dict[tuple[int, int], set[int]] = defaultdict(set)
    for (s, t), found in _by_pair(fa).items():
        if s in number:
            edges[number[s], number.get(t, rest)] |= found if t in number else {len(words)}
    small = FiniteAutomaton.from_edges(
        num_states=rest + 1,
        vocab_size=len(words) + 1,
        initial=[number[int(s)] for s in np.flatnonzero(fa.initial_mask)],
        accepting=[number[int(s)] for s in np.flatnonzero(fa.accepting_mask) if int(s) in number],
        edges=[(s, t, found) for (s, t), found in edges.items()],
    )
    return small, [*words, f"… {fa.num_states - rest:,} states"]


def _by_pair(fa: FiniteAutomaton) -> dict[tuple[int, int], set[int]]:
    edges: dict[tuple[int, int], set[int]] = defaultdict(set)
    for s, t, label in zip(fa.source.tolist(), fa.target.tolist(), fa.label.tolist()):
        edges[s, t] |= set(fa.labels.tokens(label).tolist())
    return edges


def _of_characters(
    edges: dict[tuple[int, int], set[int]], ends: set[int]
) -> dict[tuple[int, int], set[int]]:
    """Without the states inside a character of several bytes; all of these characters are one."""
    into: dict[int, set[int]] = defaultdict(set)
    out: dict[int, set[int]] = defaultdict(set)
    ways: dict[int, list[int]] = defaultdict(list)
    for (s, t), found in edges.items():
        into[t] |= found
        out[s] |= found
        ways[s].append(t)
    inside = {
        state
        for state in out
        if state not in ends
        and out[state] <= set(_CONTINUATION)
        and min(into[state], default=0) >= _ASCII
    }
    result = {pair: set(found) for pair, found in edges.items() if not inside & set(pair)}
    for state in set(ways) - inside:
        waiting, seen = [t for t in ways[state] if t in inside], set()
        while waiting:
            middle = waiting.pop()
            if middle in seen:
                continue
            seen.add(middle)
            for target in ways[middle]:
                if target in inside:
                    waiting.append(target)
                else:
                    result.setdefault((state, target), set()).update(_MANY)
    return result


def _join_words(edges: _Edges, ends: set[int]) -> None:
    """Join two edges at a state that has no others, in place, until there is no such state."""
    into: dict[int, set[int]] = defaultdict(set)
    out: dict[int, set[int]] = defaultdict(set)
    for s, t in edges:
        out[s].add(t)
        into[t].add(s)
    for middle in sorted(set(into) & set(out) - ends):
        if len(into[middle]) != 1 or len(out[middle]) != 1:
            continue
        (before,), (after,) = into[middle], out[middle]
        first, second = edges[before, middle], edges[middle, after]
        if middle in (before, after) or len(first) > 1 or len(second) > 1:
            continue
        del edges[before, middle], edges[middle, after]
        edges.setdefault((before, after), []).append(first[0] + second[0])
        out[before] = out[before] - {middle} | {after}
        into[after] = into[after] - {middle} | {before}

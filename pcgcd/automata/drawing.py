"""A small picture of an automaton, without any drawing library."""

from __future__ import annotations

from collections.abc import Container
from html import escape
from typing import TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.graphs import Graph
from pcgcd.automata.kernels.searches import search
from pcgcd.automata.limits import NEVER
from pcgcd.automata.vocabulary.token_sets import describe

Point: TypeAlias = "tuple[float, float]"

_RADIUS = 16.0
_COLUMN = 120.0
_ROW = 72.0
_MARGIN = 48.0
# Within a page, the rules of a style reach everything: these name the picture they are for.
_STYLE = (
    "<style>.pcgcd-fa .e{fill:none;stroke:#5b6470}.pcgcd-fa .s{fill:#fff;stroke:#2b2f36}"
    ".pcgcd-fa .n{font:11px sans-serif;text-anchor:middle;fill:#2b2f36}"
    ".pcgcd-fa .l{font:11px monospace;text-anchor:middle;fill:#2b67a6}</style>"
    '<defs><marker id="pcgcd-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b6470"/></marker></defs>'
)


def to_svg(fa: FiniteAutomaton, max_states: int = 60) -> str:
    """The states in columns by their distance from the start, with labelled edges.

    Args:
        fa: The automaton.
        max_states: How many states are drawn; a note says how many more there are.
    """
    columns = _columns(fa, max_states)
    tallest = max((len(column) for column in columns), default=1)
    place: dict[int, Point] = {}
    for i, column in enumerate(columns):
        top = _MARGIN + (tallest - len(column)) / 2 * _ROW
        for j, state in enumerate(column):
            place[state] = (_MARGIN + i * _COLUMN, top + j * _ROW)
    texts = _texts(fa, place)
    parts = []
    for (source, target), text in texts.items():
        bent = (target, source) in texts or place[source][0] >= place[target][0]
        parts.append(_edge(place[source], place[target], text, bent))
    for state, (x, y) in place.items():
        if fa.initial_mask[state]:
            parts.append(_line(f"M{x - 40:.0f} {y:.0f}L{x - _RADIUS - 1:.0f} {y:.0f}"))
        parts.append(f'<circle class="s" cx="{x:.0f}" cy="{y:.0f}" r="{_RADIUS:.0f}"/>')
        if fa.accepting_mask[state]:
            parts.append(f'<circle class="e" cx="{x:.0f}" cy="{y:.0f}" r="{_RADIUS - 3:.0f}"/>')
        parts.append(_text("n", x, y + 4, str(state)))
    width = 2 * _MARGIN + (max(len(columns), 2) - 1) * _COLUMN
    height = 2 * _MARGIN + (tallest - 1) * _ROW
    if len(place) < fa.num_states:
        height += 20
        parts.append(
            _text("n", width / 2, height - 12, f"and {fa.num_states - len(place):,} more states")
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pcgcd-fa" '
        f'width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{_STYLE}{"".join(parts)}</svg>'
    )


def _texts(fa: FiniteAutomaton, place: Container[int]) -> dict[tuple[int, int], str]:
    """What is written beside the edges between two states: tokens, and their weight if any."""
    texts: dict[tuple[int, int], str] = {}
    for edge, label in enumerate(fa.label.tolist()):
        source, target = int(fa.source[edge]), int(fa.target[edge])
        if source in place and target in place:
            text = describe(fa.labels.tokens(label).tolist(), fa.vocab_size)
            if fa.weight is not None:
                text += f" / {fa.weight[edge]:.3g}"
            before = texts.get((source, target))
            texts[source, target] = text if before is None else f"{before}; {text}"
    return texts


def _columns(fa: FiniteAutomaton, max_states: int) -> list[list[int]]:
    """States by their distance from the initial ones, as many as are drawn; the others last."""
    graph = Graph.of(fa)
    offsets, target, _ = graph.adjacency()
    order, distance = search(offsets, target, graph.initial)
    shown = order[:max_states]
    columns = np.split(shown, np.flatnonzero(np.diff(distance[shown])) + 1)
    others = np.flatnonzero(distance[:max_states] == NEVER)[: max_states - len(shown)]
    return [column.tolist() for column in (*columns, others) if len(column)]


def _edge(start: Point, end: Point, text: str, bent: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    if start == end:
        path = f"M{x1 - 7:.0f} {y1 - 15:.0f}C{x1 - 22:.0f} {y1 - 48:.0f} "
        path += f"{x1 + 22:.0f} {y1 - 48:.0f} {x1 + 7:.0f} {y1 - 15:.0f}"
        return _line(path) + _text("l", x1, y1 - 42, text)
    length = float(np.hypot(x2 - x1, y2 - y1))
    along = ((x2 - x1) / length, (y2 - y1) / length)
    bend = (0.18 * length + 10) if bent else 0.0
    middle = ((x1 + x2) / 2 + along[1] * bend, (y1 + y2) / 2 - along[0] * bend)
    a, b = _towards(start, middle), _towards(end, middle)
    path = f"M{a[0]:.1f} {a[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {b[0]:.1f} {b[1]:.1f}"
    at = ((x1 + x2) / 4 + middle[0] / 2, (y1 + y2) / 4 + middle[1] / 2 - 4)
    return _line(path) + _text("l", *at, text)


def _towards(center: Point, point: Point) -> Point:
    """Where the line from a state's center to a point leaves its circle."""
    x, y = point[0] - center[0], point[1] - center[1]
    scale = (_RADIUS + 1) / float(np.hypot(x, y))
    return (center[0] + x * scale, center[1] + y * scale)


def _line(path: str) -> str:
    return f'<path class="e" d="{path}" marker-end="url(#pcgcd-tip)"/>'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'

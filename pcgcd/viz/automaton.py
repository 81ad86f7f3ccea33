"""The graph of an automaton."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.vocabulary.token_sets import describe
from pcgcd.constraints import Constraint
from pcgcd.errors import InvalidParameterError
from pcgcd.viz.curves import Curve, loop_curve, smooth_curve
from pcgcd.viz.layout import Layout, layered_layout
from pcgcd.viz.placing import box_around, place_labels, show_box
from pcgcd.viz.style import (
    BLUE,
    INK,
    checked_names,
    names_from,
    set_text,
    state_text,
    text_size,
    write,
)

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary

# Everything is laid out in inches.
_RADIUS = 0.19
_STATE_POINTS = 10.0
_LABEL_POINTS = 9.0
_ENTRY = 0.34
_HEAD = 0.095
_MARGIN = 0.06
_LOOP = 0.36
_BEND = 0.16
_MAX_STATES = 80
_MAX_EDGES = 120
_BYTES = 256


@dataclass(frozen=True)
class _Drawing:
    """An automaton with all its coordinates."""

    fa: FiniteAutomaton
    centres: list[tuple[float, float]]
    curves: list[Curve]
    texts: list[str]
    labels: list[Bbox]
    box: Bbox


def figure_automaton(
    fa: FiniteAutomaton | Constraint,
    *,
    vocabulary: Vocabulary | None = None,
    token_names: Sequence[str] | None = None,
    shown_tokens: int = 2,
    max_states: int = _MAX_STATES,
    max_edges: int = _MAX_EDGES,
) -> Figure:
    """States as circles (double: accepting), edges with their token sets, from left to right.

    Args:
        fa: The automaton; of a constraint, the one over bytes.
        vocabulary: Spells the tokens. Without it and without names they are numbers; those of an
            automaton over bytes are characters.
        token_names: How to write each token, as a list.
        shown_tokens: How many tokens of a long set are written, the shortest ones.
        max_states: Refuse automata with more states, whose picture would not be readable.
        max_edges: The same for edges.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 1, {0, 2})]
    ... )
    >>> figure = figure_automaton(fa, token_names=["a", "b", "c"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['$s_{0}$', '$s_{1}$', '{a, c}']
    """
    names = names_from(vocabulary, token_names)
    drawing = _drawing(fa, names, shown_tokens, max_states, max_edges)
    figure = Figure(figsize=(drawing.box.width, drawing.box.height))
    _paint(figure.add_axes((0.0, 0.0, 1.0, 1.0)), drawing)
    return figure


def draw_automaton(
    axes: Axes,
    fa: FiniteAutomaton | Constraint,
    *,
    vocabulary: Vocabulary | None = None,
    token_names: Sequence[str] | None = None,
    shown_tokens: int = 2,
    max_states: int = _MAX_STATES,
    max_edges: int = _MAX_EDGES,
) -> None:
    """Draw into given axes, scaled down to fit; see :func:`figure_automaton`."""
    names = names_from(vocabulary, token_names)
    _paint(axes, _drawing(fa, names, shown_tokens, max_states, max_edges))


def natural_size(
    fa: FiniteAutomaton, *, token_names: Sequence[str] | None = None
) -> tuple[float, float]:
    """Width and height in inches at which nothing has to be scaled down."""
    return _drawing(fa, token_names, 2, fa.num_states, fa.num_edges).box.size


def _drawing(
    source: FiniteAutomaton | Constraint,
    token_names: Sequence[str] | None,
    shown_tokens: int,
    max_states: int,
    max_edges: int,
) -> _Drawing:
    fa = source.automaton if isinstance(source, Constraint) else source
    for count, what, limit in (
        (fa.num_states, "states", max_states),
        (fa.num_edges, "edges", max_edges),
    ):
        if count > limit:
            raise InvalidParameterError(
                f"an automaton of {count:,} {what} is too large to draw (the limit is {limit:,}); "
                f"draw a smaller one, such as the automaton of a part of the constraint, or raise "
                f"the limit with max_{what}"
            )
    names = checked_names(token_names, fa.vocab_size, "tokens")
    edges = list(zip(fa.source.tolist(), fa.target.tolist()))
    by_label = {
        label: _label_text(fa, label, names, shown_tokens) for label in set(fa.label.tolist())
    }
    texts = [by_label[label] for label in fa.label.tolist()]
    if fa.weight is not None:
        texts = [f"{text} / {weight:.3g}" for text, weight in zip(texts, fa.weight.tolist())]
    sizes = [text_size(text, _LABEL_POINTS) for text in texts]
    layout = _layout(fa, edges, sizes)
    curves = _curves(fa, edges, layout)
    discs = [box_around(x, y, 2 * _RADIUS, 2 * _RADIUS) for x, y in layout.nodes]
    for x, y in (layout.nodes[state] for state in np.flatnonzero(fa.initial_mask)):
        discs.append(Bbox.from_extents(x - _RADIUS - _ENTRY, y - 0.05, x - _RADIUS, y + 0.05))
    labels = place_labels(curves, sizes, discs)
    lines = [Bbox([curve.points.min(0), curve.points.max(0)]) for curve in curves]
    box = Bbox.union([*discs, *labels, *lines]).padded(_MARGIN)
    return _Drawing(fa, layout.nodes, curves, texts, labels, box)


def _label_text(
    fa: FiniteAutomaton, label: int, names: Sequence[str] | None, shown_tokens: int
) -> str:
    tokens = fa.labels.tokens(label).tolist()
    if names is None and fa.vocab_size == _BYTES:
        return describe(tokens, fa.vocab_size).replace("$", r"\$")
    return set_text(tokens, names, shown_tokens)


def _layout(
    fa: FiniteAutomaton, edges: list[tuple[int, int]], sizes: list[tuple[float, float]]
) -> Layout:
    loops = {source: number for number, (source, target) in enumerate(edges) if source == target}

    def half_loop(state: int) -> float:
        return sizes[loops[state]][0] / 2 if state in loops else 0.0

    def column_gap(edge: int, spanned: int) -> float:
        # Loops stand above or below their states, with their texts in the middle.
        loops_side_by_side = half_loop(edges[edge][0]) + half_loop(edges[edge][1]) + 0.15
        label = 2 * _RADIUS + (sizes[edge][0] + 0.3) / spanned
        return max(4.2 * _RADIUS, label, loops_side_by_side if spanned == 1 else 0.0)

    def row_gap(state: int) -> float:
        if state not in loops:
            return 4 * _RADIUS
        return 4 * _RADIUS + _LOOP + sizes[loops[state]][1]

    return layered_layout(
        fa.num_states,
        edges,
        np.flatnonzero(fa.initial_mask).tolist(),
        column_gap=column_gap,
        row_gap=row_gap,
        lane_gap=2.8 * _RADIUS,
    )


def _curves(fa: FiniteAutomaton, edges: list[tuple[int, int]], layout: Layout) -> list[Curve]:
    """The way of each edge, from the rim of its source to the rim of its target."""
    present = set(edges)
    curves: list[Curve | None] = []
    leaving: list[list[float]] = [[] for _ in layout.nodes]  # angles at which edges meet a state
    for (source, target), via in zip(edges, layout.via):
        if source == target:
            curves.append(None)
            continue
        bend = _BEND if not via and (target, source) in present else 0.0
        curve = smooth_curve([layout.nodes[source], *via, layout.nodes[target]], bend, _RADIUS)
        curves.append(curve)
        leaving[source].append(curve.angle_at(0, layout.nodes[source]))
        leaving[target].append(curve.angle_at(-1, layout.nodes[target]))
    for state in np.flatnonzero(fa.initial_mask):
        leaving[state].append(np.pi)
    return [
        loop_curve(layout.nodes[source], leaving[source], _RADIUS, _LOOP)
        if curve is None
        else curve
        for (source, _), curve in zip(edges, curves)
    ]


def _paint(axes: Axes, drawing: _Drawing) -> None:
    """Put everything into the axes, with lines and letters scaled like the rest."""
    fa, scale = drawing.fa, show_box(axes, drawing.box)
    for number, curve in enumerate(drawing.curves):
        _paint_arrow(axes, curve.points, f"edge-{number}", scale)
    for state, (x, y) in enumerate(drawing.centres):
        accepting = bool(fa.accepting_mask[state])
        if fa.initial_mask[state]:
            entry = np.array([(x - _RADIUS - _ENTRY, y), (x - _RADIUS, y)])
            _paint_arrow(axes, entry, f"initial-{state}", scale)
        radii = (_RADIUS, 0.8 * _RADIUS) if accepting else (_RADIUS,)
        for ring, radius in enumerate(radii):
            circle = Circle(
                (x, y), radius, facecolor="white", edgecolor=INK, linewidth=1.1 * scale, zorder=3
            )
            circle.set_gid(f"accepting-{state}" if ring else f"state-{state}")
            axes.add_patch(circle)
        points = _STATE_POINTS * scale * (0.9 if accepting else 1.0)
        name, gid = state_text(state), f"name-{state}"
        write(axes, x, y, name, points, colour="black", va="center_baseline", zorder=4, gid=gid)
    for number, (text, label) in enumerate(zip(drawing.texts, drawing.labels)):
        x, y = label.get_points().mean(0)
        points, gid = _LABEL_POINTS * scale, f"label-{number}"
        write(axes, x, y, text, points, colour=BLUE, outline=2.2 * scale, gid=gid)


def _paint_arrow(axes: Axes, points: Iterable[Iterable[float]], gid: str, scale: float) -> None:
    """A line whose last part is the head of an arrow."""
    line = np.asarray(points, dtype=float)
    tip = line[-1]
    far = np.linalg.norm(line - tip, axis=1) > _HEAD
    base = line[np.flatnonzero(far)[-1]] if far.any() else line[0]
    along = (tip - base) / np.linalg.norm(tip - base)
    base = tip - _HEAD * along
    across = np.array([-along[1], along[0]]) * 0.36 * _HEAD
    shaft = Path(np.concatenate([line[far], base[None]]))
    axes.add_patch(PathPatch(shaft, fill=False, edgecolor=INK, linewidth=1.0 * scale, gid=gid))
    axes.add_patch(Polygon([tip, base + across, base - across], color=INK, linewidth=0, zorder=2))

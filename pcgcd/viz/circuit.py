"""The layered graph of a circuit: sums, products and inputs, with their widths and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.patheffects import withStroke

from pcgcd.circuits import Circuit, CircuitLike, InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import Operator
from pcgcd.errors import InvalidParameterError
from pcgcd.viz.curves import Points, flowing_line
from pcgcd.viz.layout import layered_layout
from pcgcd.viz.operators import Symbol, symbols_of
from pcgcd.viz.placing import Box, show_box
from pcgcd.viz.style import BLUE, INK, ORANGE, shortened, text_size

__all__ = ["draw_circuit", "figure_circuit"]

_MAX_LAYERS = 120
_MAX_UNITS = 12  # of a layer that is drawn unit by unit
_MAX_ALL_UNITS = 160
_LEGEND_LENGTH = 150
# All in inches.
_WIDTH, _HEIGHT = 0.72, 0.44
_UNIT, _UNIT_ROW = 0.075, 0.23
_STRIP = 0.3
_GAP_X, _GAP_Y = 0.5, 0.3
_SCOPE = 0.2
_LINE = 0.2
_MARGIN = 0.1
_POINTS = 8.0

_KINDS = {
    InputLayer: ("#dbe8f5", BLUE),
    ProductLayer: ("#eceef0", "#5b6470"),
    SumLayer: ("#fdebd8", ORANGE),
}
_OTHER = ("#f3e3f0", "#b5539c")


@dataclass(frozen=True)
class _Drawing:
    """A circuit with all its coordinates; layers are numbered from the root."""

    circuit: Circuit
    layers: list[Layer]
    centres: list[tuple[float, float]]
    hanging: frozenset[int]  # inputs that are drawn below their product
    symbols: dict[Operator, Symbol]
    by_unit: bool
    legend: list[Symbol]
    box: Box

    def size(self, number: int) -> tuple[float, float]:
        return _size(self.layers[number], self.by_unit)

    def unit_heights(self, number: int) -> list[float]:
        count = self.layers[number].num_units
        y = self.centres[number][1]
        return [y + _UNIT_ROW * ((count - 1) / 2 - unit) for unit in range(count)]


def figure_circuit(
    circuit: CircuitLike,
    *,
    length: int | None = None,
    units: bool | None = None,
    max_layers: int = _MAX_LAYERS,
    title: str | None = None,
) -> Figure:
    """The layers of a circuit from the root on the left: sums, products and inputs.

    A layer is a box with its number of units and its variables; what a sum multiplies with, and
    what an input looks up, is named beside it and explained below. A small circuit is drawn unit
    by unit, with a line for each weight that is not zero.

    Args:
        circuit: A circuit, or one for every length (an HMM, an automaton, their product).
        length: The length at which the latter is drawn; a short one without it.
        units: Whether to draw unit by unit; by default where there are few.
        max_layers: Refuse circuits of more layers, whose picture would not be readable.
        title: Written above.

    >>> from pcgcd import HMM
    >>> figure = figure_circuit(HMM.random(2, 5), length=3)
    >>> sum(str(patch.get_gid()).startswith("layer-") for patch in figure.axes[0].patches)
    8
    """
    drawing = _drawing(circuit, length, units, max_layers)
    above = 0.32 if title else 0.0
    figure = Figure(figsize=(drawing.box.width, drawing.box.height + above))
    total = drawing.box.height + above
    axes = figure.add_axes((0.0, 0.0, 1.0, drawing.box.height / total))
    _paint(axes, drawing)
    if title:
        x = _MARGIN / drawing.box.width
        figure.text(x, 1 - 0.1 / total, title, va="top", fontsize=10.5, color=INK)
    return figure


def draw_circuit(
    axes: Axes,
    circuit: CircuitLike,
    *,
    length: int | None = None,
    units: bool | None = None,
    max_layers: int = _MAX_LAYERS,
) -> None:
    """Draw into given axes, scaled down to fit; see :func:`figure_circuit`."""
    _paint(axes, _drawing(circuit, length, units, max_layers))


# -- coordinates ------------------------------------------------------------------------------


def _drawing(
    source: CircuitLike, length: int | None, units: bool | None, max_layers: int
) -> _Drawing:
    circuit = source.sample_graph() if length is None else source.unroll(length)
    if len(circuit.layers) > max_layers:
        raise InvalidParameterError(
            f"a circuit of {len(circuit.layers)} layers is too large to draw (the limit is "
            f"{max_layers}); name a smaller length, or raise the limit with max_layers"
        )
    layers = list(reversed(circuit.layers))
    widths = [layer.num_units for layer in layers]
    fits = max(widths) <= _MAX_UNITS and sum(widths) <= _MAX_ALL_UNITS
    if units and not fits:
        raise InvalidParameterError(
            f"a circuit of {sum(widths):,} units, {max(widths):,} of them in one layer, is too "
            f"large to draw unit by unit (the limit is {_MAX_ALL_UNITS} and {_MAX_UNITS}); leave "
            "units= out to draw its layers"
        )
    by_unit = fits if units is None else units
    number = {layer: i for i, layer in enumerate(layers)}
    parents: list[list[int]] = [[] for _ in layers]
    for layer in layers:
        for child in layer.children:
            parents[number[child]].append(number[layer])
    hanging = frozenset(i for i, layer in enumerate(layers) if _hangs(layer, parents[i], layers))
    centres = _centres(layers, number, hanging, parents, by_unit)
    symbols = symbols_of(circuit)
    legend = list({symbol.sign: symbol for symbol in symbols.values()}.values())
    boxes = []
    for i, (x, y) in enumerate(centres):
        wide, high = _size(layers[i], by_unit)
        boxes.append(Box(x - wide / 2, y - high / 2 - _SCOPE, x + wide / 2, y + high / 2))
        if isinstance(layers[i], InputLayer):
            boxes.append(Box(x, y, x + wide / 2 + 0.25, y + 0.1))
    graph = Box.union(boxes).grown(_MARGIN)
    wide = max((text_size(_legend_text(symbol), _POINTS)[0] for symbol in legend), default=0.0)
    box = Box(
        graph.left,
        graph.bottom - _LINE * len(legend) - 0.08,
        max(graph.right, graph.left + wide + 0.7),
        graph.top,
    )
    return _Drawing(circuit, layers, centres, hanging, symbols, by_unit, legend, box)


def _legend_text(symbol: Symbol) -> str:
    return shortened(symbol.line, _LEGEND_LENGTH)


def _hangs(layer: Layer, parents: list[int], layers: list[Layer]) -> bool:
    """Whether an input is drawn below the one product that uses it, beside the product's others."""
    if not isinstance(layer, InputLayer) or len(parents) != 1:
        return False
    parent = layers[parents[0]]
    inputs = [child for child in parent.children if isinstance(child, InputLayer)]
    return isinstance(parent, ProductLayer) and inputs == [layer] and len(parent.children) > 1


def _first_variable(layer: Layer) -> int:
    return min(layer.scope, default=0)


def _size(layer: Layer, by_unit: bool) -> tuple[float, float]:
    if not by_unit:
        return _WIDTH, _HEIGHT
    return _STRIP, _UNIT_ROW * layer.num_units + 0.3


def _centres(
    layers: list[Layer],
    number: dict[Layer, int],
    hanging: frozenset[int],
    parents: list[list[int]],
    by_unit: bool,
) -> list[tuple[float, float]]:
    """Layered from left to right, without the inputs that hang; then these."""
    shown = sorted(set(range(len(layers))) - hanging, key=lambda i: _first_variable(layers[i]))
    place = {i: rank for rank, i in enumerate(shown)}
    edges = [
        (place[i], place[number[child]])
        for i in shown
        for child in layers[i].children
        if number[child] in place
    ]
    below = {parents[i][0]: i for i in hanging}

    def room(node: int) -> float:
        i = shown[node]
        high = _size(layers[i], by_unit)[1] + _SCOPE + _GAP_Y
        if i in below:  # twice, since the room is shared out to both sides
            high += 2 * (_size(layers[below[i]], by_unit)[1] + _SCOPE + _GAP_Y)
        return high

    wide = _STRIP + 0.75 if by_unit else _WIDTH + _GAP_X
    layout = layered_layout(
        len(shown),
        edges,
        [place[0]],
        column_gap=lambda *_: wide,
        row_gap=room,
        lane_gap=0.5 * _HEIGHT,
    )
    centres = [(0.0, 0.0)] * len(layers)
    for node, point in enumerate(layout.nodes):
        centres[shown[node]] = point
    for parent, child in below.items():
        x, y = centres[parent]
        own, other = _size(layers[parent], by_unit)[1], _size(layers[child], by_unit)[1]
        centres[child] = (x, y - own / 2 - _SCOPE - _GAP_Y - other / 2)
    return centres


# -- painting ---------------------------------------------------------------------------------


def _paint(axes: Axes, drawing: _Drawing) -> None:
    scale = show_box(axes, drawing.box)
    number = {layer: i for i, layer in enumerate(drawing.layers)}
    for i, layer in enumerate(drawing.layers):
        for place, child in enumerate(layer.children):
            _paint_edge(axes, drawing, i, number[child], place, scale)
    for i in range(len(drawing.layers)):
        _paint_layer(axes, drawing, i, scale)
    y = drawing.box.bottom + _LINE * len(drawing.legend) - 0.02
    for symbol in drawing.legend:
        x = drawing.box.left + _MARGIN
        style = {"va": "center", "size": _POINTS * scale, "color": INK}
        axes.text(x, y, symbol.sign, gid="legend-sign", **style)  # type: ignore[arg-type]
        axes.text(x + 0.3, y, _legend_text(symbol), gid="legend", **style)  # type: ignore[arg-type]
        y -= _LINE


def _kind(layer: Layer) -> tuple[str, str, str]:
    """The sign of a layer, its fill and its colour."""
    sign = "Σ" if isinstance(layer, SumLayer) else "×" if isinstance(layer, ProductLayer) else "f"
    if isinstance(layer, InputLayer):
        sign = f"$x_{{{layer.variable + 1}}}$"
    fill, colour = next((c for kind, c in _KINDS.items() if isinstance(layer, kind)), _OTHER)
    return sign, fill, colour


def _scope_text(layer: Layer) -> str:
    """The variables of a layer as mathematics: a range where it is one."""
    numbers = [variable + 1 for variable in layer.scope]
    if len(numbers) == 1:
        return f"$x_{{{numbers[0]}}}$"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"$x_{{{numbers[0]}}} … x_{{{numbers[-1]}}}$"
    if len(numbers) <= 3:
        return ", ".join(f"$x_{{{n}}}$" for n in numbers)
    return f"{len(numbers)} variables"


def _paint_layer(axes: Axes, drawing: _Drawing, number: int, scale: float) -> None:
    layer = drawing.layers[number]
    x, y = drawing.centres[number]
    wide, high = drawing.size(number)
    sign, fill, colour = _kind(layer)
    axes.add_patch(
        FancyBboxPatch(
            (x - wide / 2 + 0.07, y - high / 2 + 0.07),
            wide - 0.14,
            high - 0.14,
            boxstyle="round,pad=0.07",
            facecolor=fill,
            edgecolor=colour,
            linewidth=1.0 * scale,
            zorder=3,
            gid=f"layer-{number}",
        )
    )
    top = y + high / 2 - 0.15
    sign_size = (11.0 if sign in "Σ×" else 10.0) * scale
    axes.text(
        x,
        top,
        sign,
        ha="center",
        va="center",
        size=sign_size,
        color=INK,
        zorder=5,
        gid=f"sign-{number}",
    )
    if drawing.by_unit:
        for unit, height in enumerate(drawing.unit_heights(number)):
            axes.add_patch(
                Circle(
                    (x, height - 0.1),
                    _UNIT,
                    facecolor="white",
                    edgecolor=colour,
                    linewidth=1.0 * scale,
                    zorder=5,
                    gid=f"unit-{number}-{unit}",
                )
            )
    else:
        units = f"{layer.num_units:,}" + (" units" if layer.num_units != 1 else " unit")
        axes.text(
            x,
            y - high / 2 + 0.11,
            units,
            ha="center",
            va="center",
            size=min(7.5, 7.5 * 10 / len(units)) * scale,
            color=INK,
            zorder=5,
            gid=f"units-{number}",
        )
    if isinstance(layer, InputLayer):
        axes.text(
            x + wide / 2 + 0.05,
            y,
            drawing.symbols[layer.emission].sign,
            va="center",
            size=_POINTS * scale,
            color=BLUE,
            zorder=5,
            gid=f"emission-{number}",
        )
    else:
        axes.text(
            x,
            y - high / 2 - 0.11,
            _scope_text(layer),
            ha="center",
            va="center",
            size=(_POINTS - 0.5) * scale,
            color=INK,
            zorder=5,
            gid=f"scope-{number}",
        ).set_path_effects([withStroke(linewidth=2.0 * scale, foreground="white")])


def _paint_edge(
    axes: Axes, drawing: _Drawing, parent: int, child: int, place: int, scale: float
) -> None:
    layer = drawing.layers[parent]
    (x1, y1), (x2, y2) = drawing.centres[parent], drawing.centres[child]
    (wide1, high1), (wide2, high2) = drawing.size(parent), drawing.size(child)
    gid = f"edge-{parent}-{place}"
    if child in drawing.hanging:
        lines = [np.array([(x1, y1 - high1 / 2 - _SCOPE), (x2, y2 + high2 / 2)])]
        widths, shades = [1.0], [1.0]
    elif not drawing.by_unit:
        lines = [flowing_line((x1 + wide1 / 2, y1), (x2 - wide2 / 2, y2))]
        widths, shades = [1.1], [1.0]
    else:
        lines, shades = _unit_lines(drawing, parent, child, place)
        widths = [0.4 + 1.1 * shade for shade in shades]
    collection = LineCollection(
        lines,
        colors=[(0.17, 0.18, 0.21, 0.25 + 0.6 * shade) for shade in shades],
        linewidths=[width * scale for width in widths],
        zorder=2 if child in drawing.hanging else 4 if drawing.by_unit else 2,
    )
    collection.set_gid(gid)
    axes.add_collection(collection, autolim=False)
    if isinstance(layer, SumLayer):
        middle = (x1 + wide1 / 2 + x2 - wide2 / 2) / 2
        height = (y1 + y2) / 2 + 0.1
        if drawing.by_unit:
            height = max(y1 + high1 / 2, y2 + high2 / 2) - 0.15
        axes.text(
            middle,
            height,
            drawing.symbols[layer.weights[place]].sign,
            ha="center",
            va="center",
            size=_POINTS * scale,
            color=ORANGE,
            zorder=6,
            gid=f"weights-{parent}-{place}",
        ).set_path_effects([withStroke(linewidth=2.0 * scale, foreground="white")])


def _unit_lines(
    drawing: _Drawing, parent: int, child: int, place: int
) -> tuple[list[Points], list[float]]:
    """A line for each weight that is not zero, and how dark it is."""
    layer = drawing.layers[parent]
    x1, x2 = drawing.centres[parent][0] + _UNIT, drawing.centres[child][0] - _UNIT
    above, below = drawing.unit_heights(parent), drawing.unit_heights(child)
    if isinstance(layer, SumLayer):
        weights = layer.weights[place].to_dense().detach().cpu().double().numpy()
    else:
        weights = np.eye(len(above), len(below))
    most = float(weights.max()) or 1.0
    lines, shades = [], []
    for i, j in zip(*np.nonzero(weights)):
        start, end = (x1, above[i] - 0.1), (x2, below[j] - 0.1)
        is_sum = isinstance(layer, SumLayer)
        lines.append(np.array([start, end]) if is_sum else flowing_line(start, end))
        shades.append(float(weights[i, j]) / most)
    return lines, shades

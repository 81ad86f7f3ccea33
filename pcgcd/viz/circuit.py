"""The layered graph of a circuit: sums, products and inputs, with their widths and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.transforms import Bbox

from pcgcd.circuits import CircuitLike, InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import Operator
from pcgcd.errors import InvalidParameterError
from pcgcd.viz.curves import Points, flowing_line
from pcgcd.viz.layout import layered_layout
from pcgcd.viz.operators import Symbol, symbols_of
from pcgcd.viz.placing import box_around, rounded_box, show_box
from pcgcd.viz.style import BLUE, ORANGE, axes_at, shortened, text_size, write, write_title

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


@dataclass(frozen=True)
class _Drawing:
    """A circuit with all its coordinates; layers are numbered from the root."""

    layers: list[Layer]
    centres: list[tuple[float, float]]
    hanging: frozenset[int]  # inputs that are drawn below their product
    symbols: dict[Operator, Symbol]
    by_unit: bool
    legend: list[tuple[str, str]]  # signs and what they mean
    box: Bbox

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
    """Return the layers of a circuit from the root on the left: sums, products and inputs.

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
    width, height = drawing.box.size
    figure = Figure(figsize=(width, height + (0.32 if title else 0.0)))
    _paint(axes_at(figure, 0.0, 0.0, width, height), drawing)
    write_title(figure, _MARGIN, title)
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
    legend = list({s.sign: shortened(s.line, _LEGEND_LENGTH) for s in symbols.values()}.items())
    boxes = []
    for i, (x, y) in enumerate(centres):
        wide, high = _size(layers[i], by_unit)
        boxes.append(box_around(x, y - _SCOPE / 2, wide, high + _SCOPE))
        if isinstance(layers[i], InputLayer):
            boxes.append(Bbox.from_extents(x, y, x + wide / 2 + 0.25, y + 0.1))
    graph = Bbox.union(boxes).padded(_MARGIN)
    wide = max((text_size(text, _POINTS)[0] for _, text in legend), default=0.0)
    bottom = graph.y0 - _LINE * len(legend) - 0.08
    right = max(graph.x1, graph.x0 + wide + 0.7)
    box = Bbox.from_extents(graph.x0, bottom, right, graph.y1)
    return _Drawing(layers, centres, hanging, symbols, by_unit, legend, box)


def _hangs(layer: Layer, parents: list[int], layers: list[Layer]) -> bool:
    """Whether an input is drawn below the one product that uses it, beside the product's others."""
    if not isinstance(layer, InputLayer) or len(parents) != 1:
        return False
    parent = layers[parents[0]]
    inputs = [child for child in parent.children if isinstance(child, InputLayer)]
    return isinstance(parent, ProductLayer) and inputs == [layer] and len(parent.children) > 1


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
    shown = sorted(set(range(len(layers))) - hanging, key=lambda i: min(layers[i].scope, default=0))
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
    x, y = drawing.box.x0 + _MARGIN, drawing.box.y0 + _LINE * len(drawing.legend) - 0.02
    for sign, text in drawing.legend:
        write(axes, x, y, sign, _POINTS * scale, ha="left", gid="legend-sign")
        write(axes, x + 0.3, y, text, _POINTS * scale, ha="left", gid="legend")
        y -= _LINE


def _kind(layer: Layer) -> tuple[str, str, str]:
    """The sign of a layer, its fill and its colour."""
    if isinstance(layer, InputLayer):
        return f"$x_{{{layer.variable + 1}}}$", "#dbe8f5", BLUE
    if isinstance(layer, ProductLayer):
        return "×", "#eceef0", "#5b6470"
    if isinstance(layer, SumLayer):
        return "Σ", "#fdebd8", ORANGE
    return "f", "#f3e3f0", "#b5539c"


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
    box = rounded_box(x, y, wide, high, pad=0.07, facecolor=fill, edgecolor=colour)
    box.set(linewidth=scale, gid=f"layer-{number}")
    axes.add_patch(box)
    top = y + high / 2 - 0.15
    write(axes, x, top, sign, (11.0 if sign in "Σ×" else 10.0) * scale, gid=f"sign-{number}")
    if drawing.by_unit:
        for unit, height in enumerate(drawing.unit_heights(number)):
            disc = Circle((x, height - 0.1), _UNIT, facecolor="white", edgecolor=colour, zorder=5)
            disc.set(linewidth=scale, gid=f"unit-{number}-{unit}")
            axes.add_patch(disc)
    else:
        units = f"{layer.num_units:,}" + (" units" if layer.num_units != 1 else " unit")
        points = min(7.5, 7.5 * 10 / len(units)) * scale
        write(axes, x, y - high / 2 + 0.11, units, points, gid=f"units-{number}")
    if isinstance(layer, InputLayer):
        sign, gid = drawing.symbols[layer.emission].sign, f"emission-{number}"
        points, x = _POINTS * scale, x + wide / 2 + 0.05
        write(axes, x, y, sign, points, colour=BLUE, ha="left", gid=gid)
    else:
        text, y, gid = _scope_text(layer), y - high / 2 - 0.11, f"scope-{number}"
        write(axes, x, y, text, (_POINTS - 0.5) * scale, outline=2.0 * scale, gid=gid)


def _paint_edge(
    axes: Axes, drawing: _Drawing, parent: int, child: int, place: int, scale: float
) -> None:
    layer = drawing.layers[parent]
    (x1, y1), (x2, y2) = drawing.centres[parent], drawing.centres[child]
    (wide1, high1), (wide2, high2) = drawing.size(parent), drawing.size(child)
    if child in drawing.hanging:
        lines = [np.array([(x1, y1 - high1 / 2 - _SCOPE), (x2, y2 + high2 / 2)])]
        widths, shades, zorder = [1.0], [1.0], 2
    elif not drawing.by_unit:
        lines = [flowing_line((x1 + wide1 / 2, y1), (x2 - wide2 / 2, y2))]
        widths, shades, zorder = [1.1], [1.0], 2
    else:
        lines, shades = _unit_lines(drawing, parent, child, place)
        widths, zorder = [0.4 + 1.1 * shade for shade in shades], 4
    collection = LineCollection(
        lines,
        colors=[(0.17, 0.18, 0.21, 0.25 + 0.6 * shade) for shade in shades],
        linewidths=[width * scale for width in widths],
        zorder=zorder,
    )
    collection.set_gid(f"edge-{parent}-{place}")
    axes.add_collection(collection, autolim=False)
    if isinstance(layer, SumLayer):
        middle = (x1 + wide1 / 2 + x2 - wide2 / 2) / 2
        height = (y1 + y2) / 2 + 0.1
        if drawing.by_unit:
            height = max(y1 + high1 / 2, y2 + high2 / 2) - 0.15
        sign, gid = drawing.symbols[layer.weights[place]].sign, f"weights-{parent}-{place}"
        write(
            axes,
            middle,
            height,
            sign,
            _POINTS * scale,
            colour=ORANGE,
            outline=2.0 * scale,
            zorder=6,
            gid=gid,
        )


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
    used = list(zip(*np.nonzero(weights)))
    ends = [((x1, above[i] - 0.1), (x2, below[j] - 0.1)) for i, j in used]
    lines = [
        np.array(pair) if isinstance(layer, SumLayer) else flowing_line(*pair) for pair in ends
    ]
    most = float(weights.max()) or 1.0
    return lines, [float(weights[i, j]) / most for i, j in used]

"""Showing circuits: as text, as a table with a picture in a notebook, as a networkx graph."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer
from pcgcd.circuits.tables import table_html

if TYPE_CHECKING:
    import networkx as nx

    from pcgcd.circuits.circuit import Circuit

_SHOWN_LAYERS = 12
_COLOURS = {"input": "#2b67a6", "product": "#8a8f98", "sum": "#e67e22"}


def kind(layer: Layer) -> str:
    """One of input, product and sum, or the class name of a layer of the user's own."""
    name = type(layer).__name__.removesuffix("Layer").lower()
    return name if name in _COLOURS else type(layer).__name__


def _details(layer: Layer) -> str:
    if isinstance(layer, InputLayer):
        return f"x_{layer.variable + 1}: {layer.emission!r}"
    if isinstance(layer, ProductLayer):
        return f"{len(layer.children)} factors"
    return " + ".join(repr(operator) for operator in layer.operators)


def _rows(circuit: Circuit) -> list[tuple[str, ...]]:
    """(number, kind, units, scope, children, details), from the root down; not all of many."""
    number = {layer: i for i, layer in enumerate(reversed(circuit.layers))}
    first_use: dict[object, int] = {}
    rows: list[tuple[str, ...]] = []
    for layer, i in number.items():
        details = _details(layer)
        tied = first_use.setdefault(layer.operators, i) if layer.operators else i
        if tied != i:
            details = f"tied with {tied}"
        children = ", ".join(str(number[child]) for child in layer.children)
        rows.append(
            (str(i), kind(layer), f"{layer.num_units:,}", repr(layer.scope), children, details)
        )
    hidden = len(rows) - 2 * _SHOWN_LAYERS
    if hidden <= 0:
        return rows
    gap = ("...", f"{hidden} more layers", "", "", "", "")
    return [*rows[:_SHOWN_LAYERS], gap, *rows[-_SHOWN_LAYERS:]]


_HEADER = ("layer", "kind", "units", "scope", "children", "weights")


def to_text(circuit: Circuit) -> str:
    """Return a table of the layers, from the root down; the middle of a long one is left out."""
    rows = [_HEADER, *_rows(circuit)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER) - 1)]
    lines = [repr(circuit)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def to_html(circuit: Circuit) -> str:
    """Return the table of layers below a picture of them."""
    return table_html(repr(circuit), _HEADER, _rows(circuit), to_svg(circuit))


def to_networkx(circuit: Circuit) -> nx.DiGraph[Any]:
    """Nodes are layer numbers (0 is the root) with kind, num_units, scope and the layer itself."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    number = {layer: i for i, layer in enumerate(reversed(circuit.layers))}
    for layer, i in number.items():
        graph.add_node(
            i, kind=kind(layer), num_units=layer.num_units, scope=tuple(layer.scope), layer=layer
        )
    for layer, i in number.items():
        for position, child in enumerate(layer.children):
            graph.add_edge(i, number[child], position=position)
    return graph


def _positions(layers: list[Layer]) -> dict[Layer, tuple[float, float]]:
    """Depth from the root downwards; within a depth, from left to right by first variable."""
    depth: dict[Layer, int] = {}
    shown = set(layers)
    for layer in layers:
        depth.setdefault(layer, 0)
        for child in layer.children:
            if child in shown:
                depth[child] = max(depth.get(child, 0), depth[layer] + 1)
    rows: dict[int, list[Layer]] = {}
    for layer in layers:
        rows.setdefault(depth[layer], []).append(layer)
    widest = max(len(row) for row in rows.values())
    positions = {}
    for y, row in rows.items():
        row.sort(key=lambda layer: (layer.scope.bits & -layer.scope.bits, len(layer.scope)))
        for x, layer in enumerate(row):
            positions[layer] = ((x + 0.5) * widest / len(row), float(y))
    return positions


def to_svg(circuit: Circuit) -> str:
    """Draw the layers: orange sums, grey products, blue inputs; only the top of a deep circuit."""
    layers = list(reversed(circuit.layers))[: 3 * _SHOWN_LAYERS]
    step_x, step_y, box_x, box_y = 150, 62, 132, 34
    centre = {layer: (x * step_x, y * step_y + 28) for layer, (x, y) in _positions(layers).items()}
    width = max(x for x, _ in centre.values()) + step_x / 2
    height = max(y for _, y in centre.values()) + step_y - 4
    parts = []
    for layer, (x1, y1) in centre.items():
        for child in layer.children:
            if child in centre:
                x2, y2 = centre[child]
                parts.append(
                    f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
                    'stroke="#9aa0a6" stroke-width="1.2"/>'
                )
    for layer, (x, y) in centre.items():
        name = kind(layer)
        colour = _COLOURS.get(name, "#6b4fa0")
        label = f"{name} · {layer.num_units:,}"
        parts.append(
            f"<g><title>{html.escape(_details(layer))}</title>"
            f'<rect x="{x - box_x / 2:.0f}" y="{y - box_y / 2:.0f}" width="{box_x}" '
            f'height="{box_y}" rx="6" fill="{colour}"/>'
            f'<text x="{x:.0f}" y="{y - 3:.0f}" text-anchor="middle" fill="white" '
            f'font-size="12">{html.escape(label)}</text>'
            f'<text x="{x:.0f}" y="{y + 11:.0f}" text-anchor="middle" fill="white" '
            f'font-size="10">{html.escape(_short_scope(layer))}</text></g>'
        )
    hidden = len(circuit.layers) - len(layers)
    if hidden:
        parts.append(
            f'<text x="{width / 2:.0f}" y="{height - 2:.0f}" text-anchor="middle" '
            f'font-size="11" fill="#5f6368">and {hidden} more layers</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{min(width, 900):.0f}" font-family="sans-serif">{"".join(parts)}</svg>'
    )


def _short_scope(layer: Layer) -> str:
    text = repr(layer.scope)
    return text if len(text) <= 20 else text[:18] + "…}"

"""An automaton, its matrices and the posterior of its edges in one figure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from pcgcd.automata import FiniteAutomaton
from pcgcd.viz.automaton import draw_automaton, natural_size
from pcgcd.viz.messages import add_colour_bar, draw_messages
from pcgcd.viz.style import INK, axes_at, checked_names, edge_text, set_text, text_size
from pcgcd.viz.tensors import automaton_matrices, draw_matrix

# All in inches.
_WIDTH = 9.6
_MARGIN = 0.25
_HEADING = 0.4
_ROW = 0.21
_BETWEEN = 0.58
_POINTS = 8.5


class _Page:
    """A figure that is filled from top to bottom."""

    def __init__(self, height: float) -> None:
        self.figure = Figure(figsize=(_WIDTH, height))
        self.height = height
        self.top = 0.12

    def heading(self, letter: str, text: str) -> None:
        x, y = _MARGIN / _WIDTH, 1 - self.top / self.height
        self.figure.text(x, y, letter, size=11, weight="bold", va="top", color=INK)
        self.figure.text(x + 0.02, y, text, size=11, va="top", color=INK)
        self.top += _HEADING

    def axes(self, left: float, width: float, height: float) -> Axes:
        return axes_at(self.figure, left, self.height - self.top - height, width, height)


def figure_overview(
    fa: FiniteAutomaton, edge_posteriors: Tensor, *, token_names: Sequence[str] | None = None
) -> Figure:
    """Three panels: the graph, T_out with T_in and B_f, and which edge is used at each step.

    Args:
        fa: A small automaton.
        edge_posteriors: How likely each edge is used at each step, (n, E).
        token_names: How to write each token; numbers without it.
    """
    names = checked_names(token_names, fa.vocab_size, "tokens")
    matrices = automaton_matrices(fa, token_names=names)
    inside = _WIDTH - 2 * _MARGIN
    wide, high = natural_size(fa, token_names=names)
    graph_height = high * min(1.0, inside / wide)
    columns = sum(matrix.cells.shape[1] for matrix in matrices)
    cell = min(0.2, (inside - _BETWEEN * len(matrices)) / columns)
    matrix_height = cell * max(matrix.cells.shape[0] for matrix in matrices)
    header = cell + max(matrix.header(cell) for matrix in matrices)
    map_height = _ROW * fa.num_edges
    page = _Page(3 * _HEADING + graph_height + header + matrix_height + map_height + 1.45)

    page.heading("a", "The automaton")
    draw_automaton(page.axes(_MARGIN, inside, graph_height), fa, token_names=names)
    page.top += graph_height + 0.3

    page.heading("b", "Its matrices: where each edge starts, where it ends, what it spells")
    page.top += header - 0.15
    left = _MARGIN + 0.6 * _BETWEEN
    for matrix in matrices:
        rows, width = matrix.cells.shape
        draw_matrix(page.axes(left, width * cell, rows * cell), matrix)
        left += width * cell + _BETWEEN
    page.top += matrix_height + 0.6

    page.heading("c", "How likely each edge is used at each step (grey: impossible)")
    labels = [set_text(fa.labels.tokens(label).tolist(), names) for label in fa.label.tolist()]
    rows_text = [f"{text}  {edge_text(edge)}" for edge, text in enumerate(labels)]
    left = _MARGIN + 0.15 + max(text_size(text, _POINTS)[0] for text in rows_text)
    image = draw_messages(
        page.axes(left, _WIDTH - left - 1.0, map_height), edge_posteriors, unit_names=rows_text
    )
    add_colour_bar(page.figure, image, page.axes(_WIDTH - 0.85, 0.14, map_height))
    return page.figure

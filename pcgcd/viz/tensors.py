"""The matrices of an automaton (Def. 3.2), drawn as the paper's Figure 1 does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pcgcd.automata import FiniteAutomaton
from pcgcd.errors import InvalidParameterError
from pcgcd.viz.style import (
    BLUE,
    GREY,
    ORANGE,
    axes_at,
    axes_inches,
    checked_names,
    edge_text,
    names_from,
    set_text,
    state_text,
    text_size,
    token_text,
)

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary

_CELL = 0.21  # inches
_FILLED = 0.82  # part of a cell's width that is coloured
_MAX_TOKENS = 48
_MAX_CELLS = 120


class Matrix(NamedTuple):
    """A matrix of zeros and ones, and how to draw it.

    Attributes:
        cells: Booleans (rows, columns).
        colour: The colour of the ones.
        row_names: One for each row.
        column_names: One for each column.
        title: Written below.
    """

    cells: np.ndarray[Any, np.dtype[np.bool_]]
    colour: str
    row_names: list[str]
    column_names: list[str]
    title: str

    def is_upright(self, cell: float) -> bool:
        """Return whether the column names are too wide to stand beside one another."""
        widths = [text_size(name, _points(cell))[0] for name in self.column_names]
        room = [(left + right) / 2 + 0.2 * cell for left, right in pairwise(widths)]
        return max(room, default=0.0) > cell

    def header(self, cell: float) -> float:
        """Return the height of the column names in inches, for cells of a size."""
        points = _points(cell)
        if not self.is_upright(cell):
            return points / 72.0
        return max(text_size(name, points)[0] for name in self.column_names)


def _points(cell: float) -> float:
    """The size of letters beside cells of a size in inches."""
    return min(10.0, 40.0 * cell)


def automaton_matrices(
    fa: FiniteAutomaton, *, token_names: Sequence[str] | None = None
) -> tuple[Matrix, Matrix, Matrix]:
    """T_out (S x E), T_in (E x S) and B_f (E x V) of an automaton.

    With many tokens, the columns of B_f are classes of tokens that no edge distinguishes.

    Args:
        fa: The automaton.
        token_names: How to write each token; numbers without it.
    """
    names = checked_names(token_names, fa.vocab_size, "tokens")
    largest = max(fa.num_states, fa.num_edges)
    if not fa.num_edges:
        raise InvalidParameterError("an automaton without edges has no matrices to draw")
    if largest > _MAX_CELLS:
        raise InvalidParameterError(
            f"an automaton of {fa.num_states} states and {fa.num_edges} edges is too large to draw "
            f"cell by cell (the limit is {_MAX_CELLS}); draw a smaller one"
        )
    states = [state_text(state) for state in range(fa.num_states)]
    edges = [edge_text(edge) for edge in range(fa.num_edges)]
    one_source = fa.source[None, :] == np.arange(fa.num_states)[:, None]
    one_target = fa.target[:, None] == np.arange(fa.num_states)[None, :]
    return (
        Matrix(one_source, ORANGE, states, edges, _title("T_{\\mathrm{out}}", "S", "E")),
        Matrix(one_target, ORANGE, edges, states, _title("T_{\\mathrm{in}}", "E", "S")),
        _emission(fa, names, edges),
    )


def _title(name: str, rows: str, columns: str) -> str:
    return f"${name}$   ${rows} \\times {columns}$"


def _emission(fa: FiniteAutomaton, names: Sequence[str] | None, edges: list[str]) -> Matrix:
    by_class = fa.labels.label_class[fa.label]  # (E, classes)
    token_class = fa.labels.token_class
    if fa.vocab_size <= _MAX_TOKENS:
        tokens = [str(token) for token in range(fa.vocab_size)] if names is None else names
        columns = [token_text(token) for token in tokens]
        title = _title("B_{\\mathrm{f}}", "E", "V")
        return Matrix(by_class[:, token_class], BLUE, edges, columns, title)
    count = fa.labels.num_classes
    if count > _MAX_CELLS:
        raise InvalidParameterError(
            f"the edges tell {count} classes of tokens apart, too many to draw (the limit is "
            f"{_MAX_CELLS}); draw a smaller automaton"
        )
    members = [np.flatnonzero(token_class == number).tolist() for number in range(count)]
    columns = [set_text(tokens, names) for tokens in members]
    title = _title("B_{\\mathrm{f}}", "E", "\\mathrm{classes}")
    return Matrix(by_class, BLUE, edges, columns, title)


def figure_tensors(
    fa: FiniteAutomaton,
    token_names: Sequence[str] | None = None,
    *,
    vocabulary: Vocabulary | None = None,
) -> Figure:
    """T_out, T_in and B_f side by side: orange where an edge meets a state, blue where it emits.

    Args:
        fa: The automaton; small, since every cell is drawn.
        token_names: How to write each token; numbers without it.
        vocabulary: Spells the tokens, instead of names. Where there are many, the columns are
            classes of tokens that no edge distinguishes.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 1, {0, 2})]
    ... )
    >>> tuple(axes.get_gid() for axes in figure_tensors(fa).axes)
    ('T_out', 'T_in', 'B_f')
    """
    matrices = automaton_matrices(fa, token_names=names_from(vocabulary, token_names))
    left, between, below = 0.42, 0.62, 0.38
    above = 0.12 + max(matrix.header(_CELL) for matrix in matrices)
    widths = [matrix.cells.shape[1] * _CELL for matrix in matrices]
    heights = [matrix.cells.shape[0] * _CELL for matrix in matrices]
    total_width = left + sum(widths) + between * (len(widths) - 1) + 0.2
    top = max(heights) + below
    figure = Figure(figsize=(total_width, above + top))
    for name, matrix, width, height in zip(("T_out", "T_in", "B_f"), matrices, widths, heights):
        axes = axes_at(figure, left, top - height, width, height)
        axes.set_gid(name)
        draw_matrix(axes, matrix)
        left += width + between
    return figure


def draw_matrix(axes: Axes, matrix: Matrix) -> None:
    """One matrix, cell by cell; letters and gaps follow the size of the axes."""
    rows, columns = matrix.cells.shape
    width, height = axes_inches(axes)
    cell = min(width / columns, height / rows)
    squares = [
        Rectangle((column - _FILLED / 2, row - _FILLED / 2), _FILLED, _FILLED)
        for row in range(rows)
        for column in range(columns)
    ]
    colours = [to_rgba(matrix.colour if one else GREY) for one in matrix.cells.ravel()]
    cells = PatchCollection(squares, facecolors=colours, linewidths=0)
    cells.set_gid("cells")
    axes.add_collection(cells)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_aspect("equal", anchor="N")
    points = _points(cell)
    axes.set_xticks(range(columns), matrix.column_names, fontsize=points)
    axes.set_yticks(range(rows), matrix.row_names, fontsize=points)
    axes.tick_params(length=0, pad=2, labeltop=True, labelbottom=False, top=False, bottom=False)
    if matrix.is_upright(cell):
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_xlabel(matrix.title, color=matrix.colour, fontsize=min(12.0, 1.4 * points), labelpad=5)
    axes.spines[:].set_visible(False)

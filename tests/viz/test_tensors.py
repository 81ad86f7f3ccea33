"""The drawn matrices are the automaton's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from pcgcd import FiniteAutomaton
from pcgcd.errors import InvalidParameterError
from pcgcd.viz import automaton_matrices, figure_overview, figure_tensors
from pcgcd.viz.style import BLUE, GREY, ORANGE
from tests.viz.examples import EXAMPLES, JSON_NAMES, json_automaton, large_vocabulary, parity


def coloured(figure: Figure, name: str, colour: str) -> np.ndarray:
    """Which cells of a panel have a colour, as a vector; all others must be grey."""
    axes = next(axes for axes in figure.axes if axes.get_gid() == name)
    (cells,) = (found for found in axes.collections if isinstance(found, PatchCollection))
    faces = cells.get_facecolors()
    assert len(cells.get_paths()) == len(faces)
    ones = (faces == to_rgba(colour)).all(1)
    assert ((faces == to_rgba(GREY)).all(1) | ones).all()
    return ones


@pytest.mark.parametrize("example", ["json", "parity"])
def test_cells_are_coloured_where_the_matrices_are_one(example: str) -> None:
    fa = EXAMPLES[example]()
    figure = figure_tensors(fa)
    for name, colour in (("T_out", ORANGE), ("T_in", ORANGE), ("B_f", BLUE)):
        expected = getattr(fa, name).to_dense().numpy().ravel() > 0
        np.testing.assert_array_equal(coloured(figure, name, colour), expected)


def test_axes_are_labelled_with_states_edges_and_tokens() -> None:
    fa = json_automaton()
    t_out, t_in, b_f = figure_tensors(fa, JSON_NAMES).axes
    rows, columns = (
        lambda axes: [text.get_text() for text in axes.get_yticklabels()],
        lambda axes: [text.get_text() for text in axes.get_xticklabels()],
    )
    assert rows(t_out) == columns(t_in) == [f"$s_{{{i}}}$" for i in range(fa.num_states)]
    assert columns(t_out) == rows(t_in) == rows(b_f) == [f"$e_{{{i}}}$" for i in range(13)]
    assert columns(b_f) == JSON_NAMES
    assert "B_" in b_f.get_xlabel()
    assert "V" in b_f.get_xlabel()


def test_many_tokens_are_drawn_as_classes() -> None:
    fa = large_vocabulary()
    emission = automaton_matrices(fa)[2]
    assert emission.cells.shape == (fa.num_edges, fa.labels.num_classes)
    dense = fa.B_f.to_dense().numpy() > 0
    np.testing.assert_array_equal(emission.cells[:, fa.labels.token_class], dense)
    assert any("…" in name for name in emission.column_names)


def test_what_cannot_be_drawn_is_refused_with_the_reason() -> None:
    many = FiniteAutomaton.from_edges(
        num_states=200, vocab_size=1, initial=0, accepting={1}, edges=[(0, 1, {0})]
    )
    none = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=1, initial=0, accepting={0}, edges=[]
    )
    with pytest.raises(InvalidParameterError, match="200 states"):
        figure_tensors(many)
    with pytest.raises(InvalidParameterError, match="without edges"):
        figure_tensors(none)


def test_the_overview_shows_graph_matrices_and_posteriors() -> None:
    fa = parity()
    posteriors = torch.full((5, fa.num_edges), 0.25)
    figure = figure_overview(fa, posteriors)
    assert len(figure.axes) == 6  # graph, three matrices, heat map, its scale
    (image,) = (image for axes in figure.axes for image in axes.images)
    assert image.get_array().shape == (fa.num_edges, 5)

"""Lines show means, bands show quantiles, in the order of x."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pcgcd.errors import InvalidParameterError
from pcgcd.viz import draw_convergence, draw_runtime, figure_convergence, figure_runtime
from pcgcd.viz.style import PALETTE, colours_of

SERIES = {"LCD": [(16, [0.5, 0.3]), (4, [0.8, 0.6, 0.7])], "P-GCD": [(4, 0.2), (16, [0.1])]}


def lines(figure: Figure) -> dict[str, np.ndarray]:
    return {
        str(line.get_label()): np.asarray(line.get_xydata())
        for line in figure.axes[0].get_lines()
        if str(line.get_gid()).startswith("line-")
    }


@pytest.mark.parametrize("draw", [figure_convergence, figure_runtime])
def test_lines_are_the_means_sorted_by_x(draw: object) -> None:
    found = lines(draw(SERIES))  # type: ignore[operator]
    np.testing.assert_allclose(found["LCD"], [(4, 0.7), (16, 0.4)])
    np.testing.assert_allclose(found["P-GCD"], [(4, 0.2), (16, 0.1)])


def test_bands_are_quantiles_of_the_repetitions() -> None:
    values = np.linspace(0.1, 1.0, 11)
    figure = figure_convergence({"a": [(1, values), (2, values)]})
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(np.quantile(values, 0.1))
    assert heights.max() == pytest.approx(np.quantile(values, 0.9))


def test_the_line_for_comparison_has_the_slope_and_lies_below() -> None:
    figure = figure_convergence(SERIES)
    (rate,) = (line for line in figure.axes[0].get_lines() if line.get_gid() == "rate")
    (x1, y1), (x2, y2) = np.asarray(rate.get_xydata())
    assert np.log(y2 / y1) / np.log(x2 / x1) == pytest.approx(-0.5)
    assert all(
        (points[:, 1] > np.interp(points[:, 0], [x1, x2], [y1, y2]) * 0.99).any()
        for points in lines(figure).values()
    )
    without = figure_convergence(SERIES, rate=None)
    assert not [line for line in without.axes[0].get_lines() if line.get_gid() == "rate"]


def test_axes_are_logarithmic_unless_told_otherwise() -> None:
    axes = figure_runtime(SERIES, log_x=False, log_y=False).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert axes.get_ylim()[0] == 0
    axes = figure_convergence(SERIES, x_label="k", y_label="e", title="t").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("k", "e", "t")


def test_zero_errors_do_not_break_a_logarithmic_axis() -> None:
    figure = figure_convergence({"exact": [(1, [0.0, 0.0]), (2, [0.1, 0.0])]})
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ({}, "at least one series"),
        ({"a": []}, "no pair"),
        ({"a": [(1, [])]}, "without any value"),
        ({"a": [(1, [float("nan")])]}, "undefined"),
    ],
)
def test_what_cannot_be_drawn_is_refused(series: dict[str, list[object]], message: str) -> None:
    for draw in (figure_convergence, figure_runtime):
        with pytest.raises(InvalidParameterError, match=message):
            draw(series)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(["LCD", "gcd", "P-GCD", "a", "b", "c", "d", "e"]), unique=True))
@settings(max_examples=60, deadline=None)
def test_names_have_different_colours_and_methods_their_own(names: list[str]) -> None:
    colours = colours_of(names)
    assert len(set(colours)) == len(names) <= len(PALETTE)
    for name, colour in zip(names, colours, strict=True):
        if name in ("LCD", "gcd", "P-GCD"):
            assert colour == colours_of([name])[0]


def test_they_can_be_drawn_into_given_axes() -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    draw_convergence(left, SERIES)
    draw_runtime(right, SERIES)
    assert left.get_legend() is not None
    assert right.get_legend() is not None

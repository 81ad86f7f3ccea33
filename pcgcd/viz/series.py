"""Measurements as lines: how an error falls with particles, how time grows with size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pcgcd.errors import InvalidParameterError
from pcgcd.viz.style import FAINT, INK, MARKERS, clear_frame, colours_of

Series = Mapping[str, Sequence[tuple[float, float | Iterable[float]]]]
"""For each name, pairs of a number (particles, a length, a size) and what was measured there."""

_SIZE = (5.4, 3.3)
_QUANTILES = (0.1, 0.9)
_BEFORE_KILO = 10_000.0


def figure_convergence(
    series: Series,
    *,
    x_label: str = "particles",
    y_label: str = "error",
    title: str | None = None,
    rate: float | None = -0.5,
) -> Figure:
    """Errors against the number of particles, both axes logarithmic, one line for each method.

    The line is the mean of the repetitions, the band around it goes from the 10 % to the 90 %
    quantile.

    Args:
        series: For each method, (particles, the errors of all repetitions), in any order.
        x_label: What stands below.
        y_label: What the errors are, e.g. "total variation to the exact posterior".
        title: Written above.
        rate: The slope of a dashed line for comparison; -1/2 is that of Monte Carlo. None: no line.

    >>> figure = figure_convergence({"P-GCD": [(1, [0.5, 0.7]), (4, [0.2, 0.4])]})
    >>> figure.axes[0].get_xscale(), figure.axes[0].get_yscale()
    ('log', 'log')
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    draw_convergence(
        figure.add_subplot(), series, x_label=x_label, y_label=y_label, title=title, rate=rate
    )
    return figure


def draw_convergence(
    axes: Axes,
    series: Series,
    *,
    x_label: str = "particles",
    y_label: str = "error",
    title: str | None = None,
    rate: float | None = -0.5,
) -> None:
    """Draw into given axes; see :func:`figure_convergence`."""
    lines = _lines(series)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _draw_lines(axes, lines)
    if rate is not None and max(len(x) for x, _ in lines.values()) > 1:
        _draw_rate(axes, lines, rate)
    _finish(axes, lines, x_label, y_label, title)


def figure_runtime(
    series: Series,
    *,
    x_label: str = "length",
    y_label: str = "seconds",
    title: str | None = None,
    log_x: bool = True,
    log_y: bool = True,
) -> Figure:
    """Times against a length, a number of particles or a size, one line for each method.

    Args:
        series: For each method, (length, a time or the times of all repetitions), in any order.
        x_label: What was varied.
        y_label: What was measured, with its unit.
        title: Written above.
        log_x: Whether the lower axis is logarithmic.
        log_y: Whether the left axis is.

    >>> figure = figure_runtime({"sparse": [(8, 0.1), (16, 0.2)], "dense": [(8, 1.0), (16, 4.0)]})
    >>> tuple(line.get_label() for line in figure.axes[0].get_lines())
    ('sparse', 'dense')
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    draw_runtime(
        figure.add_subplot(),
        series,
        x_label=x_label,
        y_label=y_label,
        title=title,
        log_x=log_x,
        log_y=log_y,
    )
    return figure


def draw_runtime(
    axes: Axes,
    series: Series,
    *,
    x_label: str = "length",
    y_label: str = "seconds",
    title: str | None = None,
    log_x: bool = True,
    log_y: bool = True,
) -> None:
    """Draw into given axes; see :func:`figure_runtime`."""
    lines = _lines(series)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    _draw_lines(axes, lines)
    if not log_y:
        axes.set_ylim(bottom=0.0)
    _finish(axes, lines, x_label, y_label, title)


# -- inside -----------------------------------------------------------------------------------

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Lines = dict[str, tuple[Numbers, list[Numbers]]]


def _lines(series: Series) -> Lines:
    """The series sorted by x, with all values that were measured at each."""
    if not series:
        raise InvalidParameterError("a picture needs at least one series: a name and its pairs")
    result = {}
    for name, pairs in series.items():
        points = [
            (float(x), np.array(list(y) if isinstance(y, Iterable) else [y], dtype=np.float64))
            for x, y in sorted(pairs, key=lambda pair: pair[0])
        ]
        if not points or not all(len(values) for _, values in points):
            raise InvalidParameterError(
                f"the series {name!r} must have pairs of a number and one or more values, but has "
                f"{'no pair' if not points else 'one without any value'}"
            )
        if not all(np.isfinite(values).all() and np.isfinite(x) for x, values in points):
            raise InvalidParameterError(
                f"the series {name!r} has values that are infinite or undefined; leave them out"
            )
        result[name] = (np.array([x for x, _ in points]), [values for _, values in points])
    return result


def _draw_lines(axes: Axes, lines: Lines) -> None:
    positive = axes.get_yscale() == "log"
    for number, ((name, (x, values)), colour) in enumerate(
        zip(lines.items(), colours_of(list(lines)), strict=True)
    ):
        means = np.array([v.mean() for v in values])
        low, high = (np.array([np.quantile(v, q) for v in values]) for q in _QUANTILES)
        if positive:  # a logarithmic axis has no zero
            means, low, high = (np.where(v > 0, v, np.nan) for v in (means, low, high))
            low = np.where(np.isnan(low), means, low)
        if any(len(v) > 1 for v in values):
            band = axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            band.set_gid(f"band-{number}")
        axes.plot(
            x,
            means,
            color=colour,
            linewidth=1.7,
            marker=MARKERS[number % len(MARKERS)],
            markersize=4.6,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=name,
            gid=f"line-{number}",
        )


def _draw_rate(axes: Axes, lines: Lines, rate: float) -> None:
    """A dashed line of the slope below the lowest line, from the first x to the last."""
    first = min(float(x[0]) for x, _ in lines.values())
    last = max(float(x[-1]) for x, _ in lines.values())
    means = [(at, v.mean()) for x, values in lines.values() for at, v in zip(x, values)]
    height = [mean / at**rate for at, mean in means if mean > 0 and at > 0]
    if not height or first <= 0 or first == last:
        return
    scale = 0.7 * min(height)
    ends, dashes = np.array([first, last]), (0, (4, 3))
    axes.plot(ends, scale * ends**rate, color=FAINT, linewidth=1.0, linestyle=dashes, gid="rate")
    power = "k^{-1/2}" if rate == -0.5 else f"k^{{{rate:g}}}"
    axes.annotate(
        f"$\\propto {power}$",
        (last, scale * last**rate),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=FAINT,
        fontsize=8.5,
        annotation_clip=False,
    )


def _finish(
    axes: Axes,
    lines: Lines,
    x_label: str,
    y_label: str,
    title: str | None,
) -> None:
    clear_frame(axes)
    axes.set_xlabel(x_label, color=INK, fontsize=9.5)
    axes.set_ylabel(y_label, color=INK, fontsize=9.5)
    if title:
        axes.set_title(title, color=INK, fontsize=10.5, loc="left")
    axes.grid(axis="y", color="#e8eaed", linewidth=0.7)
    axes.set_axisbelow(True)
    measured = sorted({float(v) for x, _ in lines.values() for v in x})
    if axes.get_xscale() == "log":
        axes.xaxis.set_minor_formatter(NullFormatter())
        if len(measured) <= 9:
            axes.set_xticks(measured)
            axes.xaxis.set_minor_locator(LogLocator(subs=()))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        low, high = axes.get_ylim()
        # Within two decades, the powers of ten alone would be too few marks.
        few = high / low < 100
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0) if few else (2.0, 4.0, 6.0, 8.0)))
        axes.yaxis.set_minor_formatter(
            FuncFormatter(lambda value, _: _number(value)) if few else NullFormatter()
        )
        axes.tick_params(axis="y", which="minor", labelsize=8.5, labelcolor=INK)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)


def _number(value: float) -> str:
    """A number of an axis: 1,024 and 0.01, not 10^3."""
    if value >= _BEFORE_KILO and value % 1000 == 0:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 10 and value == round(value) else f"{value:g}"

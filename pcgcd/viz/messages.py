"""Heat maps of messages: how likely each hidden unit is at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.viz.style import BLUE, GREY, INK, axes_at, axes_inches, checked_names, text_size

_CELL = 0.26  # inches
_ROOM = (9.0, 7.0)  # inches, for maps of very many cells
_READABLE = 0.17  # inches that a number needs
_POINTS = 8.5
_COLOURS = LinearSegmentedColormap.from_list("posterior", ["#ffffff", "#9cc0e3", BLUE, "#12304f"])


def _matrix(posteriors: Tensor | Sequence[Tensor]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values as (units, steps)."""
    rows = posteriors if isinstance(posteriors, Tensor) else torch.stack(list(posteriors))
    if rows.dim() == 3 and 1 in (rows.shape[0], rows.shape[1]):  # a batch of one
        rows = rows.squeeze(0 if isinstance(posteriors, Tensor) else 1)
    if rows.dim() != 2 or not rows.numel():
        raise InvalidParameterError(
            f"expected one vector of values for each step, (steps, units), but got "
            f"{tuple(rows.shape)}; take one row of the batch"
        )
    values: np.ndarray[Any, np.dtype[np.float64]] = rows.detach().cpu().double().numpy().T
    return values


def figure_messages(
    posteriors: Tensor | Sequence[Tensor],
    *,
    unit_names: Sequence[str] | None = None,
    step_names: Sequence[str] | None = None,
    title: str | None = None,
    unit_label: str | None = None,
    step_label: str = "step",
) -> Figure:
    """Return a heat map with a column for each step and a row for each hidden unit.

    Exact zeros are grey: they distinguish the impossible from the merely unlikely.

    Args:
        posteriors: (steps, units), or what ``circuit.unit_posteriors`` returns for one row.
        unit_names: One for each row.
        step_names: One for each column; 1..n without it.
        title: Written above.
        unit_label: What the rows are.
        step_label: What the columns are.

    >>> figure = figure_messages(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    >>> figure.axes[0].images[0].get_array().shape
    (2, 2)
    """
    units, steps = _matrix(posteriors).shape
    wide = max((text_size(name, _POINTS)[0] for name in unit_names or ["00"]), default=0.0)
    left, right, below = 0.3 + wide + (0.22 if unit_label else 0.0), 0.68, 0.52
    above = 0.38 if title else 0.12
    width = max(2.0, min(_ROOM[0], steps * _CELL) if step_names is None else steps * _CELL)
    height = max(1.2, min(_ROOM[1], units * _CELL) if unit_names is None else units * _CELL)
    figure = Figure(figsize=(left + width + right, below + height + above))
    image = draw_messages(
        axes_at(figure, left, below, width, height),
        posteriors,
        unit_names=unit_names,
        step_names=step_names,
        title=title,
        unit_label=unit_label,
        step_label=step_label,
    )
    add_colour_bar(figure, image, axes_at(figure, left + width + 0.15, below, 0.12, height))
    return figure


def add_colour_bar(figure: Figure, image: AxesImage, axes: Axes) -> None:
    """Draw the scale of a heat map, in axes of its own."""
    bar = figure.colorbar(image, cax=axes)
    bar.ax.tick_params(labelsize=_POINTS - 1, length=2)
    bar.outline.set_linewidth(0.6)


def draw_messages(
    axes: Axes,
    posteriors: Tensor | Sequence[Tensor],
    *,
    unit_names: Sequence[str] | None = None,
    step_names: Sequence[str] | None = None,
    title: str | None = None,
    unit_label: str | None = None,
    step_label: str = "step",
) -> AxesImage:
    """Draw into given axes, without a colour bar; see :func:`figure_messages`."""
    values = _matrix(posteriors)
    units, steps = values.shape
    rows = checked_names(unit_names, units, "units")
    columns = checked_names(step_names, steps, "steps")
    image = axes.imshow(
        np.where(values == 0.0, np.nan, values),
        cmap=_COLOURS.with_extremes(bad=GREY),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
    )
    wide, high = axes_inches(axes)
    shown = range(0, steps, 1 if columns else _every(wide / steps))
    axes.set_xticks(shown, columns or [str(step + 1) for step in shown])
    shown = range(0, units, 1 if rows else _every(high / units))
    axes.set_yticks(shown, rows or [str(unit) for unit in shown])
    axes.tick_params(labelsize=_POINTS, length=0, pad=3)
    line = min(1.2, 6.0 * min(wide / steps, high / units))
    for edge in range(1, steps):
        axes.axvline(edge - 0.5, color="white", linewidth=line)
    for edge in range(1, units):
        axes.axhline(edge - 0.5, color="white", linewidth=line)
    axes.set_xlabel(step_label, fontsize=_POINTS + 0.5, color=INK)
    if unit_label:
        axes.set_ylabel(unit_label, fontsize=_POINTS + 0.5, color=INK)
    if title:
        axes.set_title(title, fontsize=_POINTS + 1.5, color=INK)
    axes.spines[:].set_visible(False)
    return image


def _every(cell: float) -> int:
    """How many cells of a size go to one number."""
    return next((n for n in (1, 2, 5, 10, 20, 50, 100) if n * cell >= _READABLE), 200)

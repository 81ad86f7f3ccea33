"""The picture of a fit: bits per token over epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pcgcd.learning.results import FitResult

__all__ = ["draw_curve"]

_BLUE, _ORANGE, _INK = "#2b67a6", "#e67e22", "#2b2f36"


def draw_curve(result: FitResult[Any], references: Mapping[str, float]) -> Figure:
    """Draw training and held-out bits per token; see :meth:`FitResult.plot`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    _draw_history(axes, result)
    for name, bits in references.items():
        axes.axhline(bits, color=_INK, linewidth=0.8, linestyle=":")
        place: Any = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        axes.annotate(name, (1, bits), fontsize=8, color=_INK, **place)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("bits per token")
    axes.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _draw_history(axes: Axes, result: FitResult[Any]) -> None:
    history = result.history
    train = [-entry.train / math.log(2) for entry in history]
    epochs = [entry.epoch for entry in history]
    axes.plot(epochs, train, color=_BLUE, label="training, as it went")
    measured = [(0, result.start_held_out), *((entry.epoch, entry.held_out) for entry in history)]
    held = {
        epoch: -value / math.log(2)
        for epoch, value in measured
        if value is not None and math.isfinite(value)
    }
    if held:
        shown: Any = {"color": _ORANGE, "marker": "o", "markersize": 3, "label": "held out"}
        axes.plot(list(held), list(held.values()), **shown)
    if result.best_epoch in held:
        place = [result.best_epoch], [held[result.best_epoch]]
        axes.plot(*place, "*", color=_ORANGE, markersize=11, label="best epoch")

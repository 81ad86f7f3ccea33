"""Pictures of generations: which texts are valid, and how many of them count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pcgcd.errors import InvalidParameterError
from pcgcd.viz.style import GREY, INK, clear_frame, colours_of

if TYPE_CHECKING:
    from pcgcd.decoding import Generation


def draw_valid(axes: Axes, results: Mapping[str, Generation]) -> None:
    """How many texts of each method satisfy the constraint, as bars."""
    for place, (result, colour) in enumerate(zip(results.values(), colours_of(list(results)))):
        total, valid = len(result), sum(result.satisfied)
        share = valid / total if total else 0.0
        axes.barh(place, 1.0, height=0.6, color=GREY)
        axes.barh(place, share, height=0.6, color=colour)
        axes.annotate(
            f"{valid} of {total}",
            (1.0, place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=9,
        )
    axes.set_yticks(range(len(results)), list(results))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.tick_params(left=False, labelcolor=INK, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.set_title("texts that satisfy the constraint", fontsize=10, color=INK, loc="left")


def draw_effective_sizes(axes: Axes, results: Mapping[str, Generation]) -> None:
    """Draw the effective sample size after each token; a dot marks a resampling."""
    most = 1.0
    for (name, result), colour in zip(results.items(), colours_of(list(results))):
        sizes = result.effective_sample_sizes
        most = max(most, *sizes, len(result)) if sizes else most
        steps = range(1, len(sizes) + 1)
        axes.plot(steps, sizes, color=colour, linewidth=1.8, label=name)
        resampled = [t for t, ancestors in zip(steps, result.ancestors) if ancestors is not None]
        axes.plot(
            resampled,
            [sizes[t - 1] for t in resampled],
            linestyle="none",
            marker="o",
            markersize=4,
            color=colour,
        )
    axes.set_ylim(0, 1.08 * most)
    axes.set_xlabel("tokens", color=INK, fontsize=9.5)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_title("effective sample size", fontsize=10, color=INK, loc="left")
    clear_frame(axes)
    axes.legend(
        frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.01, 0.5)
    )


def figure_methods(rows: Sequence[tuple[str, Mapping[str, Generation]]]) -> Figure:
    """For each task, methods side by side.

    Args:
        rows: The title of each task, and its results by the name of the method.
    """
    if not rows or not all(results for _, results in rows):
        raise InvalidParameterError("a picture needs at least one task with one result")
    figure = Figure(figsize=(9.5, 2.9 * len(rows)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False)
    for part, (title, results) in zip(parts[:, 0], rows):
        part.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        left, right = part.subplots(1, 2, width_ratios=[1, 1.5])
        draw_valid(left, results)
        draw_effective_sizes(right, results)
    return figure

"""The figure of engines.py."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from pcgcd.viz.style import BLUE, INK, ORANGE

POINTS = 9
PANELS = (
    ("Compile", "CPU ms", "compile_cpu_ms"),
    ("First mask", "CPU ms", "first_mask_cpu_ms"),
    ("Mask, first walk", "µs", "first_walk_us"),
    ("Mask, warm", "µs", "mask_us"),
)
MARKERS = {"p50": "o", "p95": "s", "p99": "^"}


def figure(results: dict[str, Any]) -> Figure:
    """A row for each run, a panel for each number, a line from p50 to the last percentile."""
    runs = results["runs"]
    height = 1.0 + 1.75 * len(runs)
    picture = Figure(figsize=(11.0, height))
    grid = picture.subplots(len(runs), len(PANELS), squeeze=False, sharex="col")
    bottom = 0.85 / height
    picture.subplots_adjust(
        left=0.105, right=0.985, top=1 - 0.62 / height, bottom=bottom, wspace=0.12, hspace=0.5
    )
    for row, run in zip(grid, runs):
        for axes, (title, unit, key) in zip(row, PANELS):
            _panel(axes, run, key)
            axes.set_title(f"{title} ({unit})", fontsize=POINTS, color=INK)
            if axes is not row[0]:
                axes.set_yticklabels([])
        row[0].annotate(
            f"{run['tokenizer'].split(',')[0]}, {run['vocab_size']:,} tokens, "
            f"white space {run['whitespace']}",
            (0, 1),
            xytext=(0, 17),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=POINTS,
            fontweight="bold",
            color=INK,
        )
    for level, marker in MARKERS.items():
        grid[0][0].plot([], [], marker, color=INK, label=level, markersize=4.5)
    handles, names = grid[0][0].get_legend_handles_labels()
    picture.legend(
        handles, names, loc="upper right", ncols=len(names), frameon=False, fontsize=POINTS
    )
    picture.text(0.012, 0.08 / height, _caption(results), size=POINTS - 1.5, color=INK, va="bottom")
    return picture


def _panel(axes: Axes, run: dict[str, Any], key: str) -> None:
    names = list(run["engines"])
    for place, name in enumerate(names):
        values = run["engines"][name][key]
        colour = BLUE if name.startswith("pcgcd") else ORANGE
        if values:
            axes.plot(list(values.values()), [place] * len(values), "-", color=colour, linewidth=1)
        for level, value in values.items():
            axes.plot([value], [place], MARKERS[level], color=colour, markersize=4.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(labelsize=POINTS - 1)
    axes.tick_params(axis="x", labelbottom=True)
    axes.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _caption(results: dict[str, Any]) -> str:
    facts, first = results["machine"], results["runs"][0]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    loads = [run[key] for run in results["runs"] for key in results["runs"][0] if "load_av" in key]
    return (
        f"{first['schemas']} schemas of function arguments (BFCL), masks along a valid text of "
        f"each. {versions}.\n{results['command']}\n"
        f"{facts['threads']} thread each, {facts['processor']}, {facts['cores']} cores, "
        f"load average {min(loads):g} to {max(loads):g}, Python {facts['python']}"
    )

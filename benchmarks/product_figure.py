"""The figure of product.py."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pcgcd.viz.style import BLUE, INK, ORANGE

POINTS = 9
GREY = "#9a9a9a"
NAMES = {"hidden": "hidden states H", "states": "states S", "length": "tokens n"}
NAMES["particles"] = "particles k"


def figure(results: dict[str, Any]) -> Figure:
    """Steps of the two constraints above; growth with each size below."""
    picture = Figure(figsize=(10.6, 6.8))
    picture.subplots_adjust(left=0.07, right=0.985, top=0.92, bottom=0.17, wspace=0.32, hspace=0.38)
    grid = picture.add_gridspec(2, 4)
    for at, name in enumerate(results["constraints"]):
        axes = picture.add_subplot(grid[0, 2 * at : 2 * at + 2])
        _steps(axes, name, results["constraints"][name])
    for at, name in enumerate(NAMES):
        _growth(picture.add_subplot(grid[1, at]), name, results["growth"][name])
    picture.text(0.012, 0.02, _caption(results), size=POINTS - 1.5, color=INK, va="bottom")
    return picture


def _steps(axes: Axes, name: str, measured: dict[str, Any]) -> None:
    particles = [row["particles"] for row in measured["next"]]
    series = [
        ("Algorithm 1 as printed", ORANGE, [row["cpu_ms"] for row in measured["printed"]]),
        ("pcgcd, most tokens allowed", BLUE, [r["free"]["cpu_ms"] for r in measured["next"]]),
        ("pcgcd, mean over a text", "#7fb0dd", [r["mean"]["cpu_ms"] for r in measured["next"]]),
        ("one pass over all allowed rows", GREY, [measured["floor"]["free"]["cpu_ms"]] * 3),
    ]
    for at, (label, colour, values) in enumerate(series):
        places = [i + (at - 1.5) * 0.2 for i in range(len(particles))]
        bars = axes.bar(places, values[: len(particles)], 0.19, color=colour, label=label)
        texts = [f"{value:,.0f}" if value >= 10 else f"{value:.1f}" for value in values]
        axes.bar_label(bars, texts[: len(particles)], fontsize=POINTS - 2, padding=1)
    axes.set_yscale("log")
    axes.set_ylim(top=60 * max(series[0][2]))
    axes.set_xticks(range(len(particles)), [f"k = {k}" for k in particles])
    title = "keywords" if name == "keywords" else "function calls in JSON"
    axes.set_title(
        f"A step: {title}, S = {measured['states']}, E = {measured['edges']:,}",
        fontsize=POINTS + 1.5,
        color=INK,
    )
    axes.set_ylabel("CPU ms", fontsize=POINTS)
    axes.legend(fontsize=POINTS - 2, frameon=False, ncols=2, loc="upper left")
    _frame(axes)


def _growth(axes: Axes, name: str, measured: dict[str, Any]) -> None:
    for what, label, colour in (("backward", "backward", ORANGE), ("next", "step", BLUE)):
        one = measured[what]
        text = f"{label}: exponent {one['exponent']:.2f}"
        axes.plot(measured["sizes"], one["cpu_ms"], "o-", color=colour, label=text, markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 6)
    axes.set_xticks(measured["sizes"], [f"{size:,}" for size in measured["sizes"]])
    axes.minorticks_off()
    axes.set_xlabel(NAMES[name], fontsize=POINTS)
    axes.set_ylabel("CPU ms", fontsize=POINTS)
    axes.legend(fontsize=POINTS - 2, frameon=False, loc="upper left")
    _frame(axes)


def _frame(axes: Axes) -> None:
    axes.tick_params(labelsize=POINTS - 1)
    axes.grid(alpha=0.25, linewidth=0.6, axis="y")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _caption(results: dict[str, Any]) -> str:
    facts, base = results["machine"], results["growth"]["base"]
    backward = ", ".join(
        f"{one['backward']['ours']['cpu_ms'] / 1e3:.2g} s against "
        f"{one['backward']['printed']['cpu_ms'] / 1e3:.2g} s as printed ({name})"
        for name, one in results["constraints"].items()
    )
    return (
        f"Above: H = {results['sizes']['hidden']:,}, tokens: {results['vocabulary']}; printed, "
        f"k = 16 is k = 4 times four.\nBackward pass for n = {results['sizes']['length']}: "
        f"{backward}.\n"
        f"Below: one size grows, the others are H = {base['hidden']}, S = {base['states']}, "
        f"n = {base['length']}, k = {base['particles']}; V = {results['growth']['vocab']:,}.\n"
        f"{results['command']}\n"
        f"{facts['threads']} thread, {facts['processor']}, {facts['memory_gb']:g} GB, "
        f"load {facts['load_average']}, Python {facts['python']}, "
        f"torch {results['versions']['torch']}"
    )

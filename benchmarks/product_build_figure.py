"""The figure of product_build.py."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pcgcd.viz.style import BLUE, INK, ORANGE

POINTS = 9


def figure(results: dict[str, Any]) -> Figure:
    """Build time, time of one string and its memory, over the number of units H x E."""
    picture = Figure(figsize=(10.6, 4.3))
    panels = picture.subplots(1, 3)
    picture.subplots_adjust(left=0.065, right=0.985, top=0.84, bottom=0.29, wspace=0.27)
    rows = results["growing"]
    for axes, title, query, read in (
        (panels[0], "Building the product", "build", _cpu),
        (panels[1], "Value of one string", "value", _cpu),
        (panels[2], "Value of one string: extra memory", "value", _memory),
    ):
        ours = [(_units(row), read(row["pcgcd"], query)) for row in rows]
        axes.plot(*zip(*ours), "o-", color=BLUE, label="pcgcd", markersize=4.5)
        if all("cirkit" in row for row in rows):
            for marker, index in (("s-", 0), ("^--", 1)):
                peer = [(_units(row), read(row["cirkit"][index], query)) for row in rows]
                name = f"cirkit, {rows[0]['cirkit'][index]['configuration']}"
                axes.plot(*zip(*peer), marker, color=ORANGE, label=name, markersize=4.5)
        _frame(axes, title, "peak MB" if read is _memory else "CPU ms, median")
    handles, names = panels[0].get_legend_handles_labels()
    picture.legend(
        handles, names, loc="upper center", ncols=len(names), frameon=False, fontsize=POINTS
    )
    _add_claim(panels[0], results)
    picture.text(0.012, 0.025, _caption(results), size=POINTS - 1.5, color=INK, va="bottom")
    return picture


def _units(row: dict[str, Any]) -> int:
    return int(row["size"]["hidden"] * row["size"]["edges"])


def _cpu(measured: dict[str, Any], query: str) -> float:
    return float(measured[query]["cpu_ms"]["median"])


def _memory(measured: dict[str, Any], query: str) -> float:
    return max(0.1, float(measured[f"{query}_memory"]["peak_mb"]))


def _frame(axes: Axes, title: str, label: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, fontsize=POINTS + 1.5, color=INK)
    axes.set_xlabel("hidden units H × E", fontsize=POINTS)
    axes.set_ylabel(label, fontsize=POINTS)
    axes.tick_params(labelsize=POINTS - 1)
    axes.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _add_claim(axes: Axes, results: dict[str, Any]) -> None:
    claim = results["claim"][0]
    size = claim["size"]
    x, y = _units(claim), _cpu(claim, "build")
    axes.plot([x], [y], "*", color=BLUE, markersize=11, linestyle="none")
    axes.axhline(results["limits"]["ms"], color=INK, linewidth=0.8, linestyle=":")
    note = f"H = {size['hidden']:,}\nV = {size['vocab']:,}\nE = {size['edges']:,}"
    for text, height, offset, alignment in (
        (note, y, 8, "bottom"),
        (f"limit: {results['limits']['ms']:g} ms", results["limits"]["ms"], -3, "top"),
    ):
        axes.annotate(
            text,
            (1.6 * x, height),
            xytext=(0, offset),
            textcoords="offset points",
            ha="right",
            va=alignment,
            fontsize=POINTS - 1.5,
            linespacing=1.25,
        )


def _caption(results: dict[str, Any]) -> str:
    sizes = [row["size"] for row in results["growing"]]
    first, last = sizes[0], sizes[-1]
    facts = results["machine"]
    claim = results["claim"][0]
    names = (("length", "n"), ("hidden", "H"), ("vocab", "V"), ("edges", "E"))
    grown = ", ".join(f"{short} = {first[key]:,} to {last[key]:,}" for key, short in names)
    return (
        f"The sizes grow together: {grown}. Star: {claim['build_memory']['peak_mb']:.1f} MB at its "
        f"peak beyond the operands, {claim['new_tensors_mb']:.1f} MB of new tensors.\n"
        f"{results['peer']}. Each point is the fastest of a few fresh processes.\n"
        f"{results['command']}\n"
        f"{facts['threads']} thread, {facts['processor']}, {facts['memory_gb']:g} GB, "
        f"Python {facts['python']}, torch {results['versions']['torch']}"
    )

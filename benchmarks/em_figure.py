"""The figure of em.py."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from pcgcd.viz.style import BLUE, INK, ORANGE

POINTS = 8.5
COLOURS = {"hmmlearn, scaling": ORANGE, "hmmlearn, log": "#f2b279", "dynamax": "#7a8793"}


def figure(results: dict[str, Any]) -> Figure:
    """CPU time of one epoch of each library, size by size, and an epoch against its limit."""
    rows = results["compared"]
    peers = list(rows[0]["ratios"])
    picture = Figure(figsize=(8.6, 4.3))
    panels = picture.subplots(1, 2, gridspec_kw={"width_ratios": [3.4, 1]})
    picture.subplots_adjust(left=0.08, right=0.985, top=0.86, bottom=0.3, wspace=0.24)
    width = 0.8 / (len(peers) + 1)
    axes = panels[0]
    for place, name in enumerate(["pcgcd", *peers]):
        heights = [min(row[name]["cpu_ms"]) for row in rows]
        at = [index + (place - len(peers) / 2) * width for index in range(len(rows))]
        axes.bar(at, heights, width, color=COLOURS.get(name, BLUE), label=name)
        if name != "pcgcd":
            for x, height, row in zip(at, heights, rows):
                axes.annotate(
                    f"{row['ratios'][name]:.0f}×",
                    (x, height),
                    xytext=(0, 1),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=POINTS - 2,
                )
    axes.set_yscale("log")
    axes.set_ylabel("CPU ms of one epoch", fontsize=POINTS)
    labels = [f"H = {row['size']['hidden']:,}\nV = {row['size']['vocab']:,}" for row in rows]
    axes.set_xticks(range(len(rows)), labels)
    axes.legend(frameon=False, fontsize=POINTS, ncols=len(peers) + 1, loc="lower left",
                bbox_to_anchor=(0, 1.0))  # fmt: skip
    limit = results["limit"]
    bars = panels[1].bar(
        ["products\nalone", "an epoch"],
        [limit["limit_ms"], min(limit["pcgcd"]["cpu_ms"])],
        0.6,
        color=["#c9ced4", BLUE],
    )
    panels[1].bar_label(bars, fmt="{:,.0f}", fontsize=POINTS - 1)
    panels[1].set_title(f"H = {limit['size']['hidden']:,}", fontsize=POINTS + 1, color=INK)
    for panel in panels:
        panel.tick_params(labelsize=POINTS - 1)
        panel.grid(axis="y", alpha=0.25, linewidth=0.6)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    picture.text(0.012, 0.025, _caption(results), size=POINTS - 1.5, color=INK, va="bottom")
    return picture


def _caption(results: dict[str, Any]) -> str:
    facts, versions = results["machine"], results["versions"]
    size = results["compared"][0]["size"]
    names = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
    limit = results["limit"]
    fewer = [
        f"{row['dynamax']['sequences']} at "
        f"H = {row['size']['hidden']}, V = {row['size']['vocab']:,}"
        for row in results["compared"]
        if "dynamax" in row and row["dynamax"]["sequences"] < row["size"]["sequences"]
    ]
    note = f"dynamax on fewer sequences, scaled to all: {'; '.join(fewer)}.\n" if fewer else ""
    return (
        f"{size['sequences']} sequences of {size['length']} tokens (right: "
        f"{limit['size']['sequences']}). The fastest of {limit['pcgcd']['epochs']} epochs; "
        f"figures above bars: times pcgcd.\n{note}{results['command']}\n"
        f"{facts['threads']} thread, {facts['processor']}, {facts['memory_gb']:g} GB, load "
        f"{facts['load_average']:g}, Python {facts['python']}\n{names}"
    )

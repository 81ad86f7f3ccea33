"""The figure of decoding.py."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pcgcd.viz.style import BLUE, INK, ORANGE

POINTS = 9
GREY = "#9a9a9a"
TITLES = {"unconstrained": "unconstrained", "lcd": "LCD", "gcd": "GCD", "pgcd": "P-GCD"}
PEERS = {"unconstrained": "genlm: plain", "awrs": "genlm: AWRS", "product": "genlm: exact"}
SCENES = {"function_call": "function call", "keywords": "keywords"}


def figure(results: dict[str, Any]) -> Figure:
    """A step without the language model on the left, with it on the right."""
    picture = Figure(figsize=(10.6, 4.6))
    picture.subplots_adjust(left=0.07, right=0.985, top=0.9, bottom=0.3, wspace=0.2)
    left, right = picture.subplots(1, 2)
    _own(left, results)
    if "missing" in results["model"]:
        right.text(0.5, 0.5, "the default model was not there", ha="center", color=INK)
        right.set_axis_off()
    else:
        _model(right, results)
    picture.text(0.012, 0.02, _caption(results), size=POINTS - 1.5, color=INK, va="bottom")
    return picture


def _own(axes: Axes, results: dict[str, Any]) -> None:
    ours = {
        TITLES[name]: one["own_cpu_ms"]["best"] for name, one in results["own"]["methods"].items()
    }
    peers = {
        PEERS[name]: one["cpu_ms"] for name, one in results["genlm"].get("samplers", {}).items()
    }
    values = [*ours.values(), *peers.values()]
    bars = axes.bar(
        range(len(values)), values, 0.7, color=[BLUE] * len(ours) + [ORANGE] * len(peers)
    )
    axes.bar_label(bars, [_short(value) for value in values], fontsize=POINTS - 1, padding=1)
    axes.axhline(results["goals"]["gcd_own_ms"], color=GREY, linewidth=0.8, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(0.5, 4 * max(values))
    axes.set_xticks(
        range(len(values)), [name.replace(": ", ":\n") for name in [*ours, *peers]], rotation=30
    )
    axes.set_title("A step of SMC without the language model", fontsize=POINTS + 1.5, color=INK)
    axes.set_ylabel("CPU ms", fontsize=POINTS)
    _frame(axes)


def _model(axes: Axes, results: dict[str, Any]) -> None:
    names, place = [], 0.0
    for scene, title in SCENES.items():
        one = results["model"][scene]
        model = one["methods"]["unconstrained"]["most_rows"]["model_cpu_ms"]
        for name, measured in one["methods"].items():
            own = measured["most_rows"]["own_cpu_ms"]
            axes.bar(place, model, 0.7, color=GREY, label=None if names else "language model")
            bars = axes.bar(
                place, own, 0.7, model, color=BLUE, label=None if names else "everything else"
            )
            text = f"{one['ratios'][name]['equal_rows']:.2f} x"
            axes.bar_label(bars, [text], fontsize=POINTS - 1, padding=1)
            names.append((place, f"{TITLES[name]}\n{title}"))
            place += 1
        place += 0.5
    axes.set_xticks([at for at, _ in names], [name for _, name in names], rotation=30)
    axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    axes.set_title("A step with the default model, equal rows", fontsize=POINTS + 1.5, color=INK)
    axes.set_ylabel("CPU ms", fontsize=POINTS)
    axes.legend(fontsize=POINTS - 1, frameon=False, ncols=2, loc="upper left")
    _frame(axes)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _frame(axes: Axes) -> None:
    axes.tick_params(labelsize=POINTS - 1.5)
    axes.grid(alpha=0.25, linewidth=0.6, axis="y")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _caption(results: dict[str, Any]) -> str:
    facts = results["machine"]
    genlm = results["genlm"].get("version")
    return (
        f"k = {results['particles']}, H = {results['hidden']:,}, "
        f"tokens of {results['vocabulary']}. "
        "Left: a JSON object with three fields, a stand-in for the model; dashed: the goal for GCD"
        + (f"; genlm-control {genlm}.\n" if genlm else ".\n")
        + "Right: SmolLM2-135M in float32; the model's time is that of unconstrained generation.\n"
        f"{results['command']}\n"
        f"{facts['threads']} thread, {facts['processor']}, {facts['memory_gb']:g} GB, "
        f"load {facts['load_average']}, Python {facts['python']}, "
        f"torch {results['versions']['torch']}"
    )

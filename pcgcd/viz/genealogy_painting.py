"""Putting a laid-out genealogy into axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Circle, Rectangle
from matplotlib.transforms import Bbox

from pcgcd.decoding import Genealogy
from pcgcd.viz.curves import Points, flowing_line
from pcgcd.viz.placing import rounded_box, show_box
from pcgcd.viz.style import BLUE, FAINT, GREY, INK, ORANGE, text_size, write

LABEL_POINTS = 8.0
# All in inches.
CHIP_HEIGHT = 0.2
BAR = 0.75
_EXTINCT = "#c3c8ce"
_WEIGHT_COLOURS = LinearSegmentedColormap.from_list("weight", ["#ffffff", "#9cc0e3", BLUE])


@dataclass(frozen=True)
class Drawing:
    """A genealogy with all its coordinates."""

    genealogy: Genealogy
    labels: list[list[str]] | None  # by step and particle; None: dots
    columns: list[float]  # the middle of each step
    widths: list[float]
    rows: list[list[float]]  # the height of each particle at each step, the end last
    pitch: float
    end: float  # where the bars of the final weights start
    box: Bbox


def _shares(log_weights: Sequence[float]) -> list[float]:
    top = max(log_weights)
    if top == -math.inf:
        return [0.0] * len(log_weights)
    raw = [math.exp(value - top) for value in log_weights]
    total = sum(raw)
    return [value / total for value in raw]


def paint(axes: Axes, drawing: Drawing) -> None:
    """Put everything into the axes, with lines and letters scaled like the rest."""
    scale = show_box(axes, drawing.box)
    _paint_lines(axes, drawing, scale)
    _paint_resampling(axes, drawing, scale)
    most = max(max(_shares(move.log_weights)) for move in drawing.genealogy.moves) or 1.0
    for step, move in enumerate(drawing.genealogy.moves):
        for particle, share in enumerate(_shares(move.log_weights)):
            if move.tokens[particle] is not None:
                _paint_particle(axes, drawing, step, particle, share / most, scale)
    _paint_bars(axes, drawing, scale)


def _paint_lines(axes: Axes, drawing: Drawing, scale: float) -> None:
    """From each particle to its heirs: those that died out, those that ended, those that live."""
    genealogy = drawing.genealogy
    extinct: list[Points] = []
    ended: list[Points] = []
    living: list[Points] = []
    for step, move in enumerate(genealogy.moves):
        start, stop = _between(drawing, step)
        following = genealogy.moves[step + 1] if step + 1 < genealogy.num_steps else None
        for heir, parent in enumerate(move.parents):
            y = drawing.rows[step + 1][heir]
            line = flowing_line((start, drawing.rows[step][parent]), (stop, y))
            waits = following is not None and following.tokens[heir] is None
            if waits:  # no token hides the gap
                line = np.concatenate([line, [(stop + drawing.widths[step + 1], y)]])
            if following is not None and heir not in genealogy.survivors[step + 1]:
                extinct.append(line)
            elif waits or move.tokens[parent] is None:
                ended.append(line)
            else:
                living.append(line)
    thin = 0.6 if drawing.labels is None and drawing.pitch < 0.12 else 1.0
    for lines, colour, width, gid in (
        (extinct, _EXTINCT, 0.8, "extinct"),
        (ended, INK, 0.45, "ended"),
        (living, INK, 1.25, "living"),
    ):
        found = LineCollection(lines, colors=colour, linewidths=width * thin * scale)
        found.set_gid(gid)
        axes.add_collection(found, autolim=False)


def _between(drawing: Drawing, step: int) -> tuple[float, float]:
    """Where the lines after a step start and where they end."""
    start = drawing.columns[step] + drawing.widths[step] / 2
    if step + 1 == drawing.genealogy.num_steps:
        return start, drawing.end
    return start, drawing.columns[step + 1] - drawing.widths[step + 1] / 2


def _paint_resampling(axes: Axes, drawing: Drawing, scale: float) -> None:
    count = drawing.genealogy.num_particles
    for step, move in enumerate(drawing.genealogy.moves):
        if move.ancestors is None:
            continue
        axes.plot(
            [sum(_between(drawing, step)) / 2] * 2,
            [0.62 * drawing.pitch, -drawing.pitch * (count - 1 + 0.62)],
            color=ORANGE,
            linewidth=1.1 * scale,
            linestyle=(0, (1, 1.6)),
            zorder=1.5,
            gid=f"resampled-{step}",
        )


def _paint_particle(
    axes: Axes, drawing: Drawing, step: int, particle: int, strength: float, scale: float
) -> None:
    """A chip with the token, or a dot; ``strength`` is 1 for the largest share of all."""
    x, y = drawing.columns[step], drawing.rows[step][particle]
    is_living = particle in drawing.genealogy.survivors[step]
    dead = drawing.genealogy.moves[step].log_weights[particle] == -math.inf
    gid = f"particle-{step}-{particle}"
    if drawing.labels is None:
        radius = 0.48 * drawing.pitch * math.sqrt(max(strength, 0.02))
        face = "white" if dead else BLUE if is_living else "#aab3bd"
        axes.add_patch(Circle((x, y), radius, facecolor=face, edgecolor="none", zorder=3, gid=gid))
        return
    width = drawing.widths[step]
    edge, line = (INK, 0.9 * scale) if is_living else (FAINT, 0.6 * scale)
    chip = rounded_box(x, y, width, CHIP_HEIGHT, pad=0.05, edgecolor=edge, linewidth=line)
    chip.set(facecolor=_WEIGHT_COLOURS(strength), linestyle="--" if dead else "-", gid=gid)
    axes.add_patch(chip)
    text, points, gid = (
        drawing.labels[step][particle],
        LABEL_POINTS * scale,
        f"token-{step}-{particle}",
    )
    colour = "white" if strength > 0.62 else INK
    write(axes, x, y, text, points, colour=colour, va="center_baseline", zorder=4, gid=gid)


def _paint_bars(axes: Axes, drawing: Drawing, scale: float) -> None:
    """The final weights."""
    shares = _shares(drawing.genealogy.log_weights())
    most = max(shares) or 1.0
    high = min(0.13, 0.6 * drawing.pitch)
    for particle, share in enumerate(shares):
        y, wide = drawing.rows[-1][particle], BAR * share / most
        bar = Rectangle((drawing.end, y - high / 2), max(wide, 0.01), high, facecolor=BLUE)
        bar.set(linewidth=0, zorder=3, gid=f"weight-{particle}")
        axes.add_patch(bar)
        if drawing.pitch >= 0.14:
            text, points, gid = (
                f"{100 * share:.0f} %",
                (LABEL_POINTS - 1) * scale,
                f"share-{particle}",
            )
            write(axes, drawing.end + wide + 0.05, y, text, points, ha="left", gid=gid)


def paint_key(axes: Axes, drawing: Drawing) -> None:
    """The numbers of the steps, and what the lines mean."""
    axes.set(xlim=(0.0, drawing.box.width), ylim=(0.0, 0.62), gid="key")
    axes.set_axis_off()
    steps = drawing.genealogy.num_steps
    every = next((n for n in (1, 2, 5, 10, 20, 50, 100) if steps / n <= 24), 200)
    if drawing.labels is not None:
        every = 1
    for step in range(steps):
        if step == 0 or (step + 1) % every == 0:
            write(axes, drawing.columns[step], 0.54, str(step + 1), 8)
    write(axes, drawing.end, 0.54, "final weight", 8, ha="left")
    x = 0.14
    for text, colour, line_width, style in (
        ("leads to a final text", INK, 1.25, "-"),
        ("has ended", INK, 0.5, "-"),
        ("died out", _EXTINCT, 1.0, "-"),
        ("resampled", ORANGE, 1.1, (0, (1, 1.6))),
    ):
        axes.plot([x, x + 0.24], [0.2, 0.2], color=colour, linewidth=line_width, linestyle=style)
        write(axes, x + 0.3, 0.2, text, 8, ha="left")
        x += 0.48 + text_size(text, 8.0)[0]
    if drawing.labels is None:
        axes.add_patch(Circle((x + 0.08, 0.2), 0.06, facecolor=BLUE, edgecolor="none"))
        write(axes, x + 0.22, 0.2, "size: weight", 8, ha="left")
    else:
        for number in range(24):
            shade = _WEIGHT_COLOURS(number / 23)
            place = (x + 0.02 * number, 0.14)
            axes.add_patch(Rectangle(place, 0.021, 0.12, color=shade, linewidth=0))
        axes.add_patch(Rectangle((x, 0.14), 0.48, 0.12, fill=False, edgecolor=GREY, linewidth=0.6))
        write(axes, x + 0.55, 0.2, "weight", 8, ha="left")

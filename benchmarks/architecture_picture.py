"""The parts of the library and what flows between them, from a constraint to weighted texts."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from pcgcd.viz.style import BLUE, INK, ORANGE

__all__ = ["figure_architecture"]

_GREEN, _SLATE = "#0e8a6d", "#5b6470"
_FILLS = {BLUE: "#dbe8f5", ORANGE: "#fdebd8", _GREEN: "#dff1ec", _SLATE: "#eceef0", INK: "#ffffff"}
_WIDTH, _HEIGHT = 10.0, 8.0


@dataclass(frozen=True)
class _Part:
    """A box: its middle and size in inches, and its lines."""

    x: float
    y: float
    width: float
    colour: str
    title: str
    detail: str = ""
    module: str = ""
    height: float = 0.74

    @property
    def top(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x, self.y - self.height / 2

    @property
    def left(self) -> tuple[float, float]:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y


def figure_architecture() -> Figure:
    """Boxes with the modules that hold them, arrows for what flows."""
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, _WIDTH)
    axes.set_ylim(0.0, _HEIGHT)
    axes.set_axis_off()
    text = _Part(
        2.6,
        7.5,
        3.5,
        BLUE,
        "text constraint",
        "regex, JSON schema, tools, SQL, keywords, grammar",
        "pcgcd.constraints",
    )
    bytewise = _Part(
        2.6, 6.4, 3.5, BLUE, "byte automaton", "states, sets of bytes", "pcgcd.automata"
    )
    tokenwise = _Part(
        2.6, 5.3, 3.5, BLUE, "token automaton", "every way to spell the text", "pcgcd.automata"
    )
    samples = _Part(6.9, 7.5, 2.9, ORANGE, "samples", "of the language model", "pcgcd.learning")
    fitting = _Part(
        6.9, 6.4, 2.9, ORANGE, "distillation", "expectation maximisation", "pcgcd.learning"
    )
    hmm = _Part(6.9, 5.3, 2.9, ORANGE, "HMM", "dense, Monarch, a mixture ...", "pcgcd.hmm")
    product = _Part(
        4.85, 4.1, 3.4, INK, "hmm * fa", "circuit product: lazy, factored", "pcgcd.circuits"
    )
    queries = _Part(
        4.85,
        3.0,
        5.9,
        _GREEN,
        "queries",
        "partition, prefix state, next token, sample, best path",
        "pcgcd.circuits.queries, pcgcd.engine",
    )
    masks = _Part(2.05, 1.85, 2.2, _GREEN, "masks", "LCD, GCD")
    proposals = _Part(4.85, 1.85, 2.6, _GREEN, "proposals", "LCD, GCD, P-GCD, twisted")
    potentials = _Part(7.3, 1.85, 1.9, _GREEN, "potentials", "prefix, look-ahead")
    smc = _Part(
        4.85,
        0.72,
        3.9,
        _GREEN,
        "sequential Monte Carlo",
        "propose, weigh, resample",
        "pcgcd.decoding",
    )
    model = _Part(8.65, 0.72, 2.2, _SLATE, "language model", "transformers, GGUF", "pcgcd.lm")
    result = _Part(1.35, 0.72, 2.2, _SLATE, "weighted texts", "log-evidence", "pcgcd.Generation")
    for part in (
        text,
        bytewise,
        tokenwise,
        samples,
        fitting,
        hmm,
        product,
        queries,
        masks,
        proposals,
        potentials,
        smc,
        model,
        result,
    ):
        _box(axes, part)
    _arrow(axes, text.bottom, bytewise.top, "compile")
    _arrow(axes, bytewise.bottom, tokenwise.top, "lift over the vocabulary")
    _arrow(axes, samples.bottom, fitting.top)
    _arrow(axes, fitting.bottom, hmm.top)
    for above, shift in ((tokenwise, -0.8), (hmm, 0.8)):
        _arrow(axes, above.bottom, (product.x + shift, product.top[1]))
    _arrow(axes, product.bottom, queries.top)
    _arrow(axes, (masks.x + 0.7, queries.bottom[1]), (masks.x + 0.7, masks.top[1]))
    _arrow(axes, queries.bottom, proposals.top)
    _arrow(axes, (potentials.x, queries.bottom[1]), potentials.top)
    _arrow(axes, masks.right, proposals.left)
    _arrow(axes, proposals.bottom, smc.top)
    _arrow(axes, (potentials.x - 0.4, potentials.bottom[1]), (smc.x + 1.5, smc.top[1]))
    _arrow(axes, (model.left[0], 0.82), (smc.right[0], 0.82))
    _arrow(axes, (smc.right[0], 0.62), (model.left[0], 0.62))
    _arrow(axes, smc.left, result.right)
    _way(axes, [(0.85, 5.3), (0.5, 5.3), (0.5, 1.85), masks.left], "GCD needs no HMM")
    _way(axes, [model.top, (8.65, 7.5), samples.right])
    return figure


def _box(axes: Axes, part: _Part) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (part.x - part.width / 2 + 0.08, part.y - part.height / 2 + 0.08),
            part.width - 0.16,
            part.height - 0.16,
            boxstyle="round,pad=0.08",
            facecolor=_FILLS[part.colour],
            edgecolor=part.colour,
            linewidth=1.2,
            zorder=2,
        )
    )
    is_code = part.title == "hmm * fa"
    lines = [
        (part.title, 11.5, INK, "monospace" if is_code else "sans-serif", "bold"),
        (part.detail, 8.5, INK, "sans-serif", "normal"),
        (part.module, 7.5, _SLATE, "monospace", "normal"),
    ]
    shown = [line for line in lines if line[0]]
    heights = {3: (0.2, -0.03, -0.23), 2: (0.11, -0.14), 1: (0.0,)}[len(shown)]
    for (words, size, colour, family, weight), shift in zip(shown, heights, strict=True):
        axes.text(
            part.x,
            part.y + shift,
            words,
            ha="center",
            va="center",
            fontsize=size,
            color=colour,
            family=family,
            weight=weight,
            zorder=3,
        )


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], words: str = ""
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=INK,
            linewidth=1.1,
            shrinkA=1,
            shrinkB=1,
            zorder=1,
        )
    )
    if words:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        axes.text(x + 0.1, y, words, va="center", fontsize=8, color=_SLATE)


def _way(axes: Axes, points: list[tuple[float, float]], words: str = "") -> None:
    """A line with corners whose last part is an arrow."""
    axes.plot(*zip(*points[:-1]), color=INK, linewidth=1.1, zorder=1, solid_joinstyle="round")
    _arrow(axes, points[-2], points[-1])
    if words:
        (x, y), (_, lower) = points[1], points[2]
        axes.text(
            x - 0.08,
            (y + lower) / 2,
            words,
            rotation=90,
            ha="right",
            va="center",
            fontsize=8,
            color=_SLATE,
        )

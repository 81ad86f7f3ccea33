"""Particles over time: who descends from whom, what each one drew, and how much it weighs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from pcgcd.decoding import Genealogy
from pcgcd.errors import InvalidParameterError
from pcgcd.viz.genealogy_painting import BAR, CHIP_HEIGHT, LABEL_POINTS, Drawing, paint, paint_key
from pcgcd.viz.style import (
    axes_at,
    checked_names,
    names_from,
    shortened,
    text_size,
    token_text,
    write_title,
)

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary
    from pcgcd.decoding import Generation

_MAX_PARTICLES = 200
_MAX_STEPS = 1000
_MAX_LABELS = 400
_MAX_LABELLED_STEPS = 40
_NAME_LENGTH = 10
# All in inches.
_CHIP_ROW = 0.29
_CHIP_GAP = 0.3
_CHIP_PAD = 0.09
_ROOM = (8.6, 4.2)  # for a picture without labels


def figure_genealogy(
    result: Generation | Genealogy,
    *,
    vocabulary: Vocabulary | None = None,
    token_names: Sequence[str] | None = None,
    labels: bool | None = None,
    title: str | None = None,
) -> Figure:
    """Each column is a token, each row a particle, each line leads from an ancestor to its heir.

    Dark lines lead to texts of the end; grey ones died out. The colour of a token, or the size of
    a dot, is the particle's share of the weight before resampling; dotted orange lines mark where
    it was resampled; the bars on the right are the final weights. Particles are ordered so that
    no two lines cross.

    Args:
        result: What ``generate`` returned, or its ``genealogy``.
        vocabulary: Spells the tokens; otherwise they are numbers.
        token_names: The same as a list, one for each token.
        labels: Whether tokens are written; by default where there are few enough to be read.
        title: Written above.

    >>> from pcgcd.decoding import Move
    >>> run = Genealogy((Move((0, 1), (-1.0, -2.0), (0, 0)), Move((1, 0), (0.0, -0.5), None)))
    >>> figure = figure_genealogy(run, token_names=["a", "b"])
    >>> sum(str(text.get_gid()).startswith("token") for text in figure.axes[0].texts)
    4
    """
    drawing = _drawing(result, vocabulary, token_names, labels)
    above, below = (0.34 if title else 0.04), 0.62
    width, height = drawing.box.size
    figure = Figure(figsize=(width, height + above + below))
    paint(axes_at(figure, 0.0, below, width, height), drawing)
    write_title(figure, 0.12, title)
    paint_key(axes_at(figure, 0.0, 0.0, width, below), drawing)
    return figure


def draw_genealogy(
    axes: Axes,
    result: Generation | Genealogy,
    *,
    vocabulary: Vocabulary | None = None,
    token_names: Sequence[str] | None = None,
    labels: bool | None = None,
) -> None:
    """Draw into given axes, scaled down to fit, without a key; see :func:`figure_genealogy`."""
    paint(axes, _drawing(result, vocabulary, token_names, labels))


# -- coordinates ------------------------------------------------------------------------------


def _checked(result: Generation | Genealogy) -> Genealogy:
    """The genealogy without steps at the end in which other tasks went on alone."""
    whole = result if isinstance(result, Genealogy) else result.genealogy
    moves = list(whole.moves)
    while moves and moves[-1].ancestors is None and set(moves[-1].tokens) == {None}:
        moves.pop()
    if not moves:
        raise InvalidParameterError(
            "there is no genealogy to draw: the result has no steps, as those of rejection "
            "sampling; use another method"
        )
    genealogy = Genealogy(tuple(moves))
    if genealogy.num_particles > _MAX_PARTICLES or genealogy.num_steps > _MAX_STEPS:
        raise InvalidParameterError(
            f"{genealogy.num_particles} particles over {genealogy.num_steps} steps are too many to "
            f"draw (the limit is {_MAX_PARTICLES} particles and {_MAX_STEPS} steps); draw a "
            "smaller run"
        )
    return genealogy


def _drawing(
    result: Generation | Genealogy,
    vocabulary: Vocabulary | None,
    token_names: Sequence[str] | None,
    labels: bool | None,
) -> Drawing:
    genealogy = _checked(result)
    steps, count = genealogy.num_steps, genealogy.num_particles
    names = names_from(vocabulary, token_names)
    if labels is None:
        labels = steps * count <= _MAX_LABELS and steps <= _MAX_LABELLED_STEPS
    texts = _texts(genealogy, names) if labels else None
    if texts is None:
        pitch = min(0.26, _ROOM[1] / count)
        step = min(0.3, _ROOM[0] / steps)
        widths = [0.0] * steps
        columns = [0.2 + step * (t + 1) for t in range(steps)]
    else:
        pitch = _CHIP_ROW
        widths = [_column_width(column) for column in texts]
        columns, x = [], 0.12
        for width in widths:
            columns.append(x + width / 2)
            x += width + _CHIP_GAP
    rows = [[-pitch * place for place in places] for places in _untangled(genealogy)]
    end = columns[-1] + widths[-1] / 2 + _CHIP_GAP
    margin = 0.75 * pitch + 0.02
    box = Bbox.from_extents(0.0, -pitch * (count - 1) - margin, end + BAR + 0.45, margin)
    return Drawing(genealogy, texts, columns, widths, rows, pitch, end, box)


def _column_width(texts: list[str]) -> float:
    widest = max(text_size(text, LABEL_POINTS)[0] if text else 0.0 for text in texts)
    return max(2 * _CHIP_PAD + widest, 1.2 * CHIP_HEIGHT)


def _texts(genealogy: Genealogy, names: Sequence[str] | None) -> list[list[str]]:
    """What each particle drew at each step; nothing where it drew nothing."""
    drawn = [token for move in genealogy.moves for token in move.tokens if token is not None]
    largest = max(drawn, default=-1)
    if names is not None and len(names) <= largest:
        checked_names(names, largest + 1, "tokens")

    def text(token: int | None) -> str:
        if token is None:
            return ""
        name = str(token) if names is None else names[token]
        return token_text(shortened(name, _NAME_LENGTH))

    return [[text(token) for token in move.tokens] for move in genealogy.moves]


def _untangled(genealogy: Genealogy) -> list[list[int]]:
    """The row of each particle at each step and at the end: heirs in the order of ancestors."""
    rows = [list(range(genealogy.num_particles))]
    for move in genealogy.moves:
        above, parents = rows[-1], move.parents
        order = sorted(range(len(parents)), key=lambda i: (above[parents[i]], i))
        rows.append(sorted(range(len(order)), key=order.__getitem__))
    return rows

"""What the pictures share: colours, and how tokens, states and edges are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath

from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary

# The colours of the paper's Figure 1.
GREY = "#e2e4e7"
ORANGE = "#e67e22"
BLUE = "#2b67a6"
INK = "#2b2f36"
FAINT = "#8d99a6"

# Told apart by people who see no red or no green, and in shades of grey together with the markers.
PALETTE = (BLUE, ORANGE, "#0e8a6d", "#b5539c", "#5b6470", "#56b4e9", "#8a4b08", "#c9b400")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_METHODS = {
    "unconstrained": FAINT,
    "rejection": "#b5539c",
    "lcd": ORANGE,
    "gcd": "#0e8a6d",
    "pgcd": BLUE,
}

_VISIBLE = {" ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r", "": "ε"}
_POINTS_PER_INCH = 72.0


def state_text(state: int) -> str:
    """``s_3`` in italics."""
    return f"$s_{{{state}}}$"


def edge_text(edge: int) -> str:
    """``e_3`` in italics."""
    return f"$e_{{{edge}}}$"


def token_text(name: str) -> str:
    """Return a token as it can be printed: white space made visible, no mathematics.

    >>> token_text("a b")
    'a␣b'
    """
    shown = _VISIBLE.get(name) or "".join(_VISIBLE.get(character, character) for character in name)
    return shown.replace("$", r"\$")


def set_text(
    tokens: Sequence[int], names: Sequence[str] | None, shown: int = 2, width: int = 28
) -> str:
    """Return a set of tokens: a few of the shortest and the count where it is long.

    Args:
        tokens: The tokens.
        names: What each token spells; numbers without it.
        shown: How many tokens of a long set are written.
        width: The most characters of the text; at least two of each token are written.

    >>> set_text([4], None), set_text([0, 1, 2], None), set_text(range(1200), None)
    ('4', '{0, 1, 2}', '{0, 1, …} (1,200)')
    >>> set_text([0, 1], ["{", '{"'])
    '{ | {"'
    """
    if len(tokens) <= shown + 1:
        chosen, hidden = list(tokens), 0
    else:
        order = tokens if names is None else sorted(tokens, key=lambda token: len(names[token]))
        chosen, hidden = list(order[:shown]), len(tokens) - shown
    written = [str(token) if names is None else names[token] for token in chosen]
    count = f" ({len(tokens):,})" if hidden else ""
    parts = len(chosen) + bool(hidden)
    room = max(2, (width - len(count) - 3 * parts) // max(1, len(chosen)))
    texts = [token_text(shortened(name, room)) for name in written]
    if len(tokens) == 1:
        return texts[0]
    members = [*texts, "…"] if hidden else texts
    # Braces and commas around tokens that have some themselves would only confuse.
    if any(set(name) & set("{},") for name in written):
        return " | ".join(members) + count
    return "{" + ", ".join(members) + "}" + count


def shortened(text: str, length: int) -> str:
    """Return a text of at most a length, its end left out where it is longer.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def token_names(vocabulary: Vocabulary) -> list[str]:
    r"""What each column of the logits spells; bytes that are no UTF-8 alone as their numbers.

    >>> from pcgcd.automata import Vocabulary
    >>> token_names(Vocabulary.from_bytes([b" a", bytes([0xC3]), None, None], eos_ids=3))
    [' a', '\\xc3', '<2>', 'EOS']
    """
    names = [f"<{token}>" for token in range(vocabulary.logits_size)]
    for token, data in enumerate(vocabulary.token_bytes):
        if data is not None:
            names[token] = data.decode("utf-8", "backslashreplace")
    for token in vocabulary.eos_ids:
        names[token] = "EOS"
    return names


def names_from(vocabulary: Vocabulary | None, names: Sequence[str] | None) -> Sequence[str] | None:
    """Return the names that were given, or those that a vocabulary spells."""
    if vocabulary is None:
        return names
    if names is not None:
        raise InvalidParameterError("give vocabulary= or token_names=, not both")
    return token_names(vocabulary)


def colours_of(names: Sequence[str]) -> list[str]:
    """Return a colour for each name: decoding methods have their own in every picture.

    >>> colours_of(["P-GCD", "mine"]) == [BLUE, ORANGE]
    True
    """
    known = [_METHODS.get("".join(filter(str.isalnum, name.lower()))) for name in names]
    free = cycle([colour for colour in PALETTE if colour not in known] or PALETTE)
    return [colour or next(free) for colour in known]


def clear_frame(axes: Axes) -> None:
    """Only the left and the lower side of the frame, in ink."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=INK, linewidth=0.8)
    axes.tick_params(colors=INK, labelsize=8.5, width=0.8)


def checked_names(names: Sequence[str] | None, expected: int, what: str) -> Sequence[str] | None:
    """Return the names, after a check that there is one for each."""
    if names is not None and len(names) != expected:
        raise InvalidParameterError(
            f"expected one name for each of the {expected} {what}, but got {len(names)}"
        )
    return names


@lru_cache(maxsize=4096)
def text_size(text: str, points: float) -> tuple[float, float]:
    """Width and height of a text in inches, measured without a renderer."""
    box = TextPath((0, 0), text, size=points, prop=FontProperties()).get_extents()
    return float(box.width) / _POINTS_PER_INCH, points / _POINTS_PER_INCH


def axes_inches(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in inches."""
    figure = axes.get_figure()  # a part of a figure has its resolution
    dpi = 100.0 if figure is None else float(figure.dpi)
    return axes.bbox.width / dpi, axes.bbox.height / dpi


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """New axes at a place in inches."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, bottom / high, width / wide, height / high))


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    points: float,
    *,
    colour: str = INK,
    outline: float = 0.0,
    **options: Any,
) -> None:
    """Write a text around a point, with a white outline where it crosses lines."""
    placed: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 5} | options
    written = axes.text(x, y, text, size=points, color=colour, **placed)
    if outline:
        written.set_path_effects([withStroke(linewidth=outline, foreground="white")])


def write_title(figure: Figure, left: float, title: str | None) -> None:
    """Write a title, if there is one, above a figure that has room for it."""
    if title:
        wide, high = figure.get_size_inches()
        x, y = left / wide, 1 - 0.1 / high
        figure.text(x, y, title, va="top", fontsize=10.5, color=INK, gid="title")

"""What the pictures share: colours, and how tokens, states and edges are written."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from pcgcd.errors import InvalidParameterError

__all__ = [
    "BLUE",
    "GREY",
    "INK",
    "ORANGE",
    "axes_inches",
    "checked_names",
    "edge_text",
    "set_text",
    "state_text",
    "text_size",
    "token_text",
]

# The colours of the paper's Figure 1.
GREY = "#e2e4e7"
ORANGE = "#e67e22"
BLUE = "#2b67a6"
INK = "#2b2f36"

_VISIBLE = {" ": "␣", "\n": "\\n", "\t": "\\t", "\r": "\\r", "": "ε"}
_POINTS_PER_INCH = 72.0


def state_text(state: int) -> str:
    """``s_3`` in italics."""
    return f"$s_{{{state}}}$"


def edge_text(edge: int) -> str:
    """``e_3`` in italics."""
    return f"$e_{{{edge}}}$"


def token_text(name: str) -> str:
    """A token as it can be printed: white space made visible, no mathematics.

    >>> token_text("a b")
    'a␣b'
    """
    shown = _VISIBLE.get(name) or "".join(_VISIBLE.get(character, character) for character in name)
    return shown.replace("$", r"\$")


def set_text(tokens: Sequence[int], names: Sequence[str] | None, shown: int = 2) -> str:
    """A set of tokens, its middle left out when it is long.

    >>> set_text([4], None), set_text([0, 1, 2], None), set_text(range(12), None)
    ('4', '{0, 1, 2}', '{0, 1, …} (12)')
    """
    texts = [token_text(str(token) if names is None else names[token]) for token in tokens]
    if len(texts) == 1:
        return texts[0]
    if len(texts) <= shown + 1:
        return "{" + ", ".join(texts) + "}"
    return "{" + ", ".join(texts[:shown]) + f", …}} ({len(texts)})"


def checked_names(names: Sequence[str] | None, expected: int, what: str) -> Sequence[str] | None:
    """The names, after a check that there is one for each."""
    if names is not None and len(names) != expected:
        raise InvalidParameterError(
            f"expected one name for each of the {expected} {what}, but got {len(names)}"
        )
    return names


def text_size(text: str, points: float) -> tuple[float, float]:
    """Width and height of a text in inches, measured without a renderer."""
    box = TextPath((0, 0), text, size=points, prop=FontProperties()).get_extents()
    return float(box.width) / _POINTS_PER_INCH, points / _POINTS_PER_INCH


def axes_inches(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in inches."""
    figure = axes.get_figure(root=True)
    dpi = 100.0 if figure is None else float(figure.dpi)
    return axes.bbox.width / dpi, axes.bbox.height / dpi

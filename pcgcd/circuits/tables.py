"""Small tables for notebooks, as HTML that is also well-formed XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = "text-align:left;padding:2px 10px 2px 0"


def table_html(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], picture: str = ""
) -> str:
    """Return a title, a picture if there is one, and a table.

    >>> table_html("T", ["a"], [["<1>"]]).count("&lt;1&gt;")
    1
    """
    head = "".join(f'<th style="{_CELL}">{_text(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_text(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    shown = f"<div>{picture}</div>" if picture else ""
    return f"<div><b>{_text(title)}</b>{shown}{table}</div>"


def printable(text: str) -> str:
    r"""Return the text with control characters, which XML does not allow, as their escapes.

    >>> printable("a\x00b\n")
    'a\\x00b\\n'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _text(text: str) -> str:
    return escape(printable(text))

"""Spider: questions about databases, and what queries return. Databases are never changed."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.data.files import entries, read_rows

_STRINGS = re.compile(r"""('[^']*'|"[^"]*")""")
_SECONDS = 5.0
_MOST_ROWS = 100_000
_EVERY = 1_000  # instructions of SQLite between two looks at the clock

Answer = list[tuple[object, ...]]


@dataclass(frozen=True)
class Question:
    """A question and the query that answers it.

    Attributes:
        name: What it is called.
        text: The question.
        query: The reference query, with white space as people write it.
        database: The SQLite file.
    """

    name: str
    text: str
    query: str
    database: Path


def read_spider(path: Path, databases: Path) -> list[Question]:
    """Return the rows of ``dev.json`` or ``dev.jsonl``; databases are ``<databases>/DB/DB.sqlite``.

    Raises:
        InvalidParameterError: A file is missing.
    """
    found = []
    for place, row in enumerate(read_rows(path)):
        name, text, query = entries(row, ("db_id", "question", "query"), path)
        database = databases / name / f"{name}.sqlite"
        if not database.is_file():
            raise InvalidParameterError(
                f"the database {name} was expected in {databases.name}/{name}/{name}.sqlite"
            )
        found.append(Question(f"{name} {place}", text, tidy(query), database))
    return found


def tidy(query: str) -> str:
    """Return a query with white space as people write it, which Spider's queries do not have.

    >>> tidy("SELECT count ( * ) ,  a FROM t WHERE b  =  'x ,  y' ;")
    "SELECT count(*), a FROM t WHERE b = 'x ,  y';"
    """
    parts = _STRINGS.split(query.strip())
    parts[::2] = map(_tidy_part, parts[::2])  # the others are strings
    return "".join(parts)


def _tidy_part(text: str) -> str:
    called = re.sub(r"\b(avg|count|max|min|sum)\s+\(", r"\1(", text, flags=re.IGNORECASE)
    return re.sub(r"\s+([,;)])|(\()\s+|\s+", _kept, called)


def _kept(found: re.Match[str]) -> str:
    """The sign beside some white space, or one blank."""
    return found[1] or found[2] or " "


def schema_text(database: Path) -> str:
    """Return the statements that made the tables of a database."""
    with closing(_opened(database)) as connection:
        rows = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
    return "\n".join(" ".join(str(sql).split()) + ";" for (sql,) in rows)


def answer(database: Path, query: str, seconds: float = _SECONDS) -> Answer | None:
    """What a query returns; None if it is no query, takes too long, or returns too much.

    The file is opened read-only, and nothing but reading is permitted.
    """
    deadline = time.monotonic() + seconds
    with closing(_opened(database)) as connection:
        connection.set_authorizer(_only_reading)
        connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _EVERY)
        try:
            rows = connection.execute(query).fetchmany(_MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError):
            return None
    return None if len(rows) > _MOST_ROWS else rows


def same_answer(found: Answer | None, wanted: Answer | None, *, ordered: bool) -> bool:
    """Return whether two queries found the same rows; in the same order, if asked for."""
    if found is None or wanted is None:
        return False
    return found == wanted if ordered else Counter(found) == Counter(wanted)


def is_ordered(query: str) -> bool:
    """Return whether the rows of a query have an order: its outermost SELECT has ORDER BY.

    >>> is_ordered("SELECT a FROM t ORDER BY a"), is_ordered("SELECT (SELECT 1 ORDER BY 1)")
    (True, False)
    """
    flat = re.sub(r"'[^']*'|\"[^\"]*\"", "", query)
    while (shorter := re.sub(r"\([^()]*\)", "", flat)) != flat:
        flat = shorter
    return re.search(r"\border\s+by\b", flat, re.IGNORECASE) is not None


def _opened(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(database.resolve()))}?mode=ro", uri=True)
    # Some texts in Spider's databases are not UTF-8.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _only_reading(action: int, *_: object) -> int:
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    allowed = (*reading, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY

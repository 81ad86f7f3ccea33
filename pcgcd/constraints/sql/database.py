"""The tables and columns that queries may name."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path

from pcgcd.constraints.checks import at_most
from pcgcd.errors import InvalidParameterError

Database = str | PathLike[str] | sqlite3.Connection | Mapping[str, Iterable[str]]


def tables_of(database: Database) -> dict[str, tuple[str, ...]]:
    """The columns of each table of an SQLite file, of an open connection, or of a mapping."""
    if isinstance(database, sqlite3.Connection):
        tables = _from_connection(database, "the connection")
    elif isinstance(database, Mapping):
        tables = {
            str(table): _listed(f"the columns of table {table!r}", names)
            for table, names in database.items()
        }
    elif isinstance(database, str | PathLike):
        tables = _from_file(Path(database))
    else:
        raise InvalidParameterError(
            f"a database is the path of an SQLite file, a sqlite3.Connection, or a mapping from "
            f"tables to columns, but {type(database).__name__} was given"
        )
    if not tables:
        raise InvalidParameterError(
            "the database has no tables, so there is nothing to select from; check that it is "
            "the right one"
        )
    for table, columns in tables.items():
        if not columns:
            raise InvalidParameterError(f"table {table!r} has no columns")
        for name in (table, *columns):
            _check_name(name)
    return tables


def aliases_of(names: Iterable[str]) -> tuple[str, ...]:
    """What tables may be called, once each name has been looked at."""
    found = _listed("aliases", names)
    for name in found:
        _check_name(name)
    return found


def _from_file(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.is_file():
        raise InvalidParameterError(f"there is no database file at {str(path)!r}; check the path")
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True)
    except sqlite3.Error as error:
        raise InvalidParameterError(
            f"{str(path)!r} cannot be opened ({error}); check that it may be read"
        ) from error
    with closing(connection):
        return _from_connection(connection, repr(str(path)))


def _from_connection(connection: sqlite3.Connection, what: str) -> dict[str, tuple[str, ...]]:
    listing = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    try:
        names = [str(row[0]) for row in connection.execute(listing).fetchall()]
        return {
            name: tuple(
                str(row[0])
                for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            )
            for name in names
        }
    except sqlite3.Error as error:
        raise InvalidParameterError(
            f"{what} cannot be read as an SQLite database ({error}); give an SQLite file or a "
            f"mapping from tables to columns"
        ) from error


def _listed(what: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidParameterError(f"{what} must be a list of names, but {names!r:.60} was given")
    return at_most(names, f"names as {what}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[^\0\ud800-\udfff]+", name):
        raise InvalidParameterError(
            f"names of tables, columns and aliases are strings of at least one character in UTF-8, "
            f"no NUL, but {name!r} was found"
        )

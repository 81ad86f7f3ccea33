"""The tables and columns that queries may name."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from pcgcd.constraints.checks import at_most
from pcgcd.errors import InvalidParameterError

Database: TypeAlias = str | PathLike[str] | sqlite3.Connection | Mapping[str, Iterable[str]]
Pair: TypeAlias = tuple[str, str]

# With so many tables at most, each is joined with each.
_FEW_TABLES = 5


@dataclass(frozen=True)
class Schema:
    """Tables with their columns, and which tables queries join.

    Attributes:
        tables: The columns of each table.
        links: How many foreign keys there are between two tables, or 1 where a table that has none
            shares the name of a column with another.
        pairs: The pairs that are joined: the linked ones, then all where there are few tables.
    """

    tables: dict[str, tuple[str, ...]]
    links: Mapping[frozenset[str], int]
    pairs: tuple[Pair, ...]

    def linked(self, table: str) -> list[str]:
        """The tables that a table is linked with."""
        return [other for other in self.tables if frozenset((table, other)) in self.links]


def schema_of(database: Database, foreign_keys: Iterable[Pair] | None = None) -> Schema:
    """The tables of a database and the links between them, given or found."""
    tables, found = _read(database)
    keys = found if foreign_keys is None else _checked(foreign_keys, tables)
    links = Counter(frozenset(pair) for pair in keys)
    known = {table for pair in keys for table in pair}
    names = list(tables)
    every = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    for first, second in every:
        shared = {c.lower() for c in tables[first]} & {c.lower() for c in tables[second]}
        if shared and not known.issuperset((first, second)):
            links[frozenset((first, second))] += 1
    itself = [(name, name) for name in names if frozenset((name,)) in links]
    pairs = sorted([*itself, *every], key=lambda pair: frozenset(pair) not in links)
    if len(names) > _FEW_TABLES:
        pairs = [pair for pair in pairs if frozenset(pair) in links]
    return Schema(tables, links, tuple(pairs))


def _checked(pairs: Iterable[Pair], tables: Mapping[str, object]) -> list[Pair]:
    by_name = {table.lower(): table for table in tables}
    found = []
    for pair in at_most(pairs, "foreign keys"):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidParameterError(
                f"a foreign key is a pair of tables, but {pair!r:.60} was given"
            )
        for name in pair:
            if not isinstance(name, str) or name.lower() not in by_name:
                raise InvalidParameterError(
                    f"foreign keys name tables of the database, but {name!r:.60} is none; it has "
                    f"{', '.join(tables)}"
                )
        found.append((by_name[pair[0].lower()], by_name[pair[1].lower()]))
    return found


def _read(database: Database) -> tuple[dict[str, tuple[str, ...]], list[Pair]]:
    """The columns of each table of an SQLite file, of an open connection, or of a mapping."""
    keys: list[Pair] = []
    if isinstance(database, sqlite3.Connection):
        tables, keys = _from_connection(database, "the connection")
    elif isinstance(database, Mapping):
        tables = {
            str(table): _listed(f"the columns of table {table!r}", names)
            for table, names in database.items()
        }
    elif isinstance(database, str | PathLike):
        tables, keys = _from_file(Path(database))
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
    return tables, keys


def names_of(what: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that a caller adds, once each has been looked at."""
    found = _listed(what, names)
    for name in found:
        _check_name(name)
    return found


def _from_file(path: Path) -> tuple[dict[str, tuple[str, ...]], list[Pair]]:
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


def _from_connection(
    connection: sqlite3.Connection, what: str
) -> tuple[dict[str, tuple[str, ...]], list[Pair]]:
    listing = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    try:
        names = [str(row[0]) for row in connection.execute(listing).fetchall()]
        by_name = {name.lower(): name for name in names}
        tables = {
            name: tuple(
                str(row[0])
                for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            )
            for name in names
        }
        references = 'SELECT "table" FROM pragma_foreign_key_list(?)'
        keys = [
            (name, by_name[str(row[0]).lower()])
            for name in names
            for row in connection.execute(references, (name,))
            if str(row[0]).lower() in by_name
        ]
    except sqlite3.Error as error:
        raise InvalidParameterError(
            f"{what} cannot be read as an SQLite database ({error}); give an SQLite file or a "
            f"mapping from tables to columns"
        ) from error
    return tables, keys


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

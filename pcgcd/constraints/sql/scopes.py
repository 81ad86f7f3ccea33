"""What a query may refer to: its tables, what it calls them, and their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pcgcd.constraints.sql.database import Schema
from pcgcd.constraints.sql.diagram import Part, names
from pcgcd.constraints.sql.lexical import RESERVED, quotations, spellings

# So many chains of tables are few, in all their orders.
_FEW_CHAINS = 64


@dataclass(frozen=True)
class Source:
    """A table of a query, and what the query calls it (None: by its name; "": anything)."""

    table: str
    columns: tuple[str, ...]
    alias: str | None = None

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """How what may stand before the dot is written."""
        if self.alias == "":
            return ()
        return spellings(self.table if self.alias is None else self.alias)


@dataclass(frozen=True)
class Scope:
    """The tables of a query: in the given order (numbered aliases), or in any."""

    sources: tuple[Source, ...]
    is_ordered: bool = False

    @cached_property
    def reference(self) -> Part:
        """A column: with its qualifier, or without where only one table has it."""
        return names(self.spelled(range(len(self.sources))))

    def reference_among(self, chosen: Iterable[int]) -> Part:
        """A column of some of the tables."""
        return names(self.spelled(chosen))

    def spelled(self, chosen: Iterable[int]) -> list[str]:
        """Every way to write such a column."""
        count = Counter(column.lower() for source in self.sources for column in source.columns)
        found = []
        for i in chosen:
            source = self.sources[i]
            for column in source.columns:
                plain = spellings(column)
                found += [f"{q}.{c}" for q in source.qualifiers for c in plain]
                if count[column.lower()] == 1:
                    found += plain
        return found

    @cached_property
    def qualified(self) -> list[str]:
        """The columns with their qualifiers: what a sub-query may take from around it."""
        return [
            f"{q}.{c}"
            for source in self.sources
            for q in source.qualifiers
            for column in source.columns
            for c in spellings(column)
        ]

    @cached_property
    def quoted(self) -> list[str]:
        """Columns in quotes that are not taken for strings."""
        return [text for text in self.spelled_in_quotes() if not text.startswith('"')]

    def spelled_in_quotes(self) -> Iterator[str]:
        """Columns in quotes, which need none."""
        count = Counter(column.lower() for source in self.sources for column in source.columns)
        for source in self.sources:
            for column in source.columns:
                for text in quotations(column):
                    if count[column.lower()] == 1:
                        yield text
                    yield from (f"{q}.{text}" for q in source.qualifiers)

    @cached_property
    def stars(self) -> Part | None:
        """All columns of one table."""
        texts = [q for source in self.sources for q in source.qualifiers]
        return names(f"{text}.*" for text in texts) if texts else None

    @cached_property
    def width(self) -> int:
        """How many columns ``*`` stands for."""
        return sum(len(source.columns) for source in self.sources)

    def common_columns(self, left: Iterable[int], right: int) -> list[str]:
        """Columns of the right table that one of the left ones has too."""
        known = Counter(c.lower() for i in left for c in self.sources[i].columns)
        return [c for c in self.sources[right].columns if known[c.lower()] == 1]


# -- which scopes there are ---------------------------------------------------------------------


def aliased_singles(schema: Schema, aliases: Sequence[str], *, has_letters: bool) -> list[Scope]:
    """Each table by the first alias, and by its letters."""
    found = []
    for table, columns in schema.tables.items():
        called = list(aliases[:1])
        if has_letters or not called:
            called += [style[0] for style in _letters((table,))]
        found += [Scope((Source(table, columns, alias),)) for alias in called]
    return _distinct(found)


def joined_scopes(schema: Schema, chain: tuple[str, ...], aliases: Sequence[str]) -> list[Scope]:
    """A set of tables, joined: numbered in each order, or in any order by names and letters."""
    found = []
    columns = [schema.tables[table] for table in chain]
    if len(aliases) >= len(chain):
        for order in _orders(schema, chain):
            found.append(
                Scope(
                    tuple(Source(chain[i], columns[i], alias) for i, alias in zip(order, aliases)),
                    is_ordered=True,
                )
            )
    styles: list[tuple[str | None, ...]] = [*_letters(chain)]
    if len(chain) == 2 and chain[0] == chain[1]:
        styles += _twins(chain[0], columns[0])
    if len({table.lower() for table in chain}) == len(chain):
        styles.append((None,) * len(chain))
    for style in styles:
        found.append(Scope(tuple(Source(*parts) for parts in zip(chain, columns, style))))
    return _distinct(found)


def chains(schema: Schema, length: int) -> list[tuple[str, ...]]:
    """Sets of tables of which each next one is linked with one before, as tuples of names."""
    tables = list(schema.tables)
    place = {table: i for i, table in enumerate(tables)}
    found: dict[tuple[str, ...], None] = {(table,): None for table in tables}
    for _ in range(length - 1):
        longer: dict[tuple[str, ...], None] = {}
        for chain in found:
            for table in chain:
                for other in schema.linked(table):
                    key = tuple(sorted((*chain, other), key=place.__getitem__))
                    # Twice the same table: by two keys of the table that is linked with it.
                    most = 1 if table == other else schema.links[frozenset((table, other))]
                    if chain.count(other) < min(2, most):
                        longer[key] = None
        found = longer
    return list(found)


def usual_joins(schema: Schema) -> int:
    """Three joins, two, or one: the most that make few chains of tables."""
    for joins in (2, 3):
        orders = sum(1 for chain in chains(schema, joins + 1) for _ in _orders(schema, chain))
        if orders > _FEW_CHAINS:
            return joins - 1
    return 3


def _orders(schema: Schema, chain: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """Orders in which each table is linked with one before it, equal ones once."""
    seen = set()

    def grow(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(chain):
            key = tuple(chain[i] for i in order)
            if key not in seen:
                seen.add(key)
                yield order
            return
        for i in range(len(chain)):
            if i not in order and (not order or is_linked(schema, chain, order, i)):
                yield from grow((*order, i))

    yield from grow(())


def is_linked(schema: Schema, chain: Sequence[str], left: Iterable[int], right: int) -> bool:
    """Return whether a table is linked with one of some others; two tables always are."""
    return len(chain) == 2 or any(frozenset((chain[i], chain[right])) in schema.links for i in left)


def _letters(chain: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Short names for tables: first letters, and the first letters of the words in them."""
    words = [re.findall(r"[A-Za-z][a-z]*|[A-Z]+(?![a-z])", table) for table in chain]
    if not all(words):
        return []
    styles = [
        tuple(take(parts).lower() for parts in words)
        for take in (
            lambda parts: parts[0][:1],
            lambda parts: "".join(part[0] for part in parts),
            lambda parts: parts[0][:2],
            lambda parts: parts[0][:3],
        )
    ]
    fit = [s for s in styles if len(set(s)) == len(s) and not RESERVED.intersection(s)]
    usual = [style for style in fit if style in styles[:2]]
    return list(dict.fromkeys(usual or fit[:1]))


def _twins(table: str, columns: Iterable[str]) -> list[tuple[str, str]]:
    """Short names for a table that is joined with itself: e1 and e2, and by manager_id e and m."""
    found: list[tuple[str, str]] = []
    for (letter,) in _letters((table,))[:1]:
        found.append((f"{letter}1", f"{letter}2"))
        others = (c[0].lower() for c in columns if re.fullmatch("[A-Za-z]+(_id|Id|ID|_to)", c))
        found += [(letter, other) for other in others if other != letter][:1]
    return found


def _distinct(scopes: Iterable[Scope]) -> list[Scope]:
    return list(dict.fromkeys(scopes))

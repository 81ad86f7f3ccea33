"""The constraint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.sql.database import Database, Schema, names_of, schema_of
from pcgcd.constraints.sql.diagram import Diagram
from pcgcd.constraints.sql.lexical import Lexicon
from pcgcd.constraints.sql.queries import Options, Queries
from pcgcd.constraints.sql.scopes import usual_joins
from pcgcd.errors import AutomatonTooLargeError

_MAX_DEPTH = 20
_MAX_JOINS = 5
# With more tables than that, or more letters in all names, less of the language is drawn for each.
_MANY_TABLES = 6
_MANY_LETTERS = 250
# The latter are for one table only, and only where there are few tables.
_LABELS = ("n", "total", "cnt")
_MORE_LABELS = ("revenue", "year", "month")
_CTES = ("cte", "t")
_ALIASES = tuple(f"T{i}" for i in range(1, 6))


def sql(
    database: Database,
    *,
    max_depth: int = 2,
    joins: int | None = None,
    foreign_keys: Iterable[tuple[str, str]] | None = None,
    aliases: Sequence[str] = _ALIASES,
    labels: Sequence[str] | None = None,
    ctes: Sequence[str] = _CTES,
    lean: bool | None = None,
    state_limit: int = 1_000_000,
) -> Constraint:
    """Queries (SELECT) in SQLite's language over the tables and columns of a database.

    The automaton guesses the scope of a query (a table, two linked tables, a chain of them) and
    what its tables are called, and binds every column to it, so that SQLite can run what it
    accepts. ``docs/guides/sql.md`` says what is covered: expressions, aggregates, windows, CASE,
    CAST, joins, grouping, ordering, set operations, sub-queries, common table expressions. Words
    and names may be in any case. White space is one blank, or the end of a line before a clause;
    there is none at the ends of a query, nor where nobody writes it.

    Args:
        database: The path of an SQLite file, a connection, or a mapping from tables to columns.
        max_depth: How many sub-queries may be inside one another, at most 20; with 0 there are
            none, in FROM and WITH neither.
        joins: How many joins a query may have, at most 5. By default 3 where that makes few chains
            of tables, otherwise 2 or 1, and fewer where the limit of states would be passed.
        foreign_keys: Pairs of tables that are linked; by default those that the database declares.
            Tables without a foreign key are linked with those that share the name of a column.
        aliases: What the first, the second, ... table of a query may be called; besides, tables
            are called by their names and by their first letters.
        labels: Names for results (``COUNT(*) AS n``) that ORDER BY, HAVING and GROUP BY may use; by
            default n, total and cnt, for one table of a few also revenue, year and month. Others
            are allowed too, but nothing can refer to them. Each adds to the size.
        ctes: Names for common table expressions.
        lean: Whether to draw smaller expressions for each scope; by default for more than 6 tables,
            or more than 250 letters in the names of tables and columns.
        state_limit: Raise rather than build an automaton with more states.

    Raises:
        InvalidParameterError: An argument is out of range, or the database cannot be read.
        AutomatonTooLargeError: The limit of states was passed.

    >>> pets = sql({"pet": ["name", "age"], "owner": ["id", "name"]}, max_depth=0, labels=["n"])
    >>> pets.matches("SELECT name FROM pet WHERE age > 3 ORDER BY age DESC LIMIT 1;")
    True
    >>> pets.matches("SELECT age, COUNT(*) AS n FROM pet GROUP BY age ORDER BY n")
    True
    >>> pets.matches("SELECT age FROM owner"), pets.matches("DROP TABLE pet")
    (False, False)
    """
    check_whole_number("max_depth", max_depth, most=_MAX_DEPTH)
    if joins is not None:
        check_whole_number("joins", joins, most=_MAX_JOINS)
    check_whole_number("state_limit", state_limit, least=1)
    schema = schema_of(database, foreign_keys)
    tables = schema.tables
    known = {table.lower() for table in tables}
    letters = sum(len(name) for table, names in tables.items() for name in (table, *names))
    if letters > state_limit:
        raise AutomatonTooLargeError(
            f"the names of the tables and columns have {letters:,} letters, and there may be "
            f"{state_limit:,} states; give fewer tables, or raise state_limit"
        )
    is_large = len(tables) > _MANY_TABLES or letters > _MANY_LETTERS
    is_lean = is_large if lean is None else lean
    joined_labels = names_of("labels", _LABELS if labels is None else labels)
    options = Options(
        max_depth,
        usual_joins(schema) if joins is None else joins,
        names_of("aliases", aliases),
        joined_labels if labels is not None or is_lean else _LABELS + _MORE_LABELS,
        joined_labels,
        tuple(name for name in names_of("ctes", ctes) if name.lower() not in known),
        is_lean,
    )
    while True:
        try:
            automaton = _automaton(schema, options, state_limit)
            break
        except AutomatonTooLargeError:
            if joins is not None or not options.joins:
                raise
            options = replace(options, joins=options.joins - 1)
    constraint = Constraint.from_automaton(automaton, f"sql({', '.join(tables)})")
    # It is as small as it gets; a deterministic one would be larger.
    vars(constraint)["automaton"] = automaton
    return constraint


def _automaton(schema: Schema, options: Options, state_limit: int) -> FiniteAutomaton:
    diagram = Diagram(state_limit)
    start = diagram.state()
    end = Queries(diagram, Lexicon(), schema, options).draw(start)
    return diagram.automaton(start, end)

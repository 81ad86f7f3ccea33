"""The constraint."""

from __future__ import annotations

from collections.abc import Sequence

from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.sql.database import Database, aliases_of, tables_of
from pcgcd.constraints.sql.diagram import Diagram
from pcgcd.constraints.sql.lexical import Lexicon
from pcgcd.constraints.sql.select import query
from pcgcd.errors import AutomatonTooLargeError

_MAX_DEPTH = 20
_MAX_SPACES = 100
_ALIASES = tuple(f"T{i}" for i in range(1, 10))


def sql(
    database: Database,
    *,
    max_depth: int = 2,
    aliases: Sequence[str] = _ALIASES,
    max_spaces: int | None = 3,
    state_limit: int = 200_000,
) -> Constraint:
    """Queries (SELECT) in SQLite's language over the tables and columns of a database.

    Every text parses. Names are those of the database; which of them are in scope at a place is
    not known to a finite automaton of this size, so a query may name a column of a table that it
    does not select from, or use an alias that it does not define.

    Covered: DISTINCT; expressions with arithmetic, comparisons, LIKE, IN, BETWEEN, IS NULL, EXISTS,
    AND, OR, NOT, aggregates, common functions and one level of parentheses; CASE and AS in the
    results; tables with aliases; joins with ON, NATURAL and by comma; WHERE; GROUP BY and HAVING;
    ORDER BY; LIMIT and OFFSET; UNION, INTERSECT and EXCEPT; sub-queries in FROM, WHERE, HAVING and
    the results. Words and names may be in any case.

    Args:
        database: The path of an SQLite file, a connection, or a mapping from tables to columns.
        max_depth: How many sub-queries may be inside one another, at most 20. Each level adds
            about as many states as two queries without sub-queries have.
        aliases: What tables may be called in a query.
        max_spaces: How many blanks may stand together, at most 100 (None: any number).
        state_limit: Raise rather than build an automaton with more states.

    Raises:
        InvalidParameterError: An argument is out of range, or the database cannot be read.
        AutomatonTooLargeError: The limit of states was passed.

    >>> pets = sql({"pet": ["name", "age"], "owner": ["id", "name"]}, max_depth=0)
    >>> pets.matches("SELECT name FROM pet WHERE age > 3 ORDER BY age DESC LIMIT 1;")
    True
    >>> pets.matches("SELECT colour FROM pet"), pets.matches("DROP TABLE pet")
    (False, False)
    """
    check_whole_number("max_depth", max_depth, most=_MAX_DEPTH)
    if max_spaces is not None:
        check_whole_number("max_spaces", max_spaces, least=1, most=_MAX_SPACES)
    check_whole_number("state_limit", state_limit, least=1)
    tables = tables_of(database)
    called = aliases_of(aliases)
    letters = sum(len(name) for table, names in tables.items() for name in (table, *names))
    if letters > state_limit:
        raise AutomatonTooLargeError(
            f"the names of the tables and columns have {letters:,} letters, and there may be "
            f"{state_limit:,} states; give fewer tables, or raise state_limit"
        )
    diagram = Diagram(state_limit)
    start = diagram.state()
    end = query(Lexicon(tables, called, max_spaces), max_depth)(diagram, start)
    automaton = diagram.automaton(start, end)
    return Constraint.from_automaton(automaton, f"sql({', '.join(tables)})")

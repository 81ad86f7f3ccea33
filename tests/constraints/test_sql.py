"""sql() against SQLite itself: what is sampled parses, and what people write is accepted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.expressions import Embedded
from pcgcd.constraints.sql import sql
from pcgcd.constraints.sql.lexical import RESERVED, spellings
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from pcgcd.testing.walks import RandomWalks

PETS = {
    "Student": ["StuID", "LName", "Age"],
    "Has_Pet": ["StuID", "PetID"],
    "Pets": ["PetID", "PetType", "weight"],
}
ODD = {
    "order": ["group", "select", "a b", 'q"uote', "it's", "18_49", "semi;colon", "back`tick"],
    "naïve": ["ünï", "x]y", "--", "/*", "date", "count", "left"],
    "T1": ["T1", "t2"],
}


def connection_of(tables: dict[str, list[str]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for table, columns in tables.items():
        listed = ", ".join(quoted(column) for column in columns)
        connection.execute(f"CREATE TABLE {quoted(table)} ({listed})")
    return connection


def automaton_of(database: Any, **options: Any) -> FiniteAutomaton:
    expression = sql(database, **options).expression
    assert isinstance(expression, Embedded)
    return expression.automaton


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def is_syntax_error(error: sqlite3.Error) -> bool:
    return any(sign in str(error) for sign in ("syntax", "incomplete", "unrecognized token"))


@pytest.mark.parametrize("tables", [PETS, ODD], ids=["plain names", "odd names"])
@pytest.mark.parametrize("options", [{}, {"max_depth": 0, "max_spaces": None}], ids=str)
def test_every_sampled_query_parses(tables: dict[str, list[str]], options: dict[str, Any]) -> None:
    connection = connection_of(tables)
    walks = RandomWalks(automaton_of(connection, **options), seed=1)
    prepared, wrong = 0, []
    for _ in range(800):
        query = bytes(walks.word(walks.random.randrange(300))).decode()
        try:
            connection.execute(f"EXPLAIN {query}").close()
            prepared += 1
        except sqlite3.Error as error:
            wrong += [query] if is_syntax_error(error) else []
    assert prepared
    assert not wrong


ACCEPTED = '''
SELECT * FROM Pets
select lname, age from student;
SELECT DISTINCT T1.LName FROM Student AS T1 JOIN Has_Pet AS T2 ON T1.StuID  =  T2.StuID
SELECT count(*), avg(weight), max( DISTINCT weight ) FROM Pets WHERE weight > 10.5
SELECT T1.* FROM Student T1, Has_Pet T2 WHERE T1.StuID = T2.StuID AND T1.Age BETWEEN 18 AND 20
SELECT LName FROM Student WHERE Age IS NOT NULL AND LName LIKE '%it''s%' OR NOT Age = -3
SELECT LName FROM Student WHERE LName NOT IN ("Smith", 'Müller', "say ""hi""") AND Age IN (1,2)
SELECT PetType, count(*) AS num_pets FROM Pets GROUP BY PetType HAVING count(*) >= 2 AND 1 < 9
SELECT PetType FROM Pets GROUP BY PetType ORDER BY count(*) DESC, PetType ASC LIMIT 1 OFFSET 2
SELECT StuID FROM Student EXCEPT SELECT StuID FROM Has_Pet UNION ALL SELECT 3 FROM Pets
SELECT StuID FROM Student INTERSECT SELECT T1.StuID FROM Has_Pet AS T1 ORDER BY StuID
SELECT LName FROM Student WHERE StuID NOT IN (SELECT StuID FROM Has_Pet WHERE PetID > 3)
SELECT Age FROM Student WHERE Age > (SELECT avg(Age) FROM Student) AND 9 < (SELECT 9 FROM Pets)
SELECT LName FROM Student T1 WHERE EXISTS (SELECT * FROM Pets AS T2 WHERE T2.PetID = T1.StuID)
SELECT LName FROM Student WHERE NOT EXISTS(SELECT 1 FROM Pets)
SELECT count(*) FROM (SELECT StuID, count(*) FROM Has_Pet GROUP BY StuID) AS T1
SELECT LName, (SELECT max(weight) FROM Pets) FROM Student
SELECT Age FROM Student WHERE Age IN (SELECT PetID FROM Has_Pet WHERE 1 = (SELECT 1 FROM Pets))
SELECT round(avg(weight), 2), upper(PetType), substr(PetType, 1, 3), (weight + 1) * 2 FROM Pets
SELECT strftime('%Y', LName), coalesce(Age, 0) FROM Student WHERE lower(LName) = 'x'
SELECT LName FROM Student WHERE ( Age = 1 OR Age = 2 ) AND (LName IS NULL)
SELECT Student.LName FROM Student LEFT JOIN Has_Pet ON Student.StuID = Has_Pet.StuID
SELECT LName FROM Student NATURAL JOIN Has_Pet INNER JOIN Pets ON Pets.PetID = Has_Pet.PetID
SELECT sum(weight) - min(weight), weight / 2 + 1 <> 3, LName || 'x' FROM Pets CROSS JOIN Student
SELECT sum(CASE WHEN weight > 3 THEN 1 WHEN weight IS NULL THEN 2 ELSE 0 END) FROM Pets
SELECT CASE WHEN PetType = 'cat' THEN 'small' END AS kind_1 FROM Pets
SELECT Age FROM Student GROUP BY Age HAVING 1 = (SELECT 1 FROM Pets GROUP BY weight LIMIT 1)
SELECT PetType FROM Pets GROUP BY PetType HAVING sum(weight) > (SELECT avg(weight) FROM Pets)
'''.strip().splitlines()


@pytest.fixture(scope="module")
def pets() -> FiniteAutomaton:
    return automaton_of(PETS)


@pytest.mark.parametrize("query", ACCEPTED)
def test_queries_of_every_kind_are_accepted_and_run(query: str, pets: FiniteAutomaton) -> None:
    connection_of(PETS).execute(query)
    assert pets.accepts(query.encode())


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT",
        "SELECT name FROM Student",
        "SELECT LName FROM Teacher",
        "SELECT LName FROM Student; DROP TABLE Student",
        "SELECT LName FROM Student -- and more",
        "SELECT LName FROM Student WHERE",
        "SELECT LName FROM Student WHERE LName = 'it's'",
        "SELECT LName FROM Student WHERE Age = (SELECT Age, LName FROM Student)",
        "SELECT LName FROM Student WHERE count(*) > 1",
        "SELECT LName FROM Student HAVING count(*) > 1",
        "SELECT LName FROM Student LIMIT 1 UNION SELECT LName FROM Student",
        "SELECT LName FROM Student ON 1 = 1",
        "SELECT LName, FROM Student",
        "SELECTLName FROM Student",
        "SELECT weight--1 FROM Pets",
        "SELECT LName FROM Student     WHERE Age = 1",
        "DELETE FROM Student",
        "PRAGMA table_info(Student)",
    ],
)
def test_other_texts_are_rejected(query: str, pets: FiniteAutomaton) -> None:
    assert not pets.accepts(query.encode())


def test_nesting_ends_at_max_depth() -> None:
    query = "SELECT Age FROM Student"
    for depth in range(4):
        for limit in range(3):
            automaton = automaton_of(PETS, max_depth=limit)
            assert automaton.accepts(query.encode()) == (depth <= limit)
        query = f"SELECT Age FROM Student WHERE Age IN ({query})"


def test_odd_names_are_quoted_and_stay_names() -> None:
    evil = "x; DROP TABLE t; --"
    tables = {**ODD, evil: [evil, "(", "*", "' OR 1=1"]}
    automaton = automaton_of(tables, max_depth=0)
    connection = connection_of(tables)
    for table, columns in tables.items():
        for column in columns:
            for spelled in spellings(column):
                query = f"SELECT {spelled} FROM {spellings(table)[0]}"
                assert automaton.accepts(query.encode())
                assert connection.execute(query).description[0][0] in (column, spelled)
    assert not automaton.accepts(f"SELECT {evil} FROM T1".encode())
    assert not automaton.accepts(b"SELECT group FROM T1")


def test_names_that_are_not_quoted_are_no_reserved_words() -> None:
    keywords = "abort action after analyze before begin current date desc do each fail first if key"
    for name in [*RESERVED, *keywords.split(), "year", "language", "share", "show", "rows", "temp"]:
        connection = connection_of({name: [name]})
        spelled = spellings(name)[0]
        connection.execute(
            f"SELECT T1.{spelled}, {spelled}, count({spelled}) FROM {spelled} AS T1 "
            f"WHERE {spelled} = 1 AND NOT {spelled} GROUP BY {spelled} ORDER BY {spelled} DESC"
        )


def test_names_are_found_in_any_case_and_labels_are_no_reserved_words() -> None:
    automaton = automaton_of(PETS, max_depth=0)
    assert automaton.accepts(b"SeLeCt T1.LNAME aS avg_age2 FROM STUDENT as t1")
    connection = connection_of(PETS)
    for word in RESERVED:
        query = f"SELECT LName AS {word} FROM Student"
        if automaton.accepts(query.encode()):
            connection.execute(query)


def test_a_file_a_connection_and_a_mapping_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a b#?.sqlite"
    connection = connection_of(PETS)
    connection.execute("CREATE VIEW heavy AS SELECT weight AS kilos FROM Pets")
    with sqlite3.connect(path) as stored:
        connection.backup(stored)
    stored.close()
    mapping = {**PETS, "heavy": ["kilos"]}
    query = b"SELECT kilos FROM heavy"
    for database in (path, str(path), connection, mapping):
        assert automaton_of(database, max_depth=0).accepts(query)


def wrong_databases() -> Iterator[tuple[Any, str]]:
    yield "no/such/file.sqlite", "no database file"
    yield {}, "no tables"
    yield sqlite3.connect(":memory:"), "no tables"
    yield {"t": []}, "no columns"
    yield {"t": "abc"}, "list of names"
    yield {"t": [""]}, "at least one character"
    yield {"t": ["a\x00b"]}, "NUL"
    yield {"t": ["\ud800"]}, "UTF-8"
    yield 3, "path"


@pytest.mark.parametrize(("database", "message"), [*wrong_databases()])
def test_what_is_no_database_is_refused(database: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        sql(database)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("not a database at all, but long enough to look at " * 50)
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        sql(path)
    with pytest.raises(InvalidParameterError, match="no database file"):
        sql(tmp_path)


def test_wrong_options_and_large_schemas_are_refused() -> None:
    for options in ({"max_depth": -1}, {"max_depth": 99}, {"max_spaces": 0}, {"aliases": "T1"}):
        with pytest.raises(InvalidParameterError):
            sql(PETS, **options)
    with pytest.raises(AutomatonTooLargeError, match="max_depth"):
        sql(PETS, state_limit=5000)
    with pytest.raises(AutomatonTooLargeError):
        sql({"t": [f"{i:x}" * 500 for i in range(3000)]})


def test_a_constraint_matches_after_compilation() -> None:
    constraint = sql(PETS, max_depth=0)
    assert constraint.matches("SELECT LName FROM Student WHERE Age > 3")
    assert not constraint.matches("SELECT LName FROM Student WHERE Age > > 3")

"""sql() against SQLite itself: what is sampled parses, and what people write is accepted."""

from __future__ import annotations

import re
import sqlite3
from ast import literal_eval
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.automata.expressions import Embedded
from pcgcd.constraints import Constraint, regex
from pcgcd.constraints.sql import sql
from pcgcd.constraints.sql.diagram import Diagram
from pcgcd.constraints.sql.lexical import RESERVED, Lexicon, spellings
from pcgcd.decoding import generate
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from pcgcd.testing.walks import RandomWalks
from tests.constraints import sql_analysts, sql_diagrams

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


SAMPLED = [
    (PETS, {}),
    (ODD, {"joins": 1, "max_depth": 1}),
    (ODD, {"max_depth": 0}),
    (PETS, {"lean": True, "joins": 1}),
]


@pytest.mark.parametrize(("tables", "options"), SAMPLED, ids=str)
@pytest.mark.parametrize("length", [1, 40, 300])
def test_every_sampled_query_is_prepared_by_sqlite(
    tables: dict[str, list[str]], options: dict[str, Any], length: int
) -> None:
    """Short and long ones: nearly all of them, and those that are not are no syntax errors."""
    connection = connection_of(tables)
    walks = RandomWalks(sampled_automaton(str(tables), str(options)), seed=length)
    count = 250
    failed = {}
    for _ in range(count):
        query = bytes(walks.word(walks.random.randrange(length))).decode()
        try:
            connection.execute(f"EXPLAIN {query}").close()
        except sqlite3.Error as error:
            failed[query] = error
    assert not any(is_syntax_error(error) for error in failed.values()), failed
    assert len(failed) <= 0.03 * count, failed


@pytest.mark.parametrize(("tables", "options"), SAMPLED, ids=str)
def test_white_space_is_one_character_where_people_write_it(
    tables: dict[str, list[str]], options: dict[str, Any]
) -> None:
    walks = RandomWalks(sampled_automaton(str(tables), str(options)), seed=1)
    for _ in range(400):
        query = bytes(walks.word(walks.random.randrange(200))).decode()
        plain = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^]]*\]", "x", query)
        assert not re.search(r"\s\s|[^\S \n]|\s[,;)]|\(\s|^\s|\s$", plain), query


LINES = """
SELECT T1.LName, COUNT(*) AS n
FROM Student AS T1
LEFT JOIN Has_Pet AS T2
ON T1.StuID = T2.StuID
WHERE T1.Age > 20
AND T2.PetID > 3
OR T1.LName = 'a  b'
GROUP BY T1.LName
ORDER BY n DESC
LIMIT 3
OFFSET 1;
""".strip()


@pytest.mark.parametrize(
    ("query", "is_accepted"),
    [
        (LINES, True),
        ("SELECT LName FROM Student\nUNION\nSELECT PetType FROM Pets", True),
        ("WITH cte AS (SELECT * FROM Pets)\nSELECT weight FROM cte", True),
        ("SELECT PetType FROM Pets GROUP BY PetType\nHAVING COUNT(*)>2", True),
        ("SELECT LName,Age FROM Student WHERE Age IN(1,2) AND Age*2=3", True),
        ("SELECT LName FROM Student;\n", False),
        ("SELECT LName FROM Student\n", False),
        ("SELECT LName FROM Student ;", False),
        (" SELECT LName FROM Student", False),
        ("\nSELECT LName FROM Student", False),
        ("SELECT  LName FROM Student", False),
        ("SELECT LName FROM Student\n\nWHERE Age = 1", False),
        ("SELECT LName FROM Student \nWHERE Age = 1", False),
        ("SELECT LName FROM Student\tWHERE Age = 1", False),
        ("SELECT\nLName FROM Student", False),
        ("SELECT LName FROM Student WHERE Age =\n1", False),
        ("SELECT LName , Age FROM Student", False),
        ("SELECT count( *) FROM Student", False),
        ("SELECT count(* ) FROM Student", False),
        ("SELECT count (*) FROM Student", False),
        ("SELECT LName FROM Student WHERE Age  = 1", False),
    ],
)
def test_lines_end_before_clauses_only(
    query: str, is_accepted: bool, pets: FiniteAutomaton
) -> None:
    connection_of(PETS).execute(query)
    assert pets.accepts(query.encode()) == is_accepted


@lru_cache(maxsize=len(SAMPLED))
def sampled_automaton(tables: str, options: str) -> FiniteAutomaton:
    return automaton_of(literal_eval(tables), **literal_eval(options))


ACCEPTED = '''
SELECT * FROM Pets
select lname, age from student;
SELECT DISTINCT T1.LName FROM Student AS T1 JOIN Has_Pet AS T2 ON T1.StuID = T2.StuID
SELECT count(*), avg(weight), max(DISTINCT weight) FROM Pets WHERE weight > 10.5
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
SELECT LName FROM Student WHERE (Age = 1 OR Age=2) AND (LName IS NULL)
SELECT Student.LName FROM Student LEFT JOIN Has_Pet ON Student.StuID = Has_Pet.StuID
SELECT LName FROM Student NATURAL JOIN Has_Pet INNER JOIN Pets ON Pets.PetID = Has_Pet.PetID
SELECT sum(weight) - min(weight), weight / 2 + 1 <> 3, LName || 'x' FROM Pets CROSS JOIN Student
SELECT sum(CASE WHEN weight > 3 THEN 1 WHEN weight IS NULL THEN 2 ELSE 0 END) FROM Pets
SELECT CASE WHEN PetType = 'cat' THEN 'small' END AS kind_1 FROM Pets
SELECT Age FROM Student GROUP BY Age HAVING 1 = (SELECT 1 FROM Pets GROUP BY weight LIMIT 1)
SELECT PetType FROM Pets GROUP BY PetType HAVING sum(weight) > (SELECT avg(weight) FROM Pets)
SELECT PetType, COUNT(*) AS n FROM Pets GROUP BY PetType ORDER BY n
SELECT PetType, COUNT(*) AS n FROM Pets GROUP BY PetType HAVING n > 2 ORDER BY n DESC, PetType
SELECT lower(PetType) AS total, COUNT(*) FROM Pets GROUP BY total
SELECT PetType, COUNT(*) FROM Pets GROUP BY 1 ORDER BY 1
SELECT s.LName, COUNT(*) AS n FROM Student s JOIN Has_Pet h ON s.StuID = h.StuID GROUP BY s.LName
SELECT s.LName, p.PetType FROM Student s JOIN Has_Pet h USING (StuID) JOIN Pets p USING (PetID)
SELECT LName, rank() OVER (PARTITION BY Age ORDER BY StuID DESC) FROM Student
SELECT LName, sum(Age) OVER w FROM Student WINDOW w AS (ORDER BY Age ROWS 2 PRECEDING)
SELECT CAST(sum(CASE WHEN Age > 20 THEN 1 ELSE 0 END) AS REAL) / count(*) FROM Student
SELECT round(avg(Age), 2), coalesce(max(Age), 0), upper(substr(LName, 1, 1)) FROM Student
SELECT LName FROM Student ORDER BY Age DESC NULLS LAST, length(LName)
WITH cte AS (SELECT Age, COUNT(*) AS n FROM Student GROUP BY Age) SELECT Age FROM cte WHERE n > 1
WITH cte AS (SELECT * FROM Pets), t AS (SELECT * FROM cte WHERE weight > 3) SELECT PetType FROM t
SELECT Age, n FROM (SELECT Age, COUNT(*) AS n FROM Student GROUP BY Age) AS by_age WHERE n > 2
SELECT LName FROM Student AS anything_1 WHERE Age > 3
SELECT LName, Age FROM Student UNION ALL SELECT PetType, weight FROM Pets ORDER BY 2 DESC, 1
SELECT "LName", [Age], Student.`Age` FROM "Student"
SELECT PetType AS kind, COUNT(*) AS heads, avg(weight) AS "a b" FROM Pets GROUP BY PetType
SELECT PetType, COUNT(*) FROM Pets GROUP BY 1 ORDER BY 2 DESC, 1
SELECT strftime('%Y', LName) AS year, SUM(Age) AS ages FROM Student GROUP BY year ORDER BY year
SELECT LName FROM Student WHERE date(LName) >= date('now', '-7 days') ORDER BY random() LIMIT 1
SELECT PetType, COUNT(*) AS n FROM Pets GROUP BY PetType HAVING n > 1 AND avg(weight) > 2
SELECT weight - avg(weight) OVER (PARTITION BY PetType) AS off, 2 * rank() OVER () FROM Pets
SELECT avg(total) FROM (SELECT PetType, sum(weight) AS total FROM Pets GROUP BY PetType) AS sums
SELECT * FROM (SELECT *, row_number() OVER (ORDER BY Age DESC) AS rn FROM Student) WHERE rn <= 3
SELECT s.LName FROM Student s WHERE s.Age > (SELECT s2.Age FROM Student s2 WHERE s2.Age < s.Age)
SELECT s.LName, hp.PetID FROM Student s JOIN Has_Pet hp ON s.StuID = hp.StuID
SELECT sum(p.weight * 2) FROM Student s JOIN Has_Pet h ON s.StuID = h.StuID JOIN Pets p ON 1 = 1
SELECT round(100.0 * sum(CASE WHEN Age > 20 THEN 1 ELSE 0 END) / count(*), 1) FROM Student
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
        "DELETE FROM Student",
        "PRAGMA table_info(Student)",
    ],
)
def test_other_texts_are_rejected(query: str, pets: FiniteAutomaton) -> None:
    assert not pets.accepts(query.encode())


OUT_OF_SCOPE = """
SELECT PetType FROM Student
SELECT Pets.PetType FROM Student
SELECT T2.LName FROM Student AS T1
SELECT Student.LName FROM Student AS T1
SELECT LName FROM Student WHERE T1.Age = 3
SELECT StuID FROM Student JOIN Has_Pet
SELECT T1.PetID FROM Student AS T1 JOIN Has_Pet AS T2 ON T1.StuID = T2.StuID
SELECT T1.LName FROM Student AS T1 JOIN Has_Pet AS T2 ON T1.StuID = T3.StuID
SELECT T1.LName FROM Student AS T1 LEFT JOIN Has_Pet AS T2 ON T3.PetID = 1 JOIN Pets AS T3
SELECT T1.LName FROM Student AS T1 JOIN Has_Pet AS T2 USING (PetID)
SELECT LName FROM Student UNION SELECT LName, Age FROM Student
SELECT LName FROM Student UNION SELECT LName FROM Student ORDER BY Age
SELECT LName FROM Student UNION SELECT LName FROM Student ORDER BY 2
SELECT LName FROM Student WHERE StuID IN (SELECT StuID, PetID FROM Has_Pet)
SELECT LName FROM Student ORDER BY n
SELECT LName FROM Student ORDER BY 2
SELECT LName FROM Student ORDER BY count(*)
SELECT count(*) AS n FROM Pets GROUP BY n
SELECT count(*) FROM Pets GROUP BY 1
SELECT count(*) FROM Pets GROUP BY count(*)
SELECT sum(count(*)) FROM Pets
SELECT abs(weight, 2) FROM Pets
SELECT nullif(weight) FROM Pets
SELECT rank() FROM Pets
SELECT sum(DISTINCT weight) OVER () FROM Pets
SELECT sum(weight) OVER w FROM Pets
WITH cte AS (SELECT PetType FROM Pets) SELECT weight FROM cte
WITH cte AS (SELECT * FROM Pets) SELECT weight FROM t
WITH cte AS (SELECT * FROM Pets), cte AS (SELECT * FROM Student) SELECT Age FROM cte
SELECT weight FROM (SELECT PetType FROM Pets)
SELECT avg(n) FROM (SELECT sum(weight) AS total FROM Pets)
SELECT rn FROM (SELECT *, row_number() OVER (ORDER BY Age) AS rnk FROM Student)
SELECT LName AS select FROM Student
SELECT LName AS Order FROM Student
SELECT weight AS kind FROM Pets ORDER BY kinds
SELECT count(*), PetType FROM Pets GROUP BY 1
SELECT PetType, count(*) FROM Pets GROUP BY 2
SELECT PetType FROM Pets GROUP BY 1 ORDER BY 2
SELECT weight - avg(weight) OVER w FROM Pets
SELECT s.LName FROM Student s WHERE s.Age > (SELECT max(s3.Age) FROM Student s2)
VALUES (1, 2), (3)
VALUES (1) LIMIT 1
""".strip().splitlines()


@pytest.mark.parametrize("query", OUT_OF_SCOPE)
def test_what_sqlite_cannot_resolve_is_rejected(query: str, pets: FiniteAutomaton) -> None:
    with pytest.raises(sqlite3.Error):
        connection_of(PETS).execute(query)
    assert not pets.accepts(query.encode())


def test_the_syntax_diagrams_of_sqlite_are_covered() -> None:
    """Every branch is a query that SQLite prepares; 95 of 100 are accepted."""
    connection = connection_of(sql_diagrams.TABLES)
    connection.execute("CREATE INDEX by_age ON customer (age)")
    automaton = automaton_of(connection)
    refused = []
    for kind, query in sql_diagrams.KINDS.items():
        if sqlite3.sqlite_version_info >= (3, 39):
            connection.execute(f"EXPLAIN {query}").close()
        if not automaton.accepts(query.encode()):
            refused.append(kind)
    assert len(sql_diagrams.KINDS) >= 80
    assert len(refused) <= 0.05 * len(sql_diagrams.KINDS), refused
    assert refused == [
        "INDEXED BY",
        "table function",
        "joins in parentheses",
        "schema.table.column",
        "row value",
    ]


def test_most_queries_of_analysts_are_accepted() -> None:
    connection = connection_of(sql_analysts.TABLES)
    automaton = automaton_of(connection, foreign_keys=sql_analysts.FOREIGN_KEYS)
    queries = sql_analysts.queries()
    for query in queries:
        connection.execute(f"EXPLAIN {query}").close()
    accepted = sum(automaton.accepts(query.encode()) for query in queries)
    assert (accepted, len(queries)) == (65, 85)


def test_a_table_may_be_joined_with_itself() -> None:
    tables = {"employee": ["id", "name", "manager_id"], "city": ["id"]}
    automaton = automaton_of(
        tables, foreign_keys=[("employee", "employee")], max_depth=0, labels=()
    )
    for first, second in (("e", "m"), ("e1", "e2"), ("T1", "T2")):
        query = (
            f"SELECT {first}.name, {second}.name AS manager FROM employee {first} "
            f"LEFT JOIN employee {second} ON {first}.manager_id = {second}.id"
        )
        connection_of(tables).execute(query)
        assert automaton.accepts(query.encode())
    assert not automaton.accepts(b"SELECT c1.id FROM city c1 JOIN city c2 ON c1.id = c2.id")
    assert not automaton.accepts(b"SELECT e.name FROM employee e1 JOIN employee e2")


@pytest.mark.parametrize("is_short", [False, True])
def test_labels_are_all_words_but_reserved_ones(is_short: bool) -> None:
    lexicon, diagram = Lexicon(), Diagram(10_000)
    start = diagram.state()
    end = (lexicon.short_label if is_short else lexicon.label)(diagram, start)
    labels = diagram.automaton(start, end)
    words = ["revenue", "total_spent", "Avg", "x", "Z9", "inn", "isn", "frosty", "fro_", "orders"]
    words += [word + rest for word in RESERVED for rest in ("", "s", "_", "1", "\u00e9", " ")]
    words += [word[:-1] for word in RESERVED]
    begins = {word[:3] for word in RESERVED}
    for word in [*words, "", "1a", "a.b", '"a"', "a-b"]:
        is_name = re.fullmatch("[A-Za-z][A-Za-z0-9_]*", word) is not None
        is_free = is_name and word.lower() not in RESERVED
        if labels.accepts(word.encode()):
            assert is_name, word
            sqlite3.connect(":memory:").execute(f"SELECT 1 AS {word}")
        elif is_free:
            # The short ones leave out words that begin like a reserved one.
            assert is_short, word
            assert word.isalpha(), word
            assert word[:3].lower() in begins, word


def test_labels_and_names_of_the_caller_can_be_referred_to() -> None:
    automaton = automaton_of(
        {"shop": ["city", "sales"]}, labels=["revenue"], ctes=["best"], aliases=["x"], joins=0
    )
    for query, is_known in {
        "SELECT city, SUM(sales) AS revenue FROM shop GROUP BY city ORDER BY revenue": True,
        "SELECT city, SUM(sales) AS n FROM shop GROUP BY city ORDER BY n": False,
        "WITH best AS (SELECT * FROM shop) SELECT city FROM best": True,
        "WITH cte AS (SELECT * FROM shop) SELECT city FROM cte": False,
        "SELECT x.city FROM shop AS x": True,
        "SELECT T1.city FROM shop AS T1": False,
    }.items():
        assert automaton.accepts(query.encode()) == is_known


def test_foreign_keys_decide_which_tables_are_chained() -> None:
    tables = {name: [f"{name}_{i}" for i in range(2)] for name in "abcdefg"}
    connection = connection_of(tables)
    connection.execute("CREATE TABLE h (h_0 REFERENCES a (a_0), h_1 REFERENCES c)")
    joined = b"SELECT a_0 FROM a JOIN %s ON a_0 = %s_0"
    declared = automaton_of(connection, joins=1, max_depth=0, lean=True)
    assert declared.accepts(joined.replace(b"%s", b"h"))
    assert not declared.accepts(joined.replace(b"%s", b"b"))
    given = automaton_of(connection, joins=1, max_depth=0, foreign_keys=[("A", "b")])
    assert given.accepts(joined.replace(b"%s", b"b"))
    assert not given.accepts(joined.replace(b"%s", b"h"))
    chain = b"SELECT T1.a_0 FROM a AS T1 JOIN h AS T2 ON a_0 = h_0 JOIN c AS T3 ON h_1 = c_0"
    assert automaton_of(connection, joins=2, max_depth=0).accepts(chain)
    assert not declared.accepts(chain)


def test_nesting_ends_at_max_depth() -> None:
    queries = ["SELECT Age FROM Student"]
    for _ in range(3):
        queries.append(f"SELECT Age FROM Student WHERE Age IN ({queries[-1]})")
    for limit in range(3):
        automaton = automaton_of(PETS, max_depth=limit, joins=0, labels=())
        accepted = [automaton.accepts(query.encode()) for query in queries]
        assert accepted == [depth <= limit for depth in range(4)]


def test_odd_names_are_quoted_and_stay_names() -> None:
    evil = "x; DROP TABLE t; --"
    tables = {**ODD, evil: [evil, "(", "*", "' OR 1=1"]}
    automaton = automaton_of(tables, max_depth=0, joins=0, labels=())
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
    automaton = automaton_of(PETS, max_depth=0, joins=0)
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
        assert automaton_of(database, max_depth=0, joins=0, labels=()).accepts(query)


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
    for options in (
        {"max_depth": -1},
        {"max_depth": 99},
        {"aliases": "T1"},
        {"labels": [""]},
        {"ctes": 3},
        {"joins": 9},
        {"foreign_keys": [("Student", "Teacher")]},
        {"foreign_keys": ["Student"]},
    ):
        with pytest.raises(InvalidParameterError):
            sql(PETS, **options)
    with pytest.raises(AutomatonTooLargeError, match="max_depth"):
        sql(PETS, state_limit=5000)
    with pytest.raises(AutomatonTooLargeError):
        sql({"t": [f"{i:x}" * 500 for i in range(3000)]})


def test_a_constraint_matches_after_compilation() -> None:
    constraint = sql(PETS, max_depth=0, joins=0)
    assert constraint.matches("SELECT LName FROM Student WHERE Age > 3")
    assert not constraint.matches("SELECT LName FROM Student WHERE Age > > 3")


# -- large databases --------------------------------------------------------------------------

SHOP = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name, email, city, country, signup_date);
CREATE TABLE product (id INTEGER PRIMARY KEY, name, category, price);
CREATE TABLE purchase (
    id INTEGER PRIMARY KEY, customer_id REFERENCES customer, product_id REFERENCES product,
    day, quantity, discount
);
"""
LETTERS = [*(bytes([value]) for value in range(256)), b"SELECT", b" FROM ", None]
BYTES = Vocabulary.from_bytes(LETTERS, eos_ids=len(LETTERS) - 1)
UNSURE = "I do not know"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SHOP)
    connection.close()
    return path


@pytest.fixture(scope="module")
def shopping(shop: Path) -> Constraint:
    """With more states than expressions may have."""
    constraint = sql(shop)
    assert constraint.automaton.num_states > 250_000
    return constraint


@pytest.mark.parametrize("is_guided", [False, True])
def test_queries_of_a_large_database_are_generated(
    is_guided: bool, shop: Path, shopping: Constraint
) -> None:
    lm = TableLM.random(BYTES, seed=1, order=0)
    generator = torch.Generator().manual_seed(0)
    hmm = HMM.random(2, BYTES.logits_size, generator=generator) if is_guided else None
    result = generate(lm, shopping, budget=40, particles=4, hmm=hmm, seed=0)
    assert all(result.satisfied)
    with sqlite3.connect(shop) as connection:
        for text in result.texts:
            connection.execute(f"EXPLAIN {text}").close()
    connection.close()


COMPOSED = {
    "or": (lambda queries: queries | UNSURE, UNSURE),
    "and": (lambda queries: queries & regex("SELECT [a-z]+ FROM .*"), "SELECT city FROM customer"),
    "then": (lambda queries: queries + ";", "SELECT city FROM customer;"),
}


@pytest.mark.parametrize(("compose", "text"), COMPOSED.values(), ids=COMPOSED)
def test_a_large_database_composes(compose: Any, text: str, shopping: Constraint) -> None:
    constraint = compose(shopping)
    masks = constraint.masks(BYTES)
    assert masks.can_end(masks.start(), 40)
    for wrong in (text, f"{text} WHERE", "DROP TABLE customer"):
        tokens = [*wrong.encode(), len(LETTERS) - 1]
        assert masks.accepts(tokens) == constraint.matches(wrong) == (wrong == text)


def test_a_large_automaton_is_a_constraint(shopping: Constraint) -> None:
    again = Constraint.from_automaton(shopping.automaton)
    assert again.matches("SELECT city FROM customer")
    assert not again.matches("SELECT city FROM product")


def test_masks_are_made_from_the_automaton_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compilation(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("what has an automaton was compiled again")

    compiled = regex("SELECT [a-c]+")
    assert compiled.matches("SELECT a")
    for name in ("compile_folded", "compile_expression"):
        monkeypatch.setattr(f"pcgcd.automata.masks.lazy.{name}", no_compilation)
    for constraint in (compiled, sql({"a": ["b"]}, max_depth=0)):
        masks = constraint.masks(BYTES)
        assert masks.can_end(masks.start(), 20)


def test_fewer_tables_are_joined_where_there_would_be_too_many_states() -> None:
    """Every table shares a column with every other, and no key says which ones belong together."""
    tables = {name: ["note", f"{name}_1"] for name in "abcdefg"}
    joined = [
        "SELECT a_1 FROM a",
        "SELECT a_1 FROM a JOIN b ON a_1 = b_1",
        "SELECT T1.a_1 FROM a AS T1 JOIN b AS T2 ON a_1 = b_1 JOIN c AS T3 ON b_1 = c_1",
    ]
    for options, most in (({}, 1), ({"state_limit": 60_000}, 0), ({"joins": 2}, 2)):
        automaton = automaton_of(tables, max_depth=0, **options)
        assert [automaton.accepts(q.encode()) for q in joined] == [k <= most for k in range(3)]
    with pytest.raises(AutomatonTooLargeError):
        sql(tables, max_depth=0, joins=1, state_limit=60_000)

"""Readers of published formats, and how answers are rated."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pcgcd.cli.main import main
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from pcgcd.experiments import commongen, function_calling, spider
from pcgcd.experiments.calls import Style, gold_call, parse_call, rate_call
from pcgcd.experiments.data.bfcl import CallExample, read_bfcl
from pcgcd.experiments.data.commongen import read_commongen
from pcgcd.experiments.data.spider import answer, is_ordered, read_spider, same_answer, schema_text
from pcgcd.experiments.data.xlam import read_xlam
from pcgcd.experiments.held_out import held_out
from pcgcd.experiments.tasks import tool_prompts
from tests.experiments.sampled import SAMPLES, sample_data, tiny_options


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_bfcl_is_read_with_answers_inside_and_beside(tmp_path: Path) -> None:
    inside = read_bfcl(SAMPLES / "bfcl" / "simple_python.jsonl")
    assert [example.name for example in inside][:2] == ["simple_0", "simple_1"]
    assert inside[0].answers == [("add", {"a": [2], "b": [3]})]
    rows = [json.loads(line) for line in (SAMPLES / "bfcl/simple_python.jsonl").open()]
    answers = [{"id": row["id"], "ground_truth": row.pop("ground_truth")} for row in rows]
    path = write_lines(tmp_path / "BFCL_v4_simple_python.json", rows)
    write_lines(tmp_path / "possible_answer" / path.name, answers)
    assert read_bfcl(path) == inside
    write_lines(tmp_path / "possible_answer" / path.name, answers[1:])
    with pytest.raises(InvalidParameterError, match="no answer"):
        read_bfcl(path)


def test_xlam_is_read_as_published() -> None:
    first, second = read_xlam(SAMPLES / "xlam_published" / "xlam_function_calling_60k.json")
    assert first.question == [{"role": "user", "content": "Double 4."}]
    assert first.answers == [("double", {"x": [4], "unit": ["m", ""]})]
    assert second.answers == [("stop", {})]
    assert rate_call('{"name": "double", "arguments": {"x": 4}}', first, "json")["score"] == 1
    assert rate_call('{"name": "double", "arguments": {}}', first, "json")["score"] == 0


@pytest.mark.parametrize(
    "rows",
    [
        [{"concepts": ["a", "b"], "references": ["x", "y"]}],
        [{"concept_set": "a#b", "scene": ["x", "y"]}],
        [
            {"concept_set_idx": 0, "concepts": ["a", "b"], "target": "x"},
            {"concept_set_idx": 0, "concepts": ["a", "b"], "target": "y"},
        ],
    ],
)
def test_commongen_is_read_in_all_its_layouts(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    (found,) = read_commongen(write_lines(tmp_path / "dev.jsonl", rows))
    assert (found.words, found.references) == (("a", "b"), ("x", "y"))


@pytest.mark.parametrize("text", ["{", "[1]", '{"other": 1}', ""])
def test_files_of_another_kind_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    readers = (read_bfcl, read_commongen, read_xlam)
    for read in readers:
        if text:
            with pytest.raises(InvalidParameterError):
                read(path)
    with pytest.raises(InvalidParameterError, match="PCGCD_DATA"):
        read_bfcl(tmp_path / "missing.jsonl")


EXAMPLE = CallExample(
    "e",
    [{"role": "user", "content": "?"}],
    [
        {
            "name": "f",
            "parameters": {
                "type": "dict",
                "properties": {
                    "city": {"type": "string"},
                    "n": {"type": "integer"},
                    "at": {"type": "dict", "properties": {"x": {"type": "float"}}},
                    "list": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
        }
    ],
    [
        (
            "f",
            {
                "city": ["New York", "NYC"],
                "n": [3, ""],
                "at": [{"x": [1.0, 2.5]}, ""],
                "list": [["a", "b"], ""],
            },
        )
    ],
)


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        ({"city": "New York"}, 1),
        ({"city": "new-york."}, 1),
        ({"city": "NYC", "n": 3}, 1),
        ({"city": "NYC", "n": 3.0}, 1),
        ({"city": "NYC", "n": True}, 0),
        ({"city": "NYC", "n": 4}, 0),
        ({"city": "NYC", "at": {"x": 2.5}}, 1),
        ({"city": "NYC", "at": {"x": 3}}, 0),
        ({"city": "NYC", "at": {}}, 0),
        ({"city": "NYC", "list": ["A", "b"]}, 1),
        ({"city": "NYC", "list": ["b", "a"]}, 0),
        ({"city": "Boston"}, 0),
        ({"n": 3}, 0),
        ({"city": "NYC", "more": 1}, 0),
    ],
)
def test_arguments_are_right_where_all_are_accepted(
    arguments: dict[str, Any], score: float
) -> None:
    as_json = json.dumps({"name": "f", "arguments": arguments})
    as_python = f"f({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    for text, style in ((as_json, "json"), (as_python, "python")):
        found = rate_call(text, EXAMPLE, style)  # type: ignore[arg-type]
        assert found == {"score": score, "parsable": 1, "right_function": 1}


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("", "json"),
        ("[]", "json"),
        ('{"name": "f"}', "json"),
        ('{"name": 1, "arguments": {}}', "json"),
        ('{"name": "f", "arguments": {}', "json"),
        ("f(1)", "python"),
        ("f(x=y)", "python"),
        ("f(**{})", "python"),
        ("f", "python"),
        ("f(x=1", "python"),
        ("[" * 2000, "json"),
    ],
)
def test_what_is_no_call_is_not_parsed(text: str, style: Style) -> None:
    assert parse_call(text, style) is None
    assert rate_call(text, EXAMPLE, style)["parsable"] == 0


@pytest.mark.parametrize("style", ["json", "python"])
def test_right_answers_are_right_and_satisfy_the_constraint(style: Style) -> None:
    for example in read_bfcl(SAMPLES / "bfcl" / "simple_python.jsonl")[:4]:
        text = gold_call(example, style)
        assert rate_call(text, example, style)["score"] == 1
        assert function_calling.call_task(example, style).constraint().matches(text)


def test_examples_whose_answer_is_impossible_are_left_out(tmp_path: Path) -> None:
    data = sample_data(tmp_path)
    file = data / "bfcl" / "simple_python.jsonl"
    row = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    ((name, accepted),) = row["ground_truth"][0].items()
    nothing = {name: {argument: [] for argument in accepted}}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({**row, "id": "accepts nothing", "ground_truth": [nothing]}) + "\n")
    names = {
        example.name
        for part in ("test", "development")
        for example in function_calling.examples_of(
            tiny_options(data, part=part), 100, ("json", "python")
        )
    }
    assert names == {"simple_0", "simple_1", "simple_2", "simple_3"}


def test_training_prompts_are_left_out(tmp_path: Path) -> None:
    """With all files of BFCL, four of five questions are for training."""
    rows = [json.loads(line) for line in (SAMPLES / "bfcl/simple_python.jsonl").open()]
    many = [
        {**row, "id": f"{i}", "question": [[{"role": "user", "content": f"Question {i}?"}]]}
        for i in range(3)
        for row in rows[:1]
    ]
    for place, name in enumerate(("simple_python", "multiple", "live_simple")):
        own = [
            {
                **row,
                "id": f"{name} {row['id']}",
                "question": [[{"role": "user", "content": f"{place} {row['id']}?"}]],
            }
            for row in many
        ]
        write_lines(tmp_path / "bfcl" / f"{name}.jsonl", own)
    asked = {
        str(source.prompt[-1]["content"])  # type: ignore[index]
        for source in tool_prompts(tmp_path, "train")
    }
    found = {e.question[-1]["content"] for e in function_calling.call_examples(tmp_path)}
    assert found
    assert asked
    assert not found & asked
    assert held_out(tmp_path, tool_prompts, ["new?", *asked], str) == ["new?"]
    own = [source.prompt for source in function_calling.training_prompts(tmp_path)]
    assert {str(prompt[-1]["content"]) for prompt in own} == asked  # type: ignore[index]
    assert len(own) == 2 * len(asked)


def test_prompts_of_an_experiment_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases that a table asks about are in no prompt, those of the prompts in no table."""
    data = sample_data(tmp_path)
    pets = data / "spider" / "database" / "pets" / "pets.sqlite"
    rows, tables = [], []
    for name in "abcdef":
        database = data / "spider" / "database" / name / f"{name}.sqlite"
        database.parent.mkdir()
        database.write_bytes(pets.read_bytes())
        rows.append({"db_id": name, "question": f"Names in {name}?", "query": "SELECT 1"})
        tables.append(
            {
                "db_id": name,
                "table_names_original": ["pet"],
                "column_names_original": [[0, "name"], [0, "age"]],
            }
        )
    write_lines(data / "spider" / "dev.jsonl", rows)
    (data / "spider" / "tables.json").write_text(json.dumps(tables))
    monkeypatch.setenv("PCGCD_DATA", str(data))
    out = tmp_path / "out"
    assert main(["experiment", "prompts", "--of", "spider", "--out", str(out)]) == 0
    lines = (out / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    written = [json.loads(line)["messages"] for line in lines]
    asked = {question.text for question in spider.questions(tiny_options(data))}
    asked |= {
        question.text for question in spider.questions(tiny_options(data, part="development"))
    }
    trained = {messages[-1]["content"] for messages in written}
    assert sorted(asked | trained) == [f"Names in {name}?" for name in "abcdef"]
    assert not asked & trained
    assert all("CREATE TABLE pet" in messages[0]["content"] for messages in written)
    assert main(["experiment", "prompts", "--of", "bias", "--out", str(out)]) == 2


# -- CommonGen ------------------------------------------------------------------------------------


def test_bleu_and_coverage() -> None:
    (dog, *_) = read_commongen(SAMPLES / "commongen" / "dev.jsonl")
    assert commongen.rate("A dog runs.", dog)["coverage"] == 1
    assert commongen.rate("A dog.", dog)["coverage"] == 0.5
    assert commongen.rate("Nothing else.", dog)["coverage"] == 0
    best = commongen.rate("The dog is running.", dog)["score"]
    assert best == pytest.approx(100)
    assert commongen.rate("running is dog The", dog)["score"] < best


# -- Spider ---------------------------------------------------------------------------------------


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return sample_data(tmp_path) / "spider" / "database" / "pets" / "pets.sqlite"


def test_queries_are_answered(pets: Path) -> None:
    assert answer(pets, "SELECT age FROM pet WHERE name = 'Rex';") == [(4,)]
    assert "CREATE TABLE pet" in schema_text(pets)
    for wrong in ("SELECT", "SELECT no FROM pet", "SELECT 1; SELECT 2", "", "hello", "\0"):
        assert not answer(pets, wrong)


def test_reference_queries_have_the_white_space_of_people(tmp_path: Path) -> None:
    folder = sample_data(tmp_path) / "spider"
    odd = "SELECT  count ( * ) , name FROM pet WHERE name  =  'a ,  b' "
    row = {"db_id": "pets", "question": "How many?", "query": odd}
    write_lines(folder / "dev.jsonl", [row])
    (question,) = read_spider(folder / "dev.jsonl", folder / "database")
    assert question.query == "SELECT count(*), name FROM pet WHERE name = 'a ,  b'"


def test_nothing_is_ever_written(pets: Path) -> None:
    before = pets.read_bytes()
    for query in (
        "DELETE FROM pet",
        "DROP TABLE pet",
        "INSERT INTO pet VALUES ('x', 1)",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "PRAGMA user_version = 5",
        "VACUUM INTO 'copy.sqlite'",
        "CREATE TEMP TABLE t (a)",
    ):
        assert answer(pets, query) is None
    assert pets.read_bytes() == before
    assert [path.name for path in pets.parent.iterdir()] == ["pets.sqlite"]


def test_a_query_that_never_ends_is_stopped(pets: Path) -> None:
    endless = (
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    )
    started = time.monotonic()
    assert answer(pets, endless, seconds=0.2) is None
    assert time.monotonic() - started < 60  # not a measurement: it would never end
    few = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 3) SELECT x FROM c"
    assert answer(pets, few) == [(1,), (2,), (3,)]


def test_answers_are_compared_in_order_only_where_one_was_asked_for(pets: Path) -> None:
    rising, falling = (
        answer(pets, f"SELECT name FROM pet ORDER BY name {o}") for o in ("", "DESC")
    )
    assert same_answer(rising, falling, ordered=False)
    assert not same_answer(rising, falling, ordered=True)
    assert not same_answer(None, None, ordered=False)
    twice = answer(pets, "SELECT age FROM pet")
    assert not same_answer(twice, answer(pets, "SELECT DISTINCT age FROM pet"), ordered=False)
    assert not is_ordered("SELECT a FROM t WHERE b = 'order by'")
    assert is_ordered("SELECT a FROM t ORDER  BY (SELECT 1)")


def test_databases_that_are_too_large_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sample_data(tmp_path)
    both = ("test", "development")
    everything = [q for part in both for q in spider.questions(tiny_options(data, part=part))]
    assert everything

    def too_large(database: Path, **_: Any) -> Any:
        raise AutomatonTooLargeError("many tables")

    spider.constraint_of.cache_clear()
    monkeypatch.setattr(spider, "sql", too_large)
    assert not [q for part in both for q in spider.questions(tiny_options(data, part=part))]
    spider.constraint_of.cache_clear()


def test_queries_are_right_where_they_return_the_same(pets: Path) -> None:
    folder = pets.parents[2]
    question = read_spider(folder / "dev.jsonl", folder / "database")[0]
    assert spider.rate("select age from pet where name='Rex'", question) == {"score": 1, "runs": 1}
    assert spider.rate("SELECT age + 1 FROM pet WHERE name = 'Rex'", question)["score"] == 0
    assert spider.rate("SELECT", question) == {"score": 0, "runs": 0}
    with pytest.raises(InvalidParameterError, match="database"):
        read_spider(folder / "dev.jsonl", folder)


def test_texts_that_are_no_utf8_do_not_stop_a_query(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.execute("INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
        connection.commit()
    assert answer(path, "SELECT a FROM t") == [("�A",)]

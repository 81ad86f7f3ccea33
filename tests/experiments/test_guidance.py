"""The comparison of methods, in a world whose evidence is known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments import guidance
from pcgcd.experiments.guidance import Measurement, measure, summary
from pcgcd.experiments.tasks import (
    data_folder,
    distillation_prompts,
    query_prompts,
    schema_prompts,
    tool_prompts,
    word_prompts,
)
from pcgcd.learning import Source
from pcgcd.learning.distillation.prompts import constraint_of
from tests.decoding import worlds

SOURCES = [
    Source("", {"regex": "a*b"}),
    Source("", {"regex": "(ab)+"}),
    Source("", {"regex": "a{9}b{9}"}),  # no such text fits in the budget
]


def test_with_the_model_itself_as_hmm_every_estimate_is_the_evidence() -> None:
    methods: dict[str, dict[str, Any]] = {
        "P-GCD": {"method": "pgcd", "w": 0.0, "gcd_share": 0.0},
        "twisted": {"method": "twisted", "w": 0.0, "gcd_share": 0.0},
        "twice": {"method": "twisted", "w": 0.0, "gcd_share": 0.0, "times": 2},
    }
    lm = worlds.hmm_lm(7)
    found = measure(
        lm, worlds.hmm(7), SOURCES, task="t", budget=5, particles=3, methods=methods, seed=4
    )
    assert [(m.method, m.prompt) for m in found] == [
        (name, prompt) for name in methods for prompt in (0, 1)
    ]
    for measurement in found:
        described = SOURCES[measurement.prompt].constraint
        assert described is not None
        fa = constraint_of(described).compile(worlds.VOCABULARY)
        evidence = sum(worlds.target(lm, fa, 5).values())
        assert measurement.log_evidence == pytest.approx(math.log(evidence), abs=1e-4)
        assert measurement.particles == 3
        assert measurement.satisfied == (6 if measurement.method == "twice" else 3)
    assert [row["texts"] for row in summary(found)] == [6, 6, 12]


def test_the_summary_compares_with_the_first_method() -> None:
    def row(method: str, prompt: int, value: float) -> Measurement:
        return Measurement("t", prompt, method, 8, value, 4.0, 8, "")

    rows = summary([row("a", 0, -3), row("a", 1, -5), row("b", 0, -2), row("b", 1, -6)])
    assert [r["method"] for r in rows] == ["a", "b"]
    assert rows[1]["log_evidence"] == -4
    assert rows[1]["gain"] == 0
    assert rows[1]["standard_error"] == pytest.approx(1.0)
    assert rows[1]["better_on"] == 1


def test_the_variance_is_that_over_seeds_and_gains_are_of_means() -> None:
    def row(method: str, prompt: int, seed: int, value: float) -> Measurement:
        return Measurement("t", prompt, method, 8, value, 4.0, 8, "", seed, 2.0)

    first, second = summary(
        row(method, prompt, seed, value * (prompt + 1))
        for method, values in (("a", (-3.0, -5.0)), ("b", (-1.0, -2.0)))
        for prompt in (0, 1)
        for seed, value in enumerate(values)
    )
    assert (first["seeds"], first["prompts"]) == (2, 2)
    assert first["variance"] == pytest.approx((2.0 + 8.0) / 2)
    assert second["variance"] == pytest.approx((0.5 + 2.0) / 2)
    assert second["gain"] == pytest.approx((2.5 + 5.0) / 2)
    assert second["worst_gain"] == pytest.approx(2.5)
    assert second["cpu_seconds"] == 2.0


def test_a_run_that_was_interrupted_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []

    def measured(*_: Any, task: str, seed: int, **options: Any) -> list[Measurement]:
        calls.append((task, seed))
        if len(calls) == 3:
            raise KeyboardInterrupt
        (method,) = options["methods"]
        return [Measurement(task, 0, method, 8, -1.0, 4.0, 8, "", seed)]

    monkeypatch.setattr(guidance, "measure", measured)
    settings: Any = {"data": data, "prompts": 2, "methods": {"GCD": {"method": "gcd"}}, "seeds": 2}
    lm, hmm, out = worlds.hmm_lm(7), worlds.hmm(7), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        guidance.run(lm, hmm, out, **settings)
    found = guidance.run(lm, hmm, out, **settings)
    assert len(found) == 6
    assert len(calls) == 7  # three tasks with two seeds, and the one that was interrupted
    assert json.loads((out / "guidance.json").read_text())["summary"][0]["seeds"] == 2
    with pytest.raises(InvalidParameterError, match="test or development"):
        guidance.run(lm, hmm, data=data, part="train")


def test_a_prompt_without_a_constraint_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="prompt 0 has no constraint"):
        measure(worlds.hmm_lm(7), worlds.hmm(7), [Source([0])], task="t", budget=5)


def tool(name: str, description: str = "") -> dict[str, Any]:
    properties = {"x": {"type": "integer", "description": description}}
    return {"name": name, "parameters": {"type": "dict", "properties": properties}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few records of the four sets, some of which are to be left out."""
    question = [[{"role": "user", "content": "Add two."}]]
    tools = [
        *({"question": question, "function": [tool(f"f{i}")]} for i in range(10)),
        {"question": question * 2, "function": [tool("two_turns")]},
        {"question": question, "function": [tool("long", "word " * 300)]},
        {"question": question, "function": [tool("n" * 200)]},
    ]
    words = [{"concepts": ["a" * (1 + i), "b", "c"]} for i in range(30)]
    words += words[:6]
    words += [{"concepts": list("abcde")}, {"concepts": ["two words"]}]
    for name, rows in {
        "bfcl/simple_python": tools,
        "bfcl/multiple": [],
        "bfcl/live_simple": [],
        "commongen/train": words,
        "commongen/dev": words[:3],
        "json_schema/jsonschemabench": [
            *({"schema": {"const": i}} for i in range(10)),
            {"schema": {"const": "long " * 30}},
            {"schema": {"$ref": "https://example.org/unknown"}},
        ],
        "spider/dev": [{"db_id": f"d{i % 5}", "question": f"Which {i}?"} for i in range(20)],
    }.items():
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = [
        {
            "db_id": f"d{i}",
            "table_names_original": ["t", "u"],
            "column_names_original": [[-1, "*"], [0, "a"], [0, "b"], [1, "c"]],
        }
        for i in range(5)
    ]
    (tmp_path / "spider" / "tables.json").write_text(json.dumps(tables))
    return tmp_path


def test_the_parts_are_disjoint_and_hold_what_fits(data: Path) -> None:
    train, held_out = tool_prompts(data, "train"), tool_prompts(data, "held out")
    names = [s.constraint["tools"][0]["name"] for s in (*train, *held_out) if s.constraint]
    assert sorted(names) == [f"f{i}" for i in range(10)]
    assert len(held_out) == 2
    assert len(word_prompts(data, "train")) == 36
    assert len(word_prompts(data, "held out")) == 3


def test_schemas_and_databases_are_divided_too(data: Path) -> None:
    train, held_out = schema_prompts(data, "train"), schema_prompts(data, "held out")
    found = [s.constraint["json_schema"]["const"] for s in (*train, *held_out) if s.constraint]
    assert (sorted(found), len(held_out)) == (list(range(10)), 2)
    train, held_out = query_prompts(data, "train"), query_prompts(data, "held out")
    assert (len(train), len(held_out)) == (16, 4)
    assert train[0].constraint == {"sql": {"t": ["a", "b"], "u": ["c"]}, "max_depth": 0}
    assert constraint_of(train[0].constraint).matches("SELECT a FROM t")
    assert "t(a, b); u(c)" in str(train[0].prompt)


def test_of_forty_prompts_thirty_two_have_a_constraint(data: Path) -> None:
    mixed = distillation_prompts(data)
    assert len(mixed) == 80
    for block in (mixed[:40], mixed[40:]):
        kinds = [name for s in block for name in s.constraint or ["none"]]
        expected = {"keywords": 15, "tools": 12, "json_schema": 4, "sql": 1, "none": 8}
        assert {name: kinds.count(name) for name in expected} == expected


def test_missing_data_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCGCD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidParameterError, match="set PCGCD_DATA"):
        data_folder()
    with pytest.raises(InvalidParameterError, match=r"commongen/dev\.jsonl"):
        word_prompts(tmp_path, "held out")


def test_the_figure_has_a_panel_for_each_task() -> None:
    found = [
        Measurement(task, prompt, method, 8, float(prompt), 4.0, 8, "")
        for task in ("function calls", "words")
        for method in guidance.METHODS
        for prompt in range(3)
    ]
    figure = guidance.figure(found)
    assert [axes.get_title() for axes in figure.axes] == [
        "function calls, 8 particles",
        "words, 8 particles",
    ]


def test_every_method_is_one_that_the_generator_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = worlds.hmm_lm(7)
    monkeypatch.setattr(lm, "spell", lambda text: (0,) * len(text), raising=False)
    measure(lm, worlds.hmm(7), SOURCES[:1], task="t", budget=5, particles=2)

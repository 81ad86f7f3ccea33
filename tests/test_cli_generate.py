"""``pcgcd generate`` and ``pcgcd mask``: what they print, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.cli import main
from pcgcd.constraints import json_schema
from pcgcd.hmm import HMM
from pcgcd.lm import TransformersLM
from tests.lm.examples import tiny_model, tiny_tokenizer

SCHEMA = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}},
    "required": ["on"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model")
    tokenizer = tiny_tokenizer(chat=True)
    tiny_model("llama", len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def hmm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hmm") / "hmm"
    generator = torch.Generator().manual_seed(0)
    HMM.random(4, len(tiny_tokenizer()), generator=generator).save_pretrained(folder)
    return folder


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


def options(model: Path, *more: object) -> list[str]:
    return ["generate", "--prompt", "hello", "--model", str(model), *map(str, more)]


@pytest.mark.parametrize("method", ["pgcd", "gcd", "lcd", "unconstrained", "rejection"])
def test_one_json_object_with_everything(
    method: str, model: Path, hmm: Path, schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = options(
        model, "--json-schema", schema, "--budget", 20, "--particles", 3, "--method", method
    )
    arguments += ["--hmm", str(hmm), "--seed", "1", "--json"]
    assert main(arguments) == 0
    first = capsys.readouterr()
    result = json.loads(first.out)
    assert first.err == ""
    assert result["method"] == method
    constraint = json_schema(SCHEMA)
    assert result["satisfied"] == [constraint.matches(text) for text in result["texts"]]
    if method in ("gcd", "pgcd"):
        assert all(set(json.loads(text)) == {"on"} for text in result["texts"])
        assert len(result["effective_sample_sizes"]) == max(map(len, result["token_ids"]))
        assert result["log_evidence"] < 0
    main(arguments)
    again = json.loads(capsys.readouterr().out)
    assert again["token_ids"] == result["token_ids"]


def test_a_table_for_people(model: Path, schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(model, "--json-schema", schema, "--method", "gcd", "--chat")) == 0
    out = capsys.readouterr().out
    assert "log evidence" in out
    assert "effective sample size" in out
    assert "ms per token" in out


def test_equal_texts_are_one_row_with_their_weight(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(model, "--regex", "[[]/b[]]|y", "--particles", 16, "--seed", 0)) == 0
    out = capsys.readouterr().out
    assert "gcd: 2 different texts of 16" in out  # without an HMM, the default is GCD
    assert out.count("[/b]") == 1
    copies = [int(row.split("│")[2]) for row in out.splitlines() if "yes" in row]
    assert sum(copies) == 16


def test_temperature_zero_is_a_beam(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for particles in (1, 3):
        more = ("--regex", "[a-z]{2}", "--temperature", 0, "--particles", particles, "--json")
        assert main(options(model, *more)) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert len(found[0]["texts"]) == 1
    assert len(set(found[1]["texts"])) == 3
    assert found[1]["log_probs"] == sorted(found[1]["log_probs"], reverse=True)


def test_the_model_sees_its_tools(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "go", "description": "Go there."}]))
    seen = []
    encode = TransformersLM._encode_chat

    def recorded(self: TransformersLM, *arguments: Any) -> tuple[int, ...]:
        seen.append(encode(self, *arguments))
        return seen[-1][-20:]  # a tiny model reads no more

    monkeypatch.setattr(TransformersLM, "_encode_chat", recorded)
    common = ("--tools", tools, "--budget", 38, "--particles", 2, "--json")
    assert main(options(model, *common)) == 0
    assert "Go there." in tiny_tokenizer().decode(seen[-1])
    assert main(options(model, *common, "--hide-tools")) == 0
    assert len(seen) == 1


def test_tools_keywords_and_patterns(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(
        json.dumps(
            [{"name": "go", "parameters": {"type": "object", "properties": {}, "required": []}}]
        )
    )
    common = ["--method", "gcd", "--particles", "2", "--budget", "40", "--json", "--seed", "0"]
    for more in (
        ["--tools", tools, "--hide-tools"],
        ["--keywords", "hat,dog"],
        ["--regex", "[a-c]{3}"],
    ):
        assert main(options(model, *more, *common)) == 0
        result = json.loads(capsys.readouterr().out)
        assert all(result["satisfied"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--regex", "abc", "--method", "gcd", "--budget", "2"], "smallest budget that works is 3"),
        (["--regex", "abc", "--method", "pgcd"], "give --hmm, or use --method gcd"),
        (["--regex", "abc", "--temperature", "0", "--method", "rejection"], "use --method gcd"),
        (
            ["--regex", "b", "--top-k", "1", "--truncate", "model", "--seed", "0", "--json"],
            "--truncate allowed",
        ),
        (["--regex", "(", "--method", "gcd"], "position"),
        (["--regex", "a", "--method", "gcd", "--particles", "0"], "particle"),
        (["--regex", "a", "--hmm", "no/such/folder"], "no/such/folder"),
        (["--json-schema", "no/such/file", "--method", "gcd"], "no/such/file"),
    ],
)
def test_errors_are_one_sentence(
    model: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(model, *more)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


def test_a_model_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    arguments = options(tmp_path / "nothing", "--regex", "a", "--method", "gcd")
    assert main(arguments) == 2
    assert "no language model" in capsys.readouterr().err


def test_an_hmm_of_another_vocabulary_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HMM.random(2, 5).save_pretrained(tmp_path / "other")
    assert main(options(model, "--regex", "a*", "--hmm", tmp_path / "other")) == 2
    assert "the HMM has 5" in capsys.readouterr().err


def test_mask_lists_the_tokens_that_may_follow(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mask", "--regex", "a(b|c)*dd", "--prefix", "ab", "--json"]
    assert main(arguments) == 0
    free = json.loads(capsys.readouterr().out)
    assert [token["text"] for token in free["tokens"]] == ["b", "c", "d"]
    assert free["shortest_completion"] == 2
    assert not free["complete"]
    assert main([*arguments, "--budget", "2"]) == 0
    tight = json.loads(capsys.readouterr().out)
    assert [token["text"] for token in tight["tokens"]] == ["d"]


def test_mask_tells_the_end_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--regex", "ab*", "--prefix", "a"]) == 0
    out = capsys.readouterr().out
    assert "end of text" in out
    assert "is complete" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--prefix", "x"], "begins with 'x'"),
        (["--prefix", "a", "--budget", "2"], "smallest budget that works is 3"),
    ],
)
def test_mask_refuses_what_cannot_be(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mask", "--regex", "abbb", *more]) == 2
    assert message in capsys.readouterr().err

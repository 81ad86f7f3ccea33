"""``pcgcd generate`` and ``pcgcd mask``: what they print, and how they refuse."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.cli import main
from pcgcd.constraints import json_schema
from pcgcd.hmm import HMM, load_hmm
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
    tiny_model("llama", len(tokenizer), max_length=256).save_pretrained(folder)
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
    assert main(options(model, "--json-schema", schema, "--method", "gcd")) == 0
    out = capsys.readouterr().out
    facts = out.splitlines()[-1]
    assert "log evidence" in facts
    assert re.search(r"\d+ (different texts|text) of 8, effective sample size", facts)
    assert "ms per token" in facts


def test_a_text_of_several_lines_is_one_row(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = r"a\n\tb\x1b\[1m"
    assert main(options(model, "--regex", pattern, "--budget", 30, "--particles", 2)) == 0
    out = capsys.readouterr().out
    assert r"a\n\tb\x1b[1m" in out
    assert sum("yes" in row for row in out.splitlines()) == 1
    assert main(options(model, "--regex", pattern, "--budget", 30, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["texts"][0] == "a\n\tb\x1b[1m"


def test_equal_texts_are_one_row_with_their_weight(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(model, "--regex", "[[]/[by][]]", "--particles", 16, "--seed", 0)) == 0
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


# -- where texts come from ---------------------------------------------------------------------

INLINE = json.dumps({"enum": ["ab", "cd"]})
TOOLS = json.dumps([{"name": "go", "parameters": {"type": "object", "properties": {}}}])
GRAMMAR = 'start: "ab" | "cd"'


def compiled(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["compile", *more, "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {name: value for name, value in facts.items() if not name.startswith("seconds")}


@pytest.mark.parametrize(
    ("option", "text"), [("--json-schema", INLINE), ("--tools", TOOLS), ("--grammar", GRAMMAR)]
)
def test_a_file_standard_input_and_the_text_itself_are_the_same(
    option: str,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "given.txt"
    file.write_text(text)
    expected = compiled(capsys, option, str(file))
    assert expected["byte_states"] > 2
    assert compiled(capsys, option, text) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert compiled(capsys, option, "-") == expected


def test_a_file_that_exists_is_read_whatever_its_name_looks_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for option, name, text in (
        ("--json-schema", "[draft] schema", '{"const": "x"}'),
        ("--grammar", "start: 'y'", 'start: "abc"'),
    ):
        Path(name).write_text(text)
        assert compiled(capsys, option, name)["shortest_length"] == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--json-schema", "no/such.json"], "neither a file that exists nor JSON itself"),
        (["--json-schema", "true"], "neither a file that exists nor JSON itself"),
        (["--json-schema", "x" * 5000], "neither a file that exists nor JSON itself"),
        (["--json-schema", ' {"type":'], "read as JSON itself, is not valid JSON"),
        (["--tools", "[1,"], "--tools, read as JSON itself, is not valid JSON"),
        (["--tools", "{file}"], "read as the file {file}, is not valid JSON"),
        (["--grammar", "{binary}"], "read as the file {binary}, is not a text in UTF-8"),
        (["--json-schema", "-"], "read as standard input, is not valid JSON"),
        (["--grammar", "no/such.lark"], "neither a file that exists nor a grammar itself"),
    ],
)
def test_an_error_says_how_the_option_was_read(
    more: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"{file}": tmp_path / "file", "{binary}": tmp_path / "binary"}
    names["{file}"].write_text("tools")
    names["{binary}"].write_bytes(b"start: \xff")
    for name, path in names.items():
        more = [str(path) if text == name else text for text in more]
        said = said.replace(name, str(path))
    monkeypatch.setattr("sys.stdin", io.StringIO("{"))
    assert main(["compile", *more]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.startswith("pcgcd: ")
    assert captured.err.count("\n") == 1


def test_a_prompt_from_standard_input(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ["--model", str(model), "--regex", "[a-d]{4}", "--seed", "0", "--json"]
    assert main(["generate", "--prompt", "hello\n", *common]) == 0
    expected = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\n"))
    assert main(["generate", "--prompt", "-", *common]) == 0
    assert json.loads(capsys.readouterr().out)["log_probs"] == expected["log_probs"]
    monkeypatch.setattr("sys.stdin", io.StringIO(INLINE))
    assert main(["generate", "--prompt", "-", "--model", str(model), "--json-schema", "-"]) == 2
    assert "--prompt and --json-schema both read standard input" in capsys.readouterr().err


# -- what the options become -------------------------------------------------------------------


class Noted(Exception):
    """A call that is not carried out."""


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Run a command up to the call of a function, and return the arguments of that."""

    def run(arguments: list[str], module: str, function: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def instead(*_: Any, **given: Any) -> None:
            found.update(given)
            raise Noted

        with monkeypatch.context() as patched:
            patched.setattr(f"{module}.{function}", instead)
            with pytest.raises(Noted):
                main(arguments)
        return found

    return run


@pytest.mark.parametrize(
    ("more", "expected"), [([], {}), (["--chat"], {"chat": True}), (["--no-chat"], {"chat": False})]
)
def test_a_prompt_is_a_message_or_not_as_in_python(
    more: list[str],
    expected: dict[str, bool],
    model: Path,
    noted: Callable[..., dict[str, Any]],
) -> None:
    given = noted(options(model, "--regex", "a", *more), "pcgcd.decoding", "generate")
    assert given["prompt"] == "hello"
    assert {name: value for name, value in given.items() if name == "chat"} == expected


def test_a_prompt_continues_as_it_stands_where_that_is_asked(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for more in ([], ["--chat"], ["--no-chat"]):
        assert main(options(model, "--regex", "[a-d]{4}", "--seed", 0, "--json", *more)) == 0
        found.append(json.loads(capsys.readouterr().out)["log_probs"])
    assert found[0] == found[1] != found[2]  # the tiny model has a chat template


@pytest.mark.parametrize(
    ("more", "function", "expected"),
    [
        (
            [
                "--json-schema",
                INLINE,
                "--state-limit",
                "7",
                "--max-length",
                "8",
                "--max-depth",
                "2",
            ],
            "json_schema",
            {"state_limit": 7, "max_length": 8, "max_depth": 2},
        ),
        (
            ["--json-schema", INLINE, "--relax", "format", "--relax", "not", "--open-objects"],
            "json_schema",
            {"relax": ["format", "not"], "open_objects": True},
        ),
        (
            ["--tools", TOOLS, "--whitespace", "compact", "--max-depth", "1"],
            "function_call",
            {"whitespace": "compact", "max_depth": 1, "style": "json"},
        ),
        (["--keywords", "dog", "--state-limit", "9"], "keywords", {"state_limit": 9}),
        (
            ["--sql", "some.sqlite", "--max-depth", "0", "--state-limit", "9"],
            "sql",
            {"max_depth": 0, "state_limit": 9},
        ),
        (["--grammar", GRAMMAR, "--max-depth", "3"], "grammar", {"max_depth": 3}),
        (["--json-schema", INLINE], "json_schema", {}),
    ],
)
def test_limits_go_to_the_constraint(
    more: list[str],
    function: str,
    expected: dict[str, Any],
    noted: Callable[..., dict[str, Any]],
) -> None:
    assert noted(["compile", *more], "pcgcd.constraints", function) == expected


def test_advice_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each error names an option, and the command ends well with it."""
    for constraint, advice, followed in (
        (["--json-schema", '{"type": "array", "uniqueItems": true}'], "--relax uniqueItems", []),
        (["--keywords", "dog,cat", "--state-limit", "5"], "--state-limit", ["50000"]),
    ):
        assert main(["compile", *constraint]) == 2
        assert f" {advice}" in capsys.readouterr().err
        assert main(["compile", *constraint, *advice.split(), *followed]) == 0
        capsys.readouterr()


def test_a_warning_is_one_sentence_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    schema = ["--json-schema", '{"type": "string", "maxLength": 5000}']
    assert main(["compile", *schema]) == 0
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("pcgcd: bounds of the schema were lowered")
    assert "raise --max-length or --state-limit" in said
    assert main(["compile", *schema, "--max-length", "5000"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--regex", "a", "--max-length", "3"], "--max-length goes with --json-schema, --tools"),
        (["--grammar", GRAMMAR, "--state-limit", "3"], "--state-limit goes with --json-schema"),
        (["--tools", TOOLS, "--open-objects"], "--open-objects goes with --json-schema, not"),
    ],
)
def test_a_limit_of_another_constraint_is_refused(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", *more]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def tiny_default(model: Path, hmm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model and its HMM in the place of the default ones."""
    default = load_hmm(hmm)
    monkeypatch.setattr(
        "pcgcd.lm.load_model", lambda name: TransformersLM.from_pretrained(name or model)
    )
    monkeypatch.setattr("pcgcd.hmm.default_hmm", lambda: default)


@pytest.mark.usefixtures("tiny_default")
@pytest.mark.parametrize(
    ("more", "method"),
    [
        ([], "gcd"),
        (["--hmm", "default"], "twisted"),
        (["--hmm", "default", "--hmm", "default"], "twisted"),
        (["--method", "pgcd"], "pgcd"),
        (["--method", "twisted"], "twisted"),
        (["--method", "gcd"], "gcd"),
    ],
)
def test_nothing_looks_ahead_unless_that_is_asked(
    more: list[str], method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["generate", "--prompt", "hello", "--regex", "[a-d]{2}", "--seed", "0", "--json"]
    assert main([*common, *more]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == method


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
    assert all("Go there." not in tiny_tokenizer().decode(ids) for ids in seen[1:])


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

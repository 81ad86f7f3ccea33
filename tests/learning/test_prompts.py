"""Prompts, and constraints as plain data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcgcd.errors import InvalidParameterError
from pcgcd.learning.distillation.prompts import (
    Source,
    constraint_of,
    fingerprint,
    read_prompts,
    sources_of,
)
from pcgcd.lm import TransformersLM
from tests.lm.examples import tiny_model, tiny_tokenizer


def test_each_line_of_a_text_is_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("Once upon\n\n  indented\u2028still\r\n")
    assert [source.prompt for source in read_prompts(path)] == [
        "Once upon",
        "  indented\u2028still",
    ]


def test_json_lines_hold_prompts_chats_and_constraints(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Hi"}]
    lines = [
        {"prompt": "x"},
        {"prompt": [1, 2]},
        {"messages": chat, "constraint": {"regex": "a+"}},
        "y",
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    sources = read_prompts(path)
    assert [source.prompt for source in sources] == ["x", [1, 2], chat, "y"]
    assert sources[2].constraint == {"regex": "a+"}
    written = tmp_path / "again.jsonl"
    written.write_text("\n".join(source.to_json() for source in sources))
    assert fingerprint(read_prompts(written)) == fingerprint(sources)
    assert fingerprint(sources[::-1]) != fingerprint(sources)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1 of p.jsonl is not valid JSON"),
        ("3", "must be a text"),
        ('{"prompt": "a", "messages": []}', "must be a text"),
        ('{"prompt": "a", "color": 1}', "unknown entries color"),
        ('{"messages": []}', "role and content"),
        ('{"messages": [{"role": "user"}]}', "role and content"),
        ('{"prompt": 3}', "a text or a list of token ids"),
        ('{"prompt": "a", "constraint": {"regexp": "a"}}', "exactly one of tools"),
        ("", "has no prompts"),
    ],
)
def test_a_line_that_means_nothing_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(InvalidParameterError, match=said):
        read_prompts(path)


def test_plain_data_describes_constraints() -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {}}}]
    for described, yes, no in (
        ({"regex": "a+"}, "aa", "b"),
        ({"keywords": ["dog"], "inflect": False}, "my dog", "my dogs"),
        ({"tools": tools, "whitespace": "compact"}, '{"name":"f","arguments":{}}', "f()"),
        ({"json_schema": {"type": "boolean"}}, "true", "1"),
    ):
        constraint = constraint_of(described)
        assert constraint.matches(yes)
        assert not constraint.matches(no)
    with pytest.raises(InvalidParameterError, match="not understood"):
        constraint_of({"regex": "a", "color": 1})
    with pytest.raises(InvalidParameterError, match="exactly one"):
        constraint_of({"regex": "a", "keywords": ["a"]})


def test_one_prompt_is_no_list_of_prompts() -> None:
    with pytest.raises(InvalidParameterError, match="one prompt was given"):
        sources_of("Once upon a time")
    with pytest.raises(InvalidParameterError, match="at least one prompt"):
        sources_of([])
    assert sources_of(None) == (Source(""),)


def test_a_text_is_the_message_that_generate_will_send() -> None:
    tokenizer = tiny_tokenizer(chat=True)
    lm = TransformersLM(tiny_model("llama", len(tokenizer)), tokenizer)
    message = [{"role": "user", "content": "hi"}]
    assert sources_of(["hi", message, [5]], lm) == (Source(message), Source(message), Source([5]))
    assert sources_of(None, lm) == (Source(""),)

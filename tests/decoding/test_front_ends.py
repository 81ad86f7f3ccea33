"""``generate`` as people call it: models of transformers, types, tools, several prompts, async."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import pcgcd
from pcgcd.constraints import Call, json_schema, regex
from pcgcd.decoding import Request, Sample
from pcgcd.decoding.generation import Options
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import TableLM, TransformersLM
from pcgcd.lm.chats import with_tools
from pcgcd.lm.coercion import language_model_of
from tests.decoding import worlds
from tests.lm.examples import tiny_model, tiny_tokenizer

BYTES = pcgcd.Vocabulary.from_bytes([*(bytes([b]) for b in range(128)), None], eos_ids=128)


def lm() -> TableLM:
    return TableLM.random(BYTES, seed=0, order=1)


@dataclass
class Answer:
    word: Literal["yes", "no"]
    number: int


def lookup(key: Literal["a", "b"], depth: int = 1) -> None:
    """Look a key up."""


# -- what to generate -----------------------------------------------------------------------------


def test_the_typed_value_is_parsed() -> None:
    result = pcgcd.generate(lm(), Answer, budget=60, seed=0)
    assert isinstance(result.parsed, Answer)
    assert result.parsed == Answer(**json.loads(result.best))
    assert all(isinstance(sample.parsed, Answer) for sample in result)


def test_calls_are_name_and_arguments() -> None:
    result = pcgcd.generate(lm(), [lookup], budget=60, seed=0)
    assert isinstance(result.parsed, Call)
    assert result.parsed.name == "lookup"
    assert result.parsed.arguments["key"] in ("a", "b")
    lookup(**result.parsed.arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"target": {"type": "integer"}},
        {"target": json_schema({"type": "integer"})},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": {"type": "integer"}},
            }
        },
        {"response_format": int},
        {"target": int},
    ],
    ids=str,
)
def test_several_ways_to_ask_for_a_number(options: dict[str, Any]) -> None:
    result = pcgcd.generate(lm(), budget=8, seed=0, **options)
    assert isinstance(result.parsed, int)
    assert (
        result.texts
        == pcgcd.generate(lm(), json_schema({"type": "integer"}), budget=8, seed=0).texts
    )


def test_patterns_choices_and_rejection() -> None:
    assert set(pcgcd.generate(lm(), ["x", "y"], budget=2, seed=0).texts) <= {"x", "y"}
    assert pcgcd.generate(lm(), regex="[0-9]{3}", budget=4, seed=0).parsed.isdigit()
    small = TableLM.random(worlds.VOCABULARY, seed=0)
    kept = pcgcd.generate(small, Literal["a", "b"], budget=2, method="rejection", seed=0)
    assert kept.parsed in ("a", "b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "what to generate is missing"),
        ({"target": "a+"}, "write regex"),
        ({"target": ["a"], "regex": "a"}, "said once.*target, regex"),
        ({"tool_choice": "auto"}, "chooses from tools"),
        ({"target": ["a"], "tools": [lookup], "tool_choice": "auto"}, "said once"),
    ],
)
def test_unclear_requests_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        pcgcd.generate(lm(), budget=4, **options)


def test_requests_take_the_same_things() -> None:
    request = Request({"type": "integer"}, budget=6)
    assert pcgcd.Generator(lm()).run([request], seed=0)[0].satisfied[0]


# -- results --------------------------------------------------------------------------------------


def test_results_can_be_indexed_and_iterated() -> None:
    result = pcgcd.generate(worlds.table(), regex("[ab]+"), budget=4, particles=5, seed=0)
    samples = list(result)
    assert len(samples) == len(result) == 5
    assert isinstance(result[2], Sample)
    assert [str(s) for s in samples] == list(result.texts)
    assert [s.weight for s in samples] == list(result.weights)
    assert result[-1].token_ids == result.token_ids[-1]
    assert result[1].parsed == result.texts[1]
    with pytest.raises(IndexError):
        result[5]


def test_several_prompts_give_several_results() -> None:
    model = worlds.table()
    found = pcgcd.generate(model, regex("[ab]+"), prompt=["a", "b"], budget=4, seed=0)
    assert [type(one) for one in found] == [pcgcd.Generation] * 2
    requests = [Request(regex("[ab]+"), prompt, 4) for prompt in ("a", "b")]
    assert [one.texts for one in found] == [
        one.texts for one in pcgcd.Generator(model).run(requests, seed=0)
    ]
    ids = pcgcd.generate(model, regex("[ab]+"), prompt=[[0], [1]], budget=4, seed=0)
    assert [one.texts for one in ids] == [one.texts for one in found]
    assert len(pcgcd.generate(model, regex("[ab]+"), prompt=[0, 1], budget=4, particles=3)) == 3


def test_of_several_prompts_each_has_its_own_error() -> None:
    found = pcgcd.generate(worlds.table(), regex("[ab]+"), prompt=[[0], [99]], budget=4, seed=0)
    assert found[0].error is None
    assert "token ids must lie" in str(found[1].error)


# -- language models ------------------------------------------------------------------------------


def chatting(template: str | None = None) -> TransformersLM:
    tokenizer = tiny_tokenizer(chat=True)
    if template is not None:
        tokenizer.chat_template = template
    return TransformersLM(tiny_model("llama", len(tokenizer)), tokenizer)


def test_models_of_transformers_are_language_models(tmp_path: Path) -> None:
    own = chatting()
    own.model.save_pretrained(tmp_path)
    own.tokenizer.save_pretrained(tmp_path)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    expected = pcgcd.generate(own, regex("he?llo?"), prompt="he", budget=6, seed=0).texts
    options: dict[str, Any] = {"prompt": "he", "budget": 6, "seed": 0}
    for given in (model, (own.model, own.tokenizer), str(tmp_path), tmp_path):
        assert pcgcd.generate(given, regex("he?llo?"), **options).texts == expected
    given = pcgcd.generate(own.model, regex("he?llo?"), tokenizer=own.tokenizer, **options)
    assert given.texts == expected
    assert language_model_of(model) is language_model_of(model)


def test_a_model_without_a_tokenizer_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="give tokenizer="):
        pcgcd.generate(tiny_model("llama"), regex("a"), budget=2)
    with pytest.raises(InvalidParameterError, match="a language model has the methods"):
        pcgcd.generate(object(), regex("a"), budget=2)


# -- tools in prompts -----------------------------------------------------------------------------

SLOT = (
    "{% if tools %}<s>tools:{{ tools | tojson }}</s>{% endif %}"
    "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}</s>{% endfor %}<s>assistant:"
)
TOOL = {"type": "function", "function": {"name": "now", "description": "The time."}}


def shown(model: TransformersLM, prompt: Any, tools: list[Any]) -> str:
    return str(model.tokenizer.decode(Request(["x"], prompt, tools=tools).encoded_by(model)))


def test_tools_go_to_the_place_that_the_template_has() -> None:
    text = shown(chatting(SLOT), "hi", [TOOL])
    assert text.startswith("<s>tools:[{")
    assert '"The time."' in text
    assert "system" not in text
    assert text.endswith("<s>user:hi</s><s>assistant:")


def test_tools_go_to_a_system_message_where_the_template_has_no_place() -> None:
    text = shown(chatting(), [{"role": "user", "content": "hi"}], [TOOL, lookup])
    assert text.startswith("<s>system:You can call these functions")
    assert '"description": "The time."' in text
    assert '"Look a key up."' in text
    assert '"enum": ["a", "b"]' in text
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    text = shown(chatting(), chat, [TOOL])
    assert text.count("<s>system:") == 1
    assert "Be brief.\n\nYou can call" in text
    assert chat[0]["content"] == "Be brief."
    assert with_tools([], [TOOL])[0]["role"] == "system"


def test_tools_alone_constrain_and_are_shown() -> None:
    model, seen = chatting(SLOT), []
    encode = model.encode

    def recorded(prompt: Any, **options: Any) -> Any:
        seen.append(encode(prompt, **options))
        return seen[-1]

    model.encode = recorded  # type: ignore[method-assign]
    options: dict[str, Any] = {"prompt": "hi", "budget": 60, "particles": 2, "seed": 0}
    model.max_length = None
    result = pcgcd.generate(model, tools=[lookup], **options)
    assert all(result.satisfied)
    assert result.parsed.name == "lookup"
    assert "Look a key up." in model.tokenizer.decode(seen[-1])
    forced = pcgcd.generate(model, tools=[lookup, TOOL], tool_choice="now", **options)
    assert forced.parsed == Call("now", {})
    assert "Look a key up." in model.tokenizer.decode(seen[-1])


def test_tools_need_a_chat() -> None:
    plain = TransformersLM(tiny_model("llama", len(tiny_tokenizer())), tiny_tokenizer())
    for model, prompt, message in (
        (plain, "hi", "no chat template.*leave out tools="),
        (chatting(), [5, 6], "the prompt is token ids"),
        (lm(), "hi", "TableLM has no chat template"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            pcgcd.generate(model, tools=[TOOL], prompt=prompt, budget=40)


# -- async ----------------------------------------------------------------------------------------


def test_agenerate_runs_beside_the_event_loop() -> None:
    async def run() -> list[Any]:
        model = worlds.table()
        calls = [pcgcd.agenerate(model, regex("[ab]+"), budget=4, seed=seed) for seed in (0, 1)]
        return list(await asyncio.gather(*calls))

    found = asyncio.run(run())
    for seed, result in enumerate(found):
        alone = pcgcd.generate(worlds.table(), regex("[ab]+"), budget=4, seed=seed)
        assert result.texts == alone.texts
    with pytest.raises(InvalidParameterError):
        asyncio.run(pcgcd.agenerate(lm(), budget=4))


def test_prompts_may_be_tensors() -> None:
    found = pcgcd.generate(
        worlds.table(), regex("[ab]+"), prompt=torch.tensor([0, 1]), budget=3, seed=0
    )  # type: ignore[call-overload]
    assert all(found.satisfied)


def test_type_checkers_know_every_option() -> None:
    named = set(inspect.signature(pcgcd.generate).parameters)
    assert set(Options.__annotations__) == named - {"lm", "target", "prompt", "unknown"}

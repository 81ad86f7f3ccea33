"""The logits processor inside real vLLM: batches, a crowded cache, requests that are aborted."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jsonschema
import pytest

vllm = pytest.importorskip("vllm")

from pcgcd.integrations.vllm import ConstrainedLogitsProcessor  # noqa: E402
from pcgcd.lm import VLLM  # noqa: E402
from tests.vllm.conftest import counter  # noqa: E402
from tests.vllm.processor import Processor  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOLS = [{"name": "weather", "parameters": {"city": {"type": "string"}}}]


def is_schema(text: str) -> bool:
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


def is_call(text: str) -> bool:
    call = json.loads(text)
    call = call[0] if isinstance(call, list) else call
    return call["name"] == "weather" and isinstance(call["arguments"]["city"], str)


def has(text: str, *words: str) -> bool:
    return all(re.search(word, text, re.IGNORECASE) for word in words)


# What a request asks for, its max_tokens, and whether a text is as wanted.
ASKED: list[tuple[dict[str, Any], int, Callable[[str], Any]]] = [
    ({"pcgcd_regex": "[0-9]{4}-[0-9]{2}"}, 8, lambda t: re.fullmatch("[0-9]{4}-[0-9]{2}", t)),
    ({"pcgcd_json_schema": SCHEMA}, 24, is_schema),
    ({"pcgcd_json_schema": json.dumps(SCHEMA)}, 40, is_schema),
    ({"pcgcd_tools": TOOLS}, 30, is_call),
    ({"pcgcd_keywords": ["dog", "park"]}, 20, lambda t: has(t, "dog", "park")),
    ({"pcgcd_choice": ["yes", "no"]}, 4, lambda t: t in ("yes", "no")),
    (
        {"pcgcd_grammar": 'start: "a" start "b" | "ab"'},
        6,
        lambda t: t == "a" * (len(t) // 2) + "b" * (len(t) // 2),
    ),
]


def parameters(row: int, **others: Any) -> Any:
    """A request of the list above, by GCD and P-GCD in turn.

    Without a seed: on a CPU vLLM 0.32 stops at seeds where prompts are read in parts.
    """
    wish, budget, _ = ASKED[row % len(ASKED)]
    method = ("gcd", "pgcd")[row // len(ASKED) % 2]
    return vllm.SamplingParams(
        max_tokens=budget,
        extra_args={**wish, "pcgcd_method": method},
        **{"temperature": 1.0, **others},
    )


def check(row: int, output: Any) -> None:
    _, budget, is_valid = ASKED[row % len(ASKED)]
    assert is_valid(output.text), (row, output.text)
    assert len(output.token_ids) <= budget


def prompt(lm: VLLM, words: str = "Tell me. ") -> Any:
    return {"prompt_token_ids": list(lm.encode(words))}


def test_the_class_is_of_both_kinds_and_found_by_its_name() -> None:
    kind = ConstrainedLogitsProcessor
    for path in ("sample", "worker.gpu.sample"):
        interface = import_module(f"vllm.v1.{path}.logits_processor").LogitsProcessor
        assert issubclass(kind, interface)
    assert not getattr(kind, "__abstractmethods__", None)
    assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_several_constraints_and_methods_share_a_batch(lm: VLLM, temperature: float) -> None:
    rows = range(2 * len(ASKED))
    asked = [parameters(row, temperature=temperature) for row in rows]
    free = vllm.SamplingParams(max_tokens=5, temperature=0.0)
    alone = lm.llm.generate([prompt(lm)], free, use_tqdm=False)
    for _ in range(2):  # no state of the first batch is left for the second
        answers = lm.llm.generate([prompt(lm)] * (len(asked) + 1), [*asked, free], use_tqdm=False)
        for row in rows:
            check(row, answers[row].outputs[0])
        assert answers[-1].outputs[0].token_ids == alone[0].outputs[0].token_ids


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"pcgcd_regex": "[a-z]{300}"}, "smallest budget that works"),
        ({"pcgcd_regex": "(a"}, "regular expression|pattern|parenthes"),
        ({"pcgcd_regexp": "a"}, "pcgcd_regexp is no argument"),
    ],
)
def test_a_request_that_cannot_be_fulfilled_is_refused(
    lm: VLLM, extra: dict[str, Any], words: str
) -> None:
    asked = vllm.SamplingParams(max_tokens=2, extra_args=extra)
    with pytest.raises(vllm.exceptions.VLLMValidationError, match=words):
        lm.llm.generate([prompt(lm)], asked, use_tqdm=False)
    after = lm.llm.generate([prompt(lm)], parameters(5), use_tqdm=False)
    check(5, after[0].outputs[0])


def test_texts_are_valid_though_requests_are_preempted_and_prompts_read_in_parts(
    make: Callable[..., VLLM],
) -> None:
    """12 blocks of 32 tokens for 14 requests, and 24 tokens a step for prompts of 60 tokens."""
    lm = make(
        max_model_len=128,
        max_num_seqs=14,
        max_num_batched_tokens=24,
        enable_chunked_prefill=True,
        num_gpu_blocks_override=12,
    )
    rows = range(2 * len(ASKED))
    prompts = [prompt(lm, f"{row} " + "and then the dog ran away " * 9) for row in rows]
    assert all(len(asked["prompt_token_ids"]) > 50 for asked in prompts)
    before = counter(lm, "num_preemptions")
    for _ in range(2):
        answers = lm.llm.generate(prompts, [parameters(row) for row in rows], use_tqdm=False)
        for row in rows:
            check(row, answers[row].outputs[0])
    assert counter(lm, "num_preemptions") > before


def test_aborted_requests_leave_no_state(lm: VLLM) -> None:
    engine, processor = lm.llm.llm_engine, Processor.made[0]
    rows = range(12)
    for row in rows:
        engine.add_request(f"aborted {row}", prompt(lm, f"{row}: "), parameters(row))
    finished = {}
    for step in range(200):
        if step == 2:
            assert len(processor._running) > 6
            engine.abort_request([f"aborted {row}" for row in rows if row % 3])
        for answer in engine.step():
            if answer.finished:
                finished[answer.request_id] = answer.outputs[0]
        if not engine.has_unfinished_requests():
            break
    kept = {row for row in rows if not row % 3}
    assert {f"aborted {row}" for row in kept} <= set(finished)
    for row in kept:
        check(row, finished[f"aborted {row}"])
    free = vllm.SamplingParams(max_tokens=3, temperature=0.0)
    lm.llm.generate([prompt(lm)], free, use_tqdm=False)  # vLLM tells at the next step who has left
    assert processor._running == {}

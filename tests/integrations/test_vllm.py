"""The processor for vLLM without vLLM: what it does to rows that move, and what it refuses.

What vLLM itself does with it is tested by ``make test-vllm``, except for model runner V2 and rows
that are swapped, which need a GPU.
"""

from __future__ import annotations

import logging
import random
import re
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from pcgcd.constraints import regex
from pcgcd.decoding import PGCD, NextStep
from pcgcd.errors import (
    DeadEndError,
    EmptyLanguageError,
    InvalidParameterError,
    MissingDependencyError,
    PcgcdError,
    VocabularyMismatchError,
)
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.integrations import vllm
from tests.integrations.vllm_stand_in import Params, Request, V1Batch, V2Batch, config
from tests.lm.examples import VOCABULARY, tiny_tokenizer

EOS, WIDTH = VOCABULARY.eos_ids, VOCABULARY.logits_size
PATTERNS = ["(a|b|c)*cc", "(ab)*c?", "b{3}|a", "(a|b)*|c", "c(a|b){2,4}"]
RUNNERS = {"V1": V1Batch.make, "V2": V2Batch.make}


@cache
def hmm() -> HMM:
    generator = torch.Generator().manual_seed(3)
    return absorbing(HMM.random(5, WIDTH, generator=generator, concentration=0.6), EOS)


def processor(**attributes: Any) -> Any:
    settings = {"tokenizer": VOCABULARY, "hmm": hmm(), **attributes}
    return type("Processor", (vllm._ConstrainedLogitsProcessor,), settings)


def asked(pattern: str, budget: int, method: str = "gcd") -> Params:
    return Params(budget, {"pcgcd_regex": pattern, "pcgcd_method": method, "pcgcd_w": 0.4})


def is_over(request: Request) -> bool:
    return bool(request.text) and (
        request.text[-1] in EOS or len(request.text) == request.params.max_tokens
    )


def serve(
    batch: Any,
    queue: list[Request],
    look: Callable[[list[Request], Tensor, Tensor], None] | None = None,
) -> None:
    """Random requests enter and leave; tokens are drawn from random logits."""
    generator = torch.Generator().manual_seed(0)
    chance = random.Random(0)
    waiting, finished = list(queue), []
    for _ in range(1000):
        room = min(5 - len(batch.requests()) + len(finished), len(waiting))
        new = [waiting.pop() for _ in range(chance.randint(min(room, 1), room))]
        batch.change(finished, new)
        rows = list(batch.requests())
        if not rows:
            assert not waiting
            return
        before = 6 * torch.randn((len(rows), WIDTH), generator=generator)
        after = batch.apply(before.clone())
        if look is not None:
            look(rows, before, after)
        drawn = torch.multinomial(after.softmax(1), 1, generator=generator).flatten().tolist()
        for request, token in zip(rows, drawn, strict=True):
            request.text.append(token)
        finished = [request for request in rows if is_over(request)]
    raise AssertionError("the requests do not come to an end")


def many_requests(method: str) -> list[Request]:
    chance = random.Random(7)
    return [
        Request(asked(chance.choice(PATTERNS), chance.randint(4, 7), method)) for _ in range(20)
    ]


def pattern_of(request: Request) -> str:
    return str((request.params.extra_args or {})["pcgcd_regex"])


def assert_complete(requests: list[Request]) -> None:
    for request in requests:
        text = VOCABULARY.decode(request.text).decode()
        assert re.fullmatch(pattern_of(request), text), (request.params, request.text)
        assert len(request.text) <= (request.params.max_tokens or 0)
        assert not {7, 8} & set(request.text)


@cache
def completions(pattern: str, budget: int) -> frozenset[tuple[int, ...]]:
    """All texts, with their end if there is room for one, found by trying everything."""
    found = set()
    for length in range(budget + 1):
        for tokens in product(range(5), repeat=length):
            if re.fullmatch(pattern, VOCABULARY.decode(tokens).decode()):
                found |= {tokens} if length == budget else {(*tokens, end) for end in EOS}
    return frozenset(found)


@pytest.mark.parametrize("runner", RUNNERS)
def test_gcd_keeps_the_logits_of_exactly_the_tokens_that_can_be_completed(runner: str) -> None:
    seen = set()

    def look(rows: list[Request], before: Tensor, after: Tensor) -> None:
        for row, request in enumerate(rows):
            if request in free:
                assert torch.equal(after[row], before[row])
                continue
            budget, text = request.params.max_tokens or 0, tuple(request.text)
            every = completions(pattern_of(request), budget)
            allowed = {x[len(text)] for x in every if x[: len(text)] == text and x != text}
            expected = torch.full((WIDTH,), -torch.inf)
            expected[list(allowed)] = before[row, list(allowed)]
            assert torch.equal(after[row], expected), (request.params, text)
            seen.add((pattern_of(request), budget, text))

    chance = random.Random(2)
    queue = [Request(asked(chance.choice(PATTERNS), chance.randint(4, 5))) for _ in range(25)]
    free = [Request(Params(6, None)) for _ in range(8)]
    serve(RUNNERS[runner](processor(), 3), chance.sample([*queue, *free], 33), look)
    assert_complete(queue)
    assert len(seen) > 40


@pytest.mark.parametrize("runner", RUNNERS)
def test_pgcd_gives_the_log_probabilities_of_its_proposal(runner: str) -> None:
    def look(rows: list[Request], before: Tensor, after: Tensor) -> None:
        for row, request in enumerate(rows):
            fa = regex(pattern_of(request)).compile(VOCABULARY)
            state = (hmm() * fa).start([request.params.max_tokens or 0])
            for token in request.text:
                state = state.advance([token])
            step = NextStep(state, before[row : row + 1].log_softmax(1))
            expected = PGCD(0.4).weigh(step).dense(WIDTH).log_softmax(1)[0]
            torch.testing.assert_close(after[row], expected, rtol=1e-4, atol=1e-4)

    queue = many_requests("pgcd")
    serve(RUNNERS[runner](processor(), 4), queue, look)
    assert_complete(queue)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_step_too_many_changes_nothing(runner: str) -> None:
    """With asynchronous scheduling a row may come once more after its end."""
    batch = RUNNERS[runner](processor(), 0)
    requests = [Request(asked("a+", 3), text=text) for text in ([0, 5], [0, 0, 0])]
    batch.change([], requests)
    after = batch.apply(torch.zeros((2, WIDTH)))
    assert torch.isfinite(after).nonzero().tolist() == [[0, 5], [1, 5]]


# -- parameters ------------------------------------------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "json_schema": {"pcgcd_json_schema": {"enum": ["he", "hell"]}},
    "json text": {"pcgcd_json_schema": '{"enum": ["he", "hell"]}'},
    "tools": {
        "pcgcd_tools": [{"name": "f", "parameters": {"x": {"type": "integer"}}}],
        "pcgcd_style": "python",
    },
    "keywords": {"pcgcd_keywords": "cat,dog"},
    "choice": {"pcgcd_choice": ["he, she", "it"]},
    "grammar": {"pcgcd_grammar": 'start: "he" "ll"+'},
    "by name": {"pcgcd_constraint": "greeting"},
}
TEXTS = {
    "json_schema": '"hell"',
    "json text": '"hell"',
    "tools": "f(x=3)",
    "keywords": "a cat, a dog",
    "choice": "he, she",
    "grammar": "hell",
    "by name": "hello!",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_notation_is_understood(way: str) -> None:
    tokenizer = tiny_tokenizer()
    named = {"greeting": regex("hello") + "!"}
    kind = processor(tokenizer=tokenizer, hmm=None, constraints=named)
    params = Params(32, WAYS[way])
    kind.validate_params(params)
    text = [int(token) for token in tokenizer(TEXTS[way])["input_ids"]]
    batch = V1Batch.make(kind, 0)
    request = Request(params)
    batch.change([], [request])
    for token in [*text, tokenizer.eos_token_id]:
        assert batch.apply(torch.zeros((1, len(tokenizer))))[0, token] == 0
        request.text.append(token)


REFUSED = [
    (Params(8, {"pcgcd_regexp": "a"}), "pcgcd_regexp is no argument"),
    (Params(8, {"pcgcd_regex": "a", "pcgcd_choice": ["a"]}), "exactly one constraint"),
    (Params(8, {"pcgcd_method": "gcd"}), "exactly one constraint, but has none"),
    (Params(8, {"pcgcd_regex": "(a"}), "regular expression|pattern|parenthes"),
    (Params(2, {"pcgcd_regex": "c{3}"}), "smallest budget that works is 3"),
    (Params(8, {"pcgcd_regex": "z"}), "no sequence of tokens|no text"),
    (Params(None, {"pcgcd_regex": "a"}), "needs max_tokens"),
    (Params(8, {"pcgcd_regex": "a", "pcgcd_method": "lcd"}), "'gcd' or 'pgcd'"),
    (Params(8, {"pcgcd_regex": "a", "pcgcd_w": 1.5}), "between 0 and 1"),
    (Params(8, {"pcgcd_json_schema": "{"}), "not valid JSON"),
    (Params(8, {"pcgcd_json_schema": {1, 2}}), "JSON can hold"),
    (Params(8, {"pcgcd_choice": [1]}), "list of texts"),
    (Params(8, {"pcgcd_constraint": "x"}), "there is no constraint 'x'"),
    (Params(8, {"pcgcd_regex": "a"}, min_tokens=3), "min_tokens"),
    (Params(8, {"pcgcd_regex": "a"}, ignore_eos=True), "ignore_eos"),
    (Params(8, {"pcgcd_regex": "a"}, stop=["b"]), "stop can end"),
    (Params(8, {"pcgcd_regex": "a"}, stop_token_ids=[5, 3]), r"\[3\] in stop_token_ids"),
    (Params(8, {"pcgcd_regex": "a"}, structured_outputs=object()), "second constraint"),
]


@pytest.mark.parametrize(("params", "words"), REFUSED)
def test_wrong_requests_are_refused_before_generation(params: Params, words: str) -> None:
    """With an error that is ours, and a ValueError, which is what vLLM hands to the client."""
    with pytest.raises(InvalidParameterError, match=words) as found:
        processor().validate_params(params)
    assert isinstance(found.value, PcgcdError)
    assert isinstance(found.value, ValueError)


def test_pgcd_without_an_hmm_is_refused_and_gcd_is_the_default_then() -> None:
    kind = processor(hmm=None)
    with pytest.raises(InvalidParameterError, match="no HMM"):
        kind.validate_params(asked("a", 3, "pgcd"))
    kind.validate_params(Params(3, {"pcgcd_regex": "a"}))


def test_a_class_without_a_tokenizer_says_what_to_do() -> None:
    kind = processor(tokenizer=None)
    kind.validate_params(Params(3, None))
    with pytest.raises(InvalidParameterError, match="attribute tokenizer"):
        kind.validate_params(asked("a", 3))


def test_speculative_decoding_is_refused() -> None:
    engine = config()
    engine.speculative_config = object()
    with pytest.raises(InvalidParameterError, match="speculative"):
        processor()(engine, torch.device("cpu"), False)


# -- inside the engine, where nothing may stop the server ------------------------------------


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_prompt_that_leaves_too_little_context_gets_an_empty_text(
    runner: str, caplog: pytest.LogCaptureFixture
) -> None:
    batch = RUNNERS[runner](processor(), 0, max_model_len=8)
    crowded, roomy = Request(asked("c{3}", 6), [0] * 6), Request(asked("c{3}", 6), [0] * 5)
    with caplog.at_level(logging.ERROR):
        serve(batch, [crowded, roomy])
    assert crowded.text == [5]
    assert VOCABULARY.decode(roomy.text) == b"ccc"
    assert "smallest budget that works is 3" in caplog.text


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("method", ["gcd", "pgcd"])
def test_one_text_that_cannot_go_on_does_not_harm_the_others(
    runner: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    batch = RUNNERS[runner](processor(), 0)
    params = asked("c+", 4, method)
    stuck, wrong, fine = Request(params), Request(params, text=[0]), Request(params)
    batch.change([], [stuck, wrong, fine])
    rows = batch.requests()
    logits = torch.zeros((3, WIDTH))
    logits[rows.index(stuck), 3] = -torch.inf
    with caplog.at_level(logging.ERROR):
        after = batch.apply(logits)
    left = [torch.isfinite(after[rows.index(r)]).nonzero().flatten().tolist() for r in rows]
    found = dict(zip(map(rows.index, rows), left, strict=True))
    assert found[rows.index(stuck)] == found[rows.index(wrong)] == [5]
    assert found[rows.index(fine)] == [3]
    assert "score -inf" in caplog.text
    assert "cannot be completed" in caplog.text


def test_placeholders_instead_of_tokens_are_an_error() -> None:
    batch = V1Batch.make(processor(), 0)
    batch.change([], [Request(asked("a+", 4), text=[0, -1])])
    with pytest.raises(InvalidParameterError, match="async_scheduling=False"):
        batch.apply(torch.zeros((1, WIDTH)))


def test_logits_of_another_model_end_the_text(caplog: pytest.LogCaptureFixture) -> None:
    batch = V1Batch.make(processor(), 0)
    batch.change([], [Request(asked("a+", 4))])
    with caplog.at_level(logging.ERROR):
        batch.apply(torch.zeros((1, WIDTH - 1)))
    assert "8 wide" in caplog.text


# -- the class -------------------------------------------------------------------------------

SIGNS = {vllm._V1: "BatchUpdate", vllm._V2: "LogitsContext"}


def install(monkeypatch: pytest.MonkeyPatch, has: tuple[str, ...]) -> list[type]:
    """Put vLLM's base classes where imports look for them, and nothing in the others' places."""
    bases = []
    for path, sign in SIGNS.items():
        parts = path.split(".")
        for i in range(len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[: i + 1]), ModuleType(parts[i]))
        module: Any = sys.modules[path]
        if path in has:
            bases.append(type("LogitsProcessor", (), {}))
            module.LogitsProcessor = bases[-1]
            setattr(module, sign, object)
        else:
            monkeypatch.setitem(sys.modules, path, None)
    monkeypatch.setattr(vllm, "_with_bases", vllm._with_bases.__wrapped__)
    return bases


@pytest.mark.parametrize("has", [(vllm._V1,), (vllm._V2,), (vllm._V1, vllm._V2)])
def test_one_interface_is_enough(has: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    bases = install(monkeypatch, has)
    kind: Any = vllm.ConstrainedLogitsProcessor
    assert kind.__mro__ == (kind, vllm._ConstrainedLogitsProcessor, *bases, object)


def test_without_vllm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ())
    with pytest.raises(MissingDependencyError, match="pip install"):
        _ = vllm.ConstrainedLogitsProcessor


# -- one request at a time -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gcd", "pgcd"])
def test_the_function_of_one_request_does_as_the_batch_does(method: str) -> None:
    guide = hmm() if method == "pgcd" else None
    functions = {
        (pattern, budget): vllm.RequestLogitsProcessor(
            regex(pattern), VOCABULARY, budget, guide, w=0.4
        )
        for pattern in PATTERNS
        for budget in range(4, 8)
    }

    def look(rows: list[Request], before: Tensor, after: Tensor) -> None:
        for row, request in enumerate(rows):
            function = functions[pattern_of(request), request.params.max_tokens or 0]
            alone = function(request.text, before[row])
            torch.testing.assert_close(alone, after[row], rtol=1e-5, atol=1e-5)

    serve(V1Batch.make(processor(), 8), many_requests(method)[:15], look)


def test_the_function_of_one_request_raises_its_errors() -> None:
    with pytest.raises(EmptyLanguageError, match="smallest budget that works is 3"):
        vllm.RequestLogitsProcessor(regex("c{3}"), VOCABULARY, 2)
    with pytest.raises(VocabularyMismatchError, match="HMM"):
        vllm.RequestLogitsProcessor(regex("c"), VOCABULARY, 2, HMM.random(2, 5))
    function = vllm.RequestLogitsProcessor(regex("c"), VOCABULARY, 2)
    assert torch.isfinite(function([3, 5], torch.zeros(WIDTH))).nonzero().tolist() == [[5]]
    with pytest.raises(DeadEndError, match="-inf"):
        function([], torch.full((WIDTH,), -torch.inf))

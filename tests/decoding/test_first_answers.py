"""What a person gets first: prompts as they are typed, one best answer, errors that help."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pcgcd
from pcgcd.constraints import choice, literal, regex
from pcgcd.decoding import Request
from pcgcd.errors import CheckpointError, InvalidParameterError, VocabularyMismatchError
from pcgcd.lm import TableLM, TransformersLM
from tests.decoding import worlds
from tests.lm.examples import tiny_model, tiny_tokenizer


def model(chat: bool = True, max_length: int = 64) -> TransformersLM:
    tokenizer = tiny_tokenizer(chat=chat)
    return TransformersLM(tiny_model("llama", len(tokenizer), max_length), tokenizer)


# -- a text is the user's message -----------------------------------------------------------------


def asked(lm: TransformersLM, prompt: Any, **options: Any) -> str:
    """What the model reads before it writes."""
    result = pcgcd.generate(lm, ["a", "b"], prompt=prompt, budget=3, seed=0, **options)
    return lm.tokenizer.decode(result.prompt_ids)


def test_a_text_is_a_message_where_the_model_knows_chats() -> None:
    message = "<s>user:hi</s><s>assistant:"
    assert asked(model(), "hi") == asked(model(), "hi", chat=True) == message
    assert asked(model(), [{"role": "user", "content": "hi"}]) == message
    assert asked(model(), "hi", chat=False) == "hi"
    assert asked(model(chat=False), "hi") == "hi"
    assert asked(model(), [5, 6]) == model().tokenizer.decode([5, 6])


def test_each_text_of_a_batch_is_a_message() -> None:
    lm = model()
    prompts = ["hi", [{"role": "user", "content": "hi"}], "he"]
    results = pcgcd.generate(lm, ["a", "b"], prompt=prompts, budget=3, seed=0)
    read = [lm.tokenizer.decode(result.prompt_ids) for result in results]
    assert read[0] == read[1] == "<s>user:hi</s><s>assistant:"
    assert read[2] == "<s>user:he</s><s>assistant:"


def test_nothing_is_no_message() -> None:
    lm = model()
    assert pcgcd.generate(lm, ["a"], budget=3, seed=0).prompt_ids == lm.encode("")


@pytest.mark.parametrize(
    ("lm", "prompt", "options", "message"),
    [
        (model(chat=False), "hi", {"chat": True}, "no chat template"),
        (worlds.table(), "a", {"chat": True}, "no chat template"),
        (model(), [5, 6], {"chat": True}, "this one is token ids"),
        (model(), [{"role": "user", "content": "hi"}], {"chat": False}, "messages of a chat"),
        (model(), "hi", {"chat": False, "tools": [{"name": "now"}]}, "chat=False continues"),
        (model(), [{"content": "hi"}], {}, "a role and a content.*message 0"),
        (model(), [{"role": "user", "content": "hi"}, "hi"], {}, "message 1 is 'hi'"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_chat_is_refused(
    lm: Any, prompt: Any, options: dict[str, Any], message: str
) -> None:
    request = Request(["a"], prompt, 3, **options)  # type: ignore[arg-type]
    result = pcgcd.Generator(lm).run([request])[0]
    assert isinstance(result.error, InvalidParameterError)
    assert re.search(message, str(result.error))


def test_a_template_that_fails_says_so() -> None:
    lm = model()
    lm.tokenizer.chat_template = "{{ raise_exception('only users here') }}"
    with pytest.raises(InvalidParameterError, match=r"only users here.*chat=False"):
        pcgcd.generate(lm, ["a"], prompt="hi", budget=3)


# -- the best text --------------------------------------------------------------------------------


def test_the_best_text_is_the_most_probable_one_over_its_tokenizations() -> None:
    lm = worlds.table(3)
    for seed in range(5):
        result = pcgcd.generate(lm, regex("[ab]{1,3}"), budget=4, particles=12, seed=seed)
        masses: dict[str, float] = {}
        for ids in set(result.token_ids):
            text = result.texts[result.token_ids.index(ids)]
            mass = math.exp(result.log_probs[result.token_ids.index(ids)])
            masses[text] = masses.get(text, 0.0) + mass
        assert masses[result.best] == pytest.approx(max(masses.values()))
        assert result.distinct_texts == len(masses)


def test_copies_do_not_make_a_text_the_best() -> None:
    """The weights are the posterior's; the best text is the model's."""
    lm = worlds.table(0)
    result = pcgcd.generate(lm, regex("[ab]{1,3}"), budget=4, particles=64, seed=1)
    heaviest = next(iter(result.posterior()))
    runs = [
        pcgcd.generate(lm, regex("[ab]{1,3}"), budget=4, particles=3, seed=seed)
        for seed in range(40)
    ]
    assert any(next(iter(run.posterior())) != run.best for run in runs)
    assert result.sample(0) in result.posterior()
    assert heaviest in result.texts


def test_a_text_without_a_weight_is_never_the_best() -> None:
    result = pcgcd.generate(
        worlds.table(1), regex("b|ab"), budget=4, method="unconstrained", particles=200, seed=0
    )
    assert result.best in ("b", "ab")
    assert 1 <= result.distinct_texts <= 2 < len(set(result.texts))


def test_the_number_of_different_texts_stands_beside_the_effective_size() -> None:
    lm = TableLM(worlds.VOCABULARY, {}, default=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    result = pcgcd.generate(lm, regex("b{3}"), budget=3, particles=8, seed=0)
    assert result.effective_sample_size == pytest.approx(8)
    assert result.distinct_texts == result.to_dict()["distinct_texts"] == 1
    assert "8 texts, 1 different" in repr(result)


# -- the edge of a prompt -------------------------------------------------------------------------

EDGES = pcgcd.Vocabulary.from_bytes(
    [b"i", b"s", b" ", b" P", b"P", b"Q", b" Q", b"sP", b"is", None], eos_ids=9
)


def texts_from(prompt: tuple[int, ...], text: bytes, budget: int) -> list[tuple[int, ...]]:
    """All ways to continue the tokens of a prompt with the text, ended or of the full length."""
    ends: list[tuple[int, ...]] = []
    for n in range(1, budget + 1):
        for ids in itertools.product(range(9), repeat=n):
            if EDGES.decode(ids) == text:
                ends.append(ids if n == budget else (*ids, 9))
    return [ids for ids in ends if len(ids) <= budget]


@pytest.mark.parametrize("method", ["gcd", "lcd", "pgcd", "twisted"])
def test_the_end_of_a_raw_prompt_is_written_with_the_text(method: str) -> None:
    """The posterior and the evidence are sums over all tokenizations of the end and the text."""
    lm = TableLM.random(EDGES, seed=4, order=2)
    hmm = pcgcd.HMM.random(2, 10, generator=torch.Generator().manual_seed(0))
    result = pcgcd.generate(
        lm,
        choice(["P", "Q"]),
        prompt="is ",
        budget=3,
        particles=4000,
        method=method,
        hmm=hmm if method in ("pgcd", "twisted") else None,
        seed=0,
    )
    kept = (8,)  # "is": behind it, one token can span the space and the text
    assert result.prompt_ids == kept
    masses = {}
    for text in ("P", "Q"):
        masses[text] = 0.0
        for ids in texts_from(kept, b" " + text.encode(), 3 + 1):
            row = [lm.log_probs([kept + ids[:t]])[0, ids[t]] for t in range(len(ids))]
            masses[text] += math.exp(sum(row))
    total = sum(masses.values())
    assert math.exp(result.log_evidence) == pytest.approx(total, rel=0.08)
    for text, mass in masses.items():
        assert result.posterior()[text] == pytest.approx(mass / total, abs=0.03)
    assert set(result.texts) <= {"P", "Q"}
    assert all(result.satisfied)


def test_nothing_is_taken_back_that_no_token_can_span() -> None:
    lm = TableLM.random(EDGES, seed=4, order=2)
    plain = pcgcd.generate(lm, choice(["i"]), prompt="is ", budget=3, seed=0)
    assert plain.prompt_ids == lm.encode("is ")
    ids = pcgcd.generate(lm, choice(["P"]), prompt=lm.encode("is "), budget=3, seed=0)
    assert ids.prompt_ids == lm.encode("is ")
    alone = pcgcd.generate(
        lm, choice(["P"]), prompt="is ", budget=3, seed=0, method="unconstrained"
    )
    assert alone.prompt_ids == lm.encode("is ")


def test_what_was_taken_back_is_no_part_of_any_answer() -> None:
    lm = TableLM.random(EDGES, seed=4, order=2)
    options: dict[str, Any] = {"prompt": "is ", "budget": 4, "seed": 0}
    number = regex("[PQ]+")
    assert pcgcd.generate(lm, number, **options, stop="P").best.count("P") <= 1
    assert not pcgcd.generate(lm, number, **options, stop=" ").best.startswith(" ")
    generator = pcgcd.Generator(lm, smc=pcgcd.SMC(1))
    stream = generator.stream(Request(number, "is ", 4), seed=0)
    assert "".join(stream) == generator.run([Request(number, "is ", 4)], seed=0)[0].texts[0]
    greedy = pcgcd.generate(lm, number, prompt="is ", budget=4, temperature=0)
    assert all(set(text) <= {"P", "Q"} for text in greedy.texts)


def test_the_smallest_budget_does_not_change_with_the_edge() -> None:
    lm = TableLM.random(EDGES, seed=4, order=2)
    assert pcgcd.generate(lm, literal("PP"), prompt="is ", budget=2, seed=0).best == "PP"
    assert pcgcd.generate(lm, literal("PP"), prompt=(8, 2), budget=2, seed=0).best == "PP"


# -- room for the budget --------------------------------------------------------------------------


def test_a_budget_beyond_the_context_is_refused_at_once() -> None:
    lm = model(chat=False, max_length=16)
    # Three tokens of prompt; the last token of the budget is not read.
    assert pcgcd.generate(lm, regex("[ab]{3}"), prompt="he ll", budget=14, seed=0).best
    with pytest.raises(InvalidParameterError, match=r"budget is 15 .* room for 14; lower"):
        pcgcd.generate(lm, regex("a+"), prompt="he ll", budget=15)
    with pytest.raises(InvalidParameterError, match=r"128 tokens by default.* room for 14"):
        pcgcd.generate(lm, regex("a+"), prompt="he ll")
    with pytest.raises(InvalidParameterError, match="no room for any; shorten the prompt"):
        pcgcd.generate(lm, regex("a+"), prompt="a" * 20, budget=1)


# -- sentences instead of other people's errors ---------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": None}, "a prompt is a text, .* but got NoneType"),
        ({"prompt": b"ab"}, "got bytes b'ab'; decode it first"),
        ({"prompt": 3}, "a prompt is a text"),
        ({"prompt": {"role": "user"}}, "a prompt is a text"),
        ({"prompt": "a\ud800"}, "lone surrogate at position 1"),
        ({"stop": "\ud800"}, "lone surrogate"),
        ({"stop": 3}, "stop must be a text"),
        ({"stop": ""}, "stop must be a text that is not empty"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"seed": 1 << 70}, "seed must be a whole number"),
        ({"hmm": 3}, "folder or hub id of an HMM, but is int 3"),
        ({"max_tokens": 5}, "no option 'max_tokens'; did you mean budget="),
        ({"max_new_tokens": 5}, "did you mean budget="),
        ({"temprature": 0}, "did you mean temperature="),
        ({"nonsense": 0}, "no option 'nonsense'; it has"),
    ],
    ids=str,
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        pcgcd.generate(worlds.table(), regex("[ab]+"), **{"budget": 3, **options})


def test_an_hmm_may_be_named_by_its_folder(tmp_path: Path) -> None:
    hmm = worlds.hmm()
    hmm.save_pretrained(tmp_path / "hmm")
    lm, constraint = worlds.table(), regex("[ab]+")
    named = pcgcd.generate(lm, constraint, hmm=str(tmp_path / "hmm"), budget=3, seed=0)
    assert named.method == "twisted"
    assert named.texts == pcgcd.generate(lm, constraint, hmm=hmm, budget=3, seed=0).texts
    with pytest.raises(CheckpointError):
        pcgcd.generate(lm, constraint, hmm=tmp_path / "nothing", budget=3)
    other = pcgcd.HMM.random(2, 9)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(VocabularyMismatchError):
        pcgcd.generate(lm, constraint, hmm=tmp_path / "other", budget=3)


def test_one_bad_prompt_does_not_keep_the_others() -> None:
    prompts: list[Any] = ["a", None, [0, 1], b"a", "a\ud800"]
    results = pcgcd.generate(worlds.table(), regex("[ab]+"), prompt=prompts, budget=3, seed=0)
    assert [result.error is None for result in results] == [True, False, True, False, False]
    for place in (1, 3, 4):
        assert str(results[place].error).startswith(f"prompt {place}: ")
        assert "failed: prompt" in repr(results[place])
        with pytest.raises(InvalidParameterError, match=f"prompt {place}: "):
            _ = results[place].best

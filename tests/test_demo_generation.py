"""The demo of generation, on a model that is small enough for a test."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console

from pcgcd import viz
from pcgcd.constraints import keywords, regex
from pcgcd.demo import generation
from pcgcd.demo.generation import METHODS, Outcome, Scene
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM
from tests.lm.examples import tiny_model, tiny_tokenizer

MESSAGES = ({"role": "user", "content": "hello"},)
STAGE = (
    Scene("Letters", MESSAGES, regex("[a-d]{2,8}e"), 9),
    Scene("Words", MESSAGES, keywords({"he": ["he"], "ill": ["ill"]}, alphabet="ascii"), 12),
)


@pytest.fixture(scope="module")
def outcomes() -> tuple[Outcome, ...]:
    pytest.importorskip("transformers")
    from pcgcd.lm import TransformersLM

    tokenizer = tiny_tokenizer(chat=True)
    lm = TransformersLM(tiny_model("llama", len(tokenizer)), tokenizer)
    hmm = HMM.random(4, len(tokenizer), generator=torch.Generator().manual_seed(0))
    return generation.run(lm, hmm, STAGE, particles=4, seed=0)


def test_gcd_and_pgcd_are_always_valid(outcomes: tuple[Outcome, ...]) -> None:
    for outcome in outcomes:
        assert list(outcome.results) == list(METHODS)
        for name in ("GCD", "P-GCD + SMC", "default"):
            result = outcome.results[name]
            assert all(result.satisfied)
            assert result.log_evidence > -math.inf


def test_the_report_tells_texts_and_figures(outcomes: tuple[Outcome, ...]) -> None:
    printed = io.StringIO()
    generation.report(outcomes, Console(file=printed, width=160))
    text = printed.getvalue()
    for expected in ("Letters", "Words", "4 of 4", *METHODS):
        assert expected in text
    first = outcomes[0].results["GCD"]
    assert first.texts[max(range(4), key=lambda i: first.weights[i])] in text


def test_the_picture_can_be_saved(outcomes: tuple[Outcome, ...], tmp_path: Path) -> None:
    path = viz.save(generation.figure(outcomes), tmp_path / "picture.png")
    assert path.stat().st_size > 10_000


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="at least one"):
        viz.figure_methods([])


def test_the_scenes_of_the_demo_have_texts_within_their_budgets() -> None:
    """At byte level: the examples that one would expect are in the constraints."""
    pytest.importorskip("lemminflect")
    call, sentence = generation.scenes()
    assert call.constraint.matches(
        '{"name":"get_weather","arguments":{"city":"Paris","unit":"celsius","days":3}}'
    )
    assert sentence.constraint.matches("The dog caught a frisbee.")
    assert not sentence.constraint.matches("The dog ran.")

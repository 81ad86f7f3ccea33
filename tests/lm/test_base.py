"""What every language model and every session keeps to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.lm import LanguageModel, PrefixSession, TableLM
from tests.lm.examples import VOCABULARY, assert_session_follows_prefixes


class Counting(LanguageModel):
    """Passes questions on, and writes down which prefixes were asked for."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.vocabulary = lm, lm.vocabulary
        self.asked: list[list[tuple[int, ...]]] = []

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        self.asked.append([tuple(prefix) for prefix in prefixes])
        return self.lm.log_probs(prefixes)


@pytest.fixture
def lm() -> Counting:
    return Counting(TableLM.random(VOCABULARY, seed=4))


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 8), max_size=4).map(tuple), min_size=1, max_size=5),
    st.integers(0, 10**6),
)
def test_a_session_equals_whole_prefixes(prompts: list[tuple[int, ...]], seed: int) -> None:
    lm = TableLM.random(VOCABULARY, seed=4)
    assert_session_follows_prefixes(lm, prompts, seed, tolerance=0)


def test_equal_prefixes_are_asked_once(lm: Counting) -> None:
    session = lm.start([(0,), (0,), (1,), (0,)])
    assert isinstance(session, PrefixSession)
    assert session.log_probs().shape == (4, 9)
    session.advance([2, 2, 2, 3])
    session.log_probs()
    session.reindex([3, 3, 0, 0, 1])
    session.log_probs()
    session.advance([7, 7, 1, 1, 2])
    session.log_probs()
    assert lm.asked == [
        [(0,), (1,)],
        [(0, 2), (1, 2), (0, 3)],
        [(0, 3, 7), (0, 2, 1), (0, 2, 2)],
    ]


def test_nothing_is_computed_before_it_is_asked_for(lm: Counting) -> None:
    session = lm.start([(), (1,)])
    session.advance([1, 2])
    session.reindex([1])
    session.advance([3])
    assert lm.asked == []
    first = session.log_probs()
    assert session.log_probs() is first
    assert lm.asked == [[(1, 2, 3)]]


def test_rows_can_all_be_dropped(lm: Counting) -> None:
    session = lm.start([(), (1,)])
    session.reindex([])
    assert session.num_rows == 0
    assert session.log_probs().shape == (0, 9)
    session.advance([])
    assert session.log_probs().shape == (0, 9)
    assert lm.asked == []


def test_rows_can_all_be_dropped_later(lm: Counting) -> None:
    session = lm.start([(), (1,)])
    session.log_probs()
    session.advance([0, 0])
    session.log_probs()
    session.reindex([])
    assert session.log_probs().shape == (0, 9)
    session.advance([])
    assert session.log_probs().shape == (0, 9)


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor, np.array])
def test_tokens_may_come_as_any_list(lm: Counting, kind: type) -> None:
    session = lm.start([(), (1,)])
    session.advance(kind([1, 2]))
    session.reindex(kind([1, 0]))
    torch.testing.assert_close(session.log_probs(), lm.lm.log_probs([(1, 2), (1,)]))
    assert lm.encode(kind([3, 1])) == (3, 1)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([1], InvalidParameterError, "each of 2 rows, but got 1"),
        ([1, 9], VocabularyMismatchError, r"0\.\.8, but 9"),
        ([1, -1], VocabularyMismatchError, r"0\.\.8, but -1"),
        ([1, 0.5], InvalidParameterError, "whole numbers, but 0.5"),
        ([1, True], InvalidParameterError, "whole numbers, but True"),
        (["a", "b"], InvalidParameterError, "encode texts first"),
        (torch.tensor([[1, 2]]), InvalidParameterError, r"shape is \(1, 2\)"),
        (3, InvalidParameterError, "list of whole numbers, but 3"),
    ],
)
def test_wrong_tokens_get_a_clear_error(
    lm: Counting, tokens: list[int], error: type[Exception], message: str
) -> None:
    session = lm.start([(), (1,)])
    with pytest.raises(error, match=message):
        session.advance(tokens)
    assert session.num_rows == 2


def test_wrong_rows_get_a_clear_error(lm: Counting) -> None:
    session = lm.start([(), (1,)])
    for rows in ([2], [-1]):
        with pytest.raises(InvalidParameterError, match=r"rows must lie in 0\.\.1"):
            session.reindex(rows)
    session.reindex([])
    with pytest.raises(InvalidParameterError, match="no rows"):
        session.reindex([0])


def test_prompts_that_are_not_encoded_get_a_clear_error(lm: Counting) -> None:
    for prompts in ("ab", ["ab"], [{"role": "user", "content": "ab"}], [1, 2]):
        with pytest.raises(InvalidParameterError, match="encode each prompt first"):
            lm.start(prompts)  # type: ignore[arg-type]
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.8, but 11"):
        lm.start([(1, 11)])


def test_encode_takes_texts_and_ids_but_no_chats(lm: Counting) -> None:
    assert VOCABULARY.decode(lm.encode("abcba")) == b"abcba"
    assert lm.encode([5, 8]) == (5, 8)
    assert lm.encode("") == lm.encode([]) == ()
    with pytest.raises(VocabularyMismatchError):
        lm.encode("abd")
    with pytest.raises(VocabularyMismatchError):
        lm.encode([9])
    with pytest.raises(InvalidParameterError, match="no chat template"):
        lm.encode([{"role": "user", "content": "ab"}])


def test_the_package_imports_without_transformers() -> None:
    code = "import sys, pcgcd.lm; print([m for m in ('transformers', 'gguf') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        __import__("pcgcd.lm").lm.Nothing  # noqa: B018

"""A hidden Markov model as the language model, and texts that end once."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from pcgcd import HMM, MonarchHMM
from pcgcd.automata import Vocabulary
from pcgcd.errors import (
    ImpossibleEvidenceError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import HMMLanguageModel
from tests.lm.examples import VOCABULARY, assert_session_follows_prefixes

SMALL = Vocabulary.from_bytes([b"a", b"b", None, None], eos_ids=[2, 3])


def random_hmm(num_hidden: int, vocab_size: int, seed: int = 0) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(
        num_hidden, vocab_size, concentration=0.5, generator=generator, dtype=torch.float64
    )


def random_monarch(vocab_size: int) -> MonarchHMM:
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> Tensor:
        return (3 * torch.rand(*shape, generator=generator, dtype=torch.float64)).softmax(-1)

    return MonarchHMM(rows(6), rows(2, 3, 3), rows(3, 2, 2), rows(6, vocab_size))


@pytest.mark.parametrize("hmm", [random_hmm(3, 4), random_monarch(4)], ids=["dense", "monarch"])
def test_rows_are_the_conditionals_of_the_circuit(hmm: HMM | MonarchHMM) -> None:
    lm = HMMLanguageModel(hmm, SMALL)
    for length in range(4):
        prefixes = list(itertools.product(range(4), repeat=length))
        x = torch.tensor(prefixes, dtype=torch.long).reshape(len(prefixes), length)
        expected = hmm.next_token_log_probs(x, length=6)
        torch.testing.assert_close(lm.log_probs(prefixes), expected, rtol=1e-9, atol=1e-9)


def test_the_rows_along_a_string_multiply_to_its_probability() -> None:
    hmm = random_hmm(5, 9)
    session = HMMLanguageModel(hmm, VOCABULARY).start([(1, 0)])
    total = hmm.log_value(torch.tensor([[1, 0]]))
    x = [3, 3, 8, 0, 5]
    for token in x:
        total = total + session.log_probs()[0, token]
        session.advance([token])
    torch.testing.assert_close(total, hmm.log_value(torch.tensor([[1, 0, *x]])))


@pytest.mark.parametrize("seed", range(5))
def test_a_session_equals_filtering_from_scratch(seed: int) -> None:
    for hmm in (random_hmm(5, 9, seed), random_monarch(9)):
        lm = HMMLanguageModel(hmm, VOCABULARY)
        assert_session_follows_prefixes(lm, [(), (1, 2), (), (3,)], seed, tolerance=1e-9)


def test_the_floating_type_can_be_chosen() -> None:
    hmm = random_hmm(4, 9).to(dtype=torch.float32)
    assert HMMLanguageModel(hmm, VOCABULARY).log_probs([(1,)]).dtype == torch.float32
    wide = HMMLanguageModel(hmm, VOCABULARY, dtype=torch.float64)
    assert wide.start([()]).log_probs().dtype == torch.float64
    assert wide.log_probs([]).shape == (0, 9)
    narrow = HMMLanguageModel(hmm.to(dtype=torch.bfloat16), VOCABULARY)
    assert narrow.log_probs([(1,)]).dtype == torch.float32


def test_long_texts_do_not_underflow() -> None:
    lm = HMMLanguageModel(random_hmm(4, 9).to(dtype=torch.float32), VOCABULARY)
    session = lm.start([()])
    for step in range(3000):
        session.advance([step % 9])
    assert torch.isfinite(session.log_probs()).all()


def test_nothing_follows_the_impossible() -> None:
    hmm = HMM(torch.tensor([1.0, 0.0]), torch.eye(2), torch.eye(2, 4))
    lm = HMMLanguageModel(hmm, SMALL)
    assert lm.log_probs([(0, 1)]).tolist() == [[-torch.inf] * 4]
    session = lm.start([(0,), (0,)])
    session.advance([0, 1])
    assert session.log_probs().exp().tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(ImpossibleEvidenceError, match=r"\(0, 1\) has probability zero"):
        lm.start([(0,), (0, 1)])


def test_the_vocabularies_must_agree() -> None:
    with pytest.raises(VocabularyMismatchError, match="8 tokens, but the vocabulary's logits have"):
        HMMLanguageModel(random_hmm(2, 8), VOCABULARY)


# -- texts that end once -----------------------------------------------------------------------


def first_end(x: tuple[int, ...], ends: set[int]) -> int | None:
    return next((t for t, token in enumerate(x) if token in ends), None)


@pytest.mark.parametrize("ends", [[2], [2, 3], [0, 3]])
@pytest.mark.parametrize("hmm", [random_hmm(3, 4), random_monarch(4)], ids=["dense", "monarch"])
def test_a_string_keeps_its_probability_up_to_the_first_end(
    hmm: HMM | MonarchHMM, ends: list[int]
) -> None:
    ended = absorbing(hmm, ends)
    for x in itertools.product(range(4), repeat=4):
        end = first_end(x, set(ends))
        found = ended.log_value(torch.tensor([x])).exp().item()
        if end is not None and len(set(x[end:])) > 1:
            assert found == 0
        else:
            upto = x if end is None else x[: end + 1]
            expected = hmm.log_value(torch.tensor([upto])).exp().item()
            assert found == pytest.approx(expected, rel=1e-12)
    assert ended.log_partition(7).item() == pytest.approx(0, abs=1e-12)


def test_ending_twice_changes_nothing() -> None:
    once = absorbing(random_hmm(3, 4), [2, 3])
    twice = absorbing(once, [2, 3])
    assert once.num_hidden == twice.num_hidden == 5
    for name in ("initial", "transition", "emission"):
        torch.testing.assert_close(getattr(twice, name), getattr(once, name))


def test_an_absorbing_model_keeps_its_floating_type() -> None:
    ended = absorbing(random_hmm(3, 4).to(dtype=torch.float32), 2)
    assert {ended.initial.dtype, ended.transition.dtype, ended.emission.dtype} == {torch.float32}


def test_a_model_of_nothing_but_ends() -> None:
    ended = absorbing(
        HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.0, 0.25, 0.75]])), [1, 2]
    )
    assert ended.num_hidden == 2
    assert ended.log_value(torch.tensor([[1, 1], [1, 2]])).exp().tolist() == [0.25, 0]


@pytest.mark.parametrize("ends", [[], [4], -1])
def test_ends_outside_the_vocabulary_get_a_clear_error(ends: list[int] | int) -> None:
    with pytest.raises(InvalidParameterError, match=r"in 0\.\.3"):
        absorbing(random_hmm(3, 4), ends)

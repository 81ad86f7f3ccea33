"""Expected counts against enumeration, differentiation and wider numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pcgcd import HMM
from pcgcd.errors import ImpossibleEvidenceError, InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HiddenMarkovModel, walks
from pcgcd.learning.em.expected_counts import Counts, expected_counts
from tests.hmm.models import dense, ending, enumerated_counts, gradient_counts, monarch, sampled


def as_list(counts: Counts, vocab: int) -> list[Tensor]:
    return [counts.initial, *counts.transition, counts.emission_matrix(vocab)]


def assert_all_close(found: list[Tensor], expected: list[Tensor], rtol: float) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.double(), other.double(), rtol=rtol, atol=rtol * 1e-2)


def test_counts_are_those_of_all_hidden_paths() -> None:
    hmm = dense(3, 4)
    batch = torch.tensor([[0, 1, 2, 3], [3, 3, 0, 1], [2, 0, 0, 0]])
    found = as_list(expected_counts(hmm, batch), 4)
    assert_all_close(found, list(enumerated_counts(hmm, batch)), 1e-12)


@pytest.mark.parametrize("hmm", [dense(5, 7), monarch(2, 3, 7), monarch(3, 2, 7), monarch(1, 4, 7)])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_counts_are_parameters_times_gradients(hmm: HiddenMarkovModel, length: int) -> None:
    batch = torch.randint(0, 7, (6, length), generator=torch.Generator().manual_seed(length))
    counts = expected_counts(hmm, batch)
    assert_all_close(as_list(counts, 7), gradient_counts(hmm, batch), 1e-10)
    assert counts.log_likelihood == pytest.approx(float(hmm.log_value(batch).sum()), rel=1e-12)
    assert float(counts.initial.sum()) == pytest.approx(6)
    assert float(counts.emission.sum()) == pytest.approx(6 * length)
    for part in counts.transition:
        assert float(part.sum()) == pytest.approx(6 * (length - 1))


@pytest.mark.parametrize("hmm", [dense(12, 30, power=8.0), monarch(4, 5, 30)])
def test_float32_counts_err_by_less_than_a_thousandth_at_length_512(hmm: HiddenMarkovModel) -> None:
    batch = sampled(hmm, 8, 512)
    exact = as_list(expected_counts(hmm, batch), 30)
    single = as_list(expected_counts(hmm.to(dtype=torch.float32), batch), 30)
    for one, other in zip(single, exact):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-6)


def test_monarch_counts_are_the_dense_ones_seen_through_its_factors() -> None:
    hmm = monarch(3, 4, 6)
    batch = sampled(hmm, 5, 11)
    left, right = expected_counts(hmm, batch).transition
    written = expected_counts(hmm.to_dense(), batch).transition[0].view(3, 4, 3, 4)  # i, j, k, l
    torch.testing.assert_close(left, written.sum(2))
    torch.testing.assert_close(right, written.sum(1).permute(2, 0, 1))


@pytest.mark.parametrize("hmm", [dense(4, 6), monarch(2, 2, 6)])
def test_counts_of_batches_add_up(hmm: HiddenMarkovModel) -> None:
    batch = sampled(hmm, 9, 7)
    both = expected_counts(hmm, batch[:4]) + expected_counts(hmm, batch[4:])
    whole = expected_counts(hmm, batch)
    assert_all_close(as_list(both, 6), as_list(whole, 6), 1e-12)
    assert (both.num_sequences, both.num_tokens) == (9, 63)
    assert both.log_likelihood == pytest.approx(whole.log_likelihood)


@pytest.mark.parametrize("room", [1, 4000, 10_000])
def test_how_many_sequences_are_walked_at_once_changes_nothing(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hmm = dense(8, 6)
    batch = sampled(hmm, 37, 7)
    whole = as_list(expected_counts(hmm, batch), 6)
    monkeypatch.setattr(walks, "_ROOM", room)
    monkeypatch.setattr(walks, "_MOST_ROOM", room)
    assert_all_close(as_list(expected_counts(hmm, batch), 6), whole, 1e-12)


def test_a_position_that_was_not_observed_is_summed_over() -> None:
    hmm = dense(3, 4)
    known = torch.tensor([[0, token, 2] for token in range(4)])
    weights = hmm.log_value(known).softmax(0)
    found = expected_counts(hmm, torch.tensor([[0, -1, 2]]))
    single = [expected_counts(hmm, row.unsqueeze(0)) for row in known]
    for index in range(2):
        mixed = sum(w * as_list(one, 4)[index] for w, one in zip(weights, single))
        torch.testing.assert_close(as_list(found, 4)[index], mixed)
    assert found.log_likelihood == pytest.approx(float(hmm.log_value(known).logsumexp(0)))
    assert found.num_tokens == 2
    assert float(found.emission.sum()) == pytest.approx(2)


def test_zeros_have_no_counts() -> None:
    hmm = ending(5, 7)
    counts = expected_counts(hmm, sampled(hmm, 20, 12))
    assert not bool(counts.transition[0][hmm.transition == 0].any())
    assert not bool(counts.emission_matrix(7)[hmm.emission == 0].any())
    assert not bool(counts.initial[hmm.initial == 0].any())


def test_sequences_beyond_the_range_of_float32_are_counted_exactly() -> None:
    hmm = dense(3, 4)
    emission = hmm.emission.clone()
    emission[:, 0] = torch.tensor([1e-36, 1e-33, 2e-36])
    rare = HMM(hmm.initial, hmm.transition, emission, validate=False)
    batch = torch.tensor([[1, 0, 2, 0, 0, 3], [1, 2, 3, 1, 2, 3]])
    exact = as_list(expected_counts(rare, batch), 4)
    single = expected_counts(rare.to(dtype=torch.float32), batch)
    assert_all_close(as_list(single, 4), exact, 1e-4)
    assert single.log_likelihood == pytest.approx(float(rare.log_value(batch).sum()), rel=1e-6)


def test_components_that_cannot_reach_each_other_stay_apart() -> None:
    """A state that explains the future well, but cannot be reached, must not disturb."""
    transition = torch.eye(2, dtype=torch.float64)
    emission = torch.tensor([[0.01, 0.99], [0.99, 0.01]], dtype=torch.float64)
    hmm = HMM(torch.tensor([1.0, 0.0], dtype=torch.float64), transition, emission)
    batch = torch.zeros(1, 512, dtype=torch.long)
    for dtype in (torch.float32, torch.float64):
        counts = expected_counts(hmm.to(dtype=dtype), batch)
        expected = torch.tensor([[511.0, 0.0], [0.0, 0.0]], dtype=dtype)
        torch.testing.assert_close(counts.transition[0], expected)


def test_impossible_sequences_and_wrong_tokens_are_errors() -> None:
    hmm = ending(3, 4)
    with pytest.raises(ImpossibleEvidenceError, match=r"sequence 1 .* position 2"):
        expected_counts(hmm, torch.tensor([[0, 1, 2], [0, 3, 1]]))
    with pytest.raises(VocabularyMismatchError, match="4 was found"):
        expected_counts(hmm, torch.tensor([[0, 4]]))
    with pytest.raises(VocabularyMismatchError, match="-2 was found"):
        expected_counts(hmm, torch.tensor([[0, -2]]))
    for wrong in (torch.tensor([0, 1]), torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.long)):
        with pytest.raises(InvalidParameterError, match="number, length"):
            expected_counts(hmm, wrong)

"""The n-gram model that HMMs are compared with."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pcgcd.errors import InvalidParameterError
from pcgcd.learning.em.ngrams import ngram_log_likelihood
from tests.hmm.models import dense, sampled


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_strings_of_one_length_have_probabilities_that_sum_to_one(order: int) -> None:
    data = sampled(dense(3, 4), 6, 5)
    strings = [torch.tensor([x]) for x in itertools.product(range(4), repeat=3)]
    total = sum(math.exp(3 * ngram_log_likelihood(data, x, 4, order=order)) for x in strings)
    assert total == pytest.approx(1)


def test_a_bigram_by_hand() -> None:
    data = torch.tensor([[0, 1], [0, 2]])
    first, second = (2 - 0.75) / 4 + 0.75 * 3 / 4 / 4, (1 - 0.75) / 4 + 0.75 * 3 / 4 / 4
    start = (2 - 0.75) / 2 + 0.75 / 2 * first
    after = (1 - 0.75) / 2 + 0.75 * 2 / 2 * second
    expected = (math.log(start) + math.log(after)) / 2
    found = ngram_log_likelihood(data, torch.tensor([[0, 1]]), 4)
    assert found == pytest.approx(expected)


def test_padding_is_neither_counted_nor_measured() -> None:
    short = torch.tensor([[0, 1, 3], [2, 3, 3]])
    long = torch.nn.functional.pad(short, (0, 9), value=3)
    one, other = (ngram_log_likelihood(x, x, 4, order=3, eos_ids=(3,)) for x in (short, long))
    assert one == pytest.approx(other)
    assert one < ngram_log_likelihood(long, long, 4, order=3)


def test_bad_arguments_get_a_clear_error() -> None:
    x = torch.tensor([[0, 1]])
    with pytest.raises(InvalidParameterError, match="1, 2 or 3"):
        ngram_log_likelihood(x, x, 4, order=4)
    with pytest.raises(InvalidParameterError, match="too many"):
        ngram_log_likelihood(x, x, 10**7, order=3)
    with pytest.raises(InvalidParameterError, match="at least one"):
        ngram_log_likelihood(x[:0], x, 4)

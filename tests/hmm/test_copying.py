"""HMMs that copy tokens of the prompt."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch

from pcgcd import HMM, MonarchHMM
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import Copying, absorbing, load_hmm

H, V = 4, 6


def copying(seed: int = 0) -> Copying:
    generator = torch.Generator().manual_seed(seed)
    return Copying(torch.rand(H, generator=generator), torch.rand(V, generator=generator))


def dense(seed: int = 0) -> HMM:
    hmm = HMM.random(H, V, generator=torch.Generator().manual_seed(seed))
    return HMM(hmm.initial, hmm.transition, hmm.emission, copying=copying(seed))


def monarch(seed: int = 0) -> MonarchHMM:
    hmm = HMM.random(H, V, generator=torch.Generator().manual_seed(seed))
    block = torch.tensor([[0.7, 0.3], [0.4, 0.6]]).expand(2, 2, 2)
    return MonarchHMM(hmm.initial, block, block.flip(1), hmm.emission, copying=copying(seed))


@pytest.mark.parametrize("make", [dense, monarch])
def test_given_a_prompt_each_state_mixes_its_emission_with_the_prompt(make) -> None:  # type: ignore[no-untyped-def]
    hmm = make()
    prompt = [5, 2, 2, 5, 0]
    given = hmm.given(prompt)
    share = torch.zeros(V)
    for token in set(prompt):
        share[token] = hmm.copying.weights[token]
    share = share / share.sum()
    for state in range(H):
        rate = hmm.copying.rates[state]
        expected = (1 - rate) * hmm.emission[state] + rate * share
        torch.testing.assert_close(given.emission[state], expected)
    assert type(given) is type(hmm)
    assert given.copying is None
    assert torch.equal(given.initial, hmm.initial)


def test_without_copying_or_without_tokens_to_copy_nothing_changes() -> None:
    plain = HMM.random(H, V)
    assert plain.given([1, 2]) is plain
    assert torch.equal(dense().given([]).emission, dense().emission)
    never = Copying(torch.full((H,), 0.5), torch.zeros(V))
    hmm = HMM(plain.initial, plain.transition, plain.emission, copying=never)
    assert torch.equal(hmm.given([0, 1]).emission, plain.emission)


@pytest.mark.parametrize("make", [dense, monarch])
@pytest.mark.parametrize("emission_dtype", [None, "int8"])
def test_checkpoints_keep_copying(make, emission_dtype: str | None, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    hmm = make()
    hmm.save_pretrained(tmp_path / "model", emission_dtype=emission_dtype)
    read = load_hmm(tmp_path / "model")
    assert read.copying is not None
    assert torch.equal(read.copying.rates, hmm.copying.rates)
    assert torch.equal(read.copying.weights, hmm.copying.weights)
    moved = read.to(dtype=torch.float64)
    assert moved.copying is not None
    assert moved.copying.rates.dtype == torch.float64


def test_wrong_parameters_are_told() -> None:
    with pytest.raises(InvalidParameterError, match="probabilities"):
        Copying(torch.tensor([1.5]), torch.ones(3))
    with pytest.raises(InvalidParameterError, match="at least 0"):
        Copying(torch.tensor([0.5]), torch.tensor([-1.0]))
    plain = HMM.random(H, V)
    wrong = Copying(torch.zeros(H + 1), torch.ones(V))
    with pytest.raises(InvalidParameterError, match="5 rates"):
        HMM(plain.initial, plain.transition, plain.emission, copying=wrong)
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.5"):
        dense().given([6])


EOS = (4, 5)


@pytest.mark.parametrize("make", [dense, monarch])
def test_nothing_but_eos_follows_an_eos_whatever_the_prompt_is(make) -> None:  # type: ignore[no-untyped-def]
    hmm = absorbing(make(), EOS)
    assert hmm.copying is not None
    assert not bool(hmm.copying.weights[list(EOS)].any())
    for prompt in ([0, 1, 2], [0, 4], [5, 5, 3], [0, 1, 2, 3, 4, 5]):
        given = hmm.given(prompt)
        for x in itertools.product(range(V), repeat=3):
            first = next((t for t, token in enumerate(x) if token in EOS), 3)
            if any(token != x[first] for token in x[first:]):
                assert float(given.log_value(torch.tensor([x]))) == -math.inf
        assert given.log_partition(3).exp().item() == pytest.approx(1, rel=1e-5)


def test_rates_of_an_absorbing_state_copy_nothing_even_if_given() -> None:
    plain = absorbing(HMM.random(2, V, generator=torch.Generator().manual_seed(4)), EOS)
    copies = Copying(torch.full((plain.num_hidden,), 0.5), torch.ones(V))
    hmm = plain.with_emission(plain.emission, copies)
    given = hmm.given([0, 1])
    assert torch.equal(given.emission[2:], plain.emission[2:])
    assert not torch.equal(given.emission[:2], plain.emission[:2])


def test_an_absorbing_model_copies_what_the_model_does_where_its_text_goes_on() -> None:
    """p(token | hidden state, no EOS, prompt) is the same; the chance of an EOS is that of none."""
    hmm = dense()
    weights = hmm.copying.weights.clone()  # type: ignore[union-attr]
    weights[list(EOS)] = 0
    hmm = hmm.with_emission(hmm.emission, Copying(hmm.copying.rates, weights))  # type: ignore[union-attr]
    prompt = [0, 3, 3]
    text = [token for token in range(V) if token not in EOS]
    ended, given = absorbing(hmm, EOS), hmm.given(prompt)
    for state in range(H):
        expected = given.emission[state, text] / given.emission[state, text].sum()
        torch.testing.assert_close(ended.given(prompt).emission[state, text], expected)
    torch.testing.assert_close(ended.transition, absorbing(with_no_copying(hmm), EOS).transition)


def test_where_states_end_texts_or_do_not_the_order_of_prompt_and_end_is_free() -> None:
    hmm = absorbing(HMM.random(3, V, generator=torch.Generator().manual_seed(1)), EOS)
    rates = torch.tensor([0.2, 0.9, 0.5, 0.0, 0.0])
    weights = torch.tensor([1.0, 2.0, 0.5, 1.0, 0.0, 0.0])
    hmm = hmm.with_emission(hmm.emission, Copying(rates, weights))
    x = torch.tensor(list(itertools.product(range(V), repeat=3)))
    one = absorbing(hmm, EOS).given([0, 2]).log_value(x).exp()
    other = absorbing(hmm.given([0, 2]), EOS).log_value(x).exp()
    torch.testing.assert_close(one, other)


def with_no_copying(hmm: HMM) -> HMM:
    return hmm.with_emission(hmm.emission)

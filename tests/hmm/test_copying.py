"""HMMs that copy tokens of the prompt."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import pickle
import weakref
from pathlib import Path

import pytest
import torch

from pcgcd import HMM, FiniteAutomaton, MonarchHMM
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


@pytest.mark.parametrize("make", [dense, monarch])
def test_the_same_prompt_gives_the_same_model_as_long_as_somebody_holds_it(make) -> None:  # type: ignore[no-untyped-def]
    hmm = make()
    given = hmm.given([5, 2, 2])
    assert hmm.given(iter((2, 5))) is given  # what is repeated, and in which order, does not count
    assert hmm.given([5]) is not given
    assert make().given([5, 2]) is not given
    forgotten = weakref.ref(given)
    del given
    gc.collect()
    assert forgotten() is None


def test_a_model_that_was_changed_gives_another_one() -> None:
    hmm = dense()
    before = hmm.given([1, 2])
    hmm.emission[0] = torch.eye(V)[3]
    after = hmm.given([1, 2])
    assert after is not before
    assert float(after.emission[0, 3]) == pytest.approx(float(1 - hmm.copying.rates[0]))
    hmm.copying.rates[:] = 0
    assert torch.equal(hmm.given([1, 2]).emission, hmm.emission)


def test_what_is_differentiated_is_made_anew() -> None:
    hmm = dense()
    hmm.emission.requires_grad_()
    first, second = hmm.given([1]), hmm.given([1])
    assert first is not second
    for model in (first, second):
        model.emission.sum().backward()  # a shared graph would be freed by the first


@pytest.mark.parametrize("make", [dense, monarch])
def test_a_model_that_has_decoded_can_be_pickled_and_copied(make) -> None:  # type: ignore[no-untyped-def]
    hmm = make()
    held = hmm.given([1, 2])
    fa = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=V, initial=0, accepting={0}, edges=[(0, 0, {0, 1})]
    )
    _ = [(model * fa).start([4]).next_tokens() for model in (hmm, held)]
    for other in (pickle.loads(pickle.dumps(hmm)), copy.deepcopy(hmm)):
        assert type(other) is type(hmm)
        assert torch.equal(other.given([1, 2]).emission, held.emission)
        assert (other * fa).log_partition(length=3) == (hmm * fa).log_partition(length=3)
    small = len(pickle.dumps(make()))
    assert len(pickle.dumps(hmm)) == small


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

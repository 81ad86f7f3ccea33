"""Where fitting starts."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from pcgcd import HMM, MonarchHMM
from pcgcd.errors import InvalidParameterError, MissingDependencyError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.learning import initialise
from pcgcd.learning.distillation.embeddings import (
    TokenStates,
    next_token_probabilities,
    token_states,
)
from pcgcd.learning.distillation.starts import Layout, _from_paths
from pcgcd.learning.em.fit import fit
from tests.learning.worlds import table

TOKENS = torch.tensor([[0, 1, 3, 3], [1, 1, 1, 1], [2, 4, 4, 4], [0, 2, 0, 3]], dtype=torch.int32)
KINDS = ["dense", "monarch"]


def transition(hmm: HiddenMarkovModel) -> torch.Tensor:
    return (hmm if isinstance(hmm, HMM) else hmm.to_dense()).transition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eos_ids", [(3,), (3, 4)])
def test_nothing_but_eos_follows_an_eos(kind: Any, eos_ids: tuple[int, ...]) -> None:
    tokens = TOKENS.clamp(max=max(eos_ids))
    hmm = initialise(tokens, 12, vocab_size=6, eos_ids=eos_ids, transition=kind, seed=3)
    assert isinstance(hmm, HMM if kind == "dense" else MonarchHMM)
    for model in (hmm, fit(hmm, tokens, epochs=3, batch_size=2).hmm):
        assert model.ending_tokens == eos_ids
        ends = [int(model.emission[:, eos].argmax()) for eos in eos_ids]
        for state, eos in zip(ends, eos_ids):
            assert transition(model)[state, state] == 1
            assert model.emission[state, eos] == 1
        others = [z for z in range(12) if z not in ends]
        assert (model.emission[others][:, list(eos_ids)] == 0).all()
        text = [v for v in range(6) if v not in eos_ids]
        assert (model.emission[others][:, text] > 0).all()
        assert (transition(model)[others][:, ends].sum(-1) > 0).all()
        again = torch.tensor([[0, 3, 0], [0, 3, 3], [0, 1, 5]])
        assert (model.log_value(again) > -torch.inf).tolist() == [False, True, True]


def test_the_seed_decides() -> None:
    first, second, other = (
        initialise(TOKENS, 5, vocab_size=5, eos_ids=(3, 4), seed=seed).emission
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_known_paths_give_relative_frequencies() -> None:
    layout = Layout.of(3, 4, (3,), "dense")
    tokens = torch.tensor([[0, 1, 3], [1, 1, 1]])
    path = torch.tensor([[0, 1, 2], [1, 1, 0]])
    even = torch.tensor([1 / 3, 1 / 3, 1 / 3, 0])
    hmm = _from_paths(layout, tokens, path, even, smoothing=1e-6)
    close = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(hmm.initial, torch.tensor([0.5, 0.5, 0.0]), **close)
    expected = torch.tensor([[0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 1.0]])
    torch.testing.assert_close(transition(hmm), expected, **close)
    expected = torch.tensor([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
    torch.testing.assert_close(hmm.emission, expected, **close)


def test_known_paths_of_a_monarch_model_give_its_factors_back() -> None:
    start = initialise(TOKENS, 12, vocab_size=5, eos_ids=(3, 4), transition="monarch", seed=1)
    assert isinstance(start, MonarchHMM)
    generator = torch.Generator().manual_seed(0)
    dense = start.to_dense().transition
    path = [torch.multinomial(start.initial, 40_000, replacement=True, generator=generator)]
    for _ in range(3):
        path.append(torch.multinomial(dense[path[-1]], 1, generator=generator).squeeze(1))
    states = torch.stack(path, 1)
    rows = start.emission[states.flatten()]
    tokens = torch.multinomial(rows, 1, generator=generator).view(states.shape)
    layout = Layout.of(12, 5, (3, 4), "monarch")
    found = _from_paths(layout, tokens, states, torch.full((5,), 0.2), smoothing=1e-3)
    assert isinstance(found, MonarchHMM)
    for name in ("initial", "left", "right", "emission"):
        torch.testing.assert_close(getattr(found, name), getattr(start, name), rtol=0, atol=0.05)


def test_hidden_states_are_those_of_a_plain_forward_pass() -> None:
    pytest.importorskip("transformers")
    from tests.learning.worlds import tiny_lm

    lm = tiny_lm()
    prompts = [(2, 3), (5,), (2, 3), (7, 7, 7)]
    tokens = torch.tensor([[7, 8, 9], [9, 1, 1], [4, 1, 1], [6, 6, 6]])
    lengths = torch.tensor([3, 2, 1, 3])
    found = token_states(lm, prompts, tokens, lengths, batch_size=2)
    before, after, predicted = [], [], []
    for prompt, row, length in zip(prompts, tokens.tolist(), lengths.tolist()):
        ids = torch.tensor([[*prompt, *row[:length]]])
        with torch.no_grad():
            states = lm.model(ids, output_hidden_states=True).hidden_states[-1][0]
        before.append(states[len(prompt) - 1 : -1])
        after.append(states[len(prompt) :])
        predicted.append(lm.log_probs([(*prompt, *row[:i]) for i in range(length)]).exp())
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found.before, torch.cat(before), **close)
    torch.testing.assert_close(found.after, torch.cat(after), **close)
    probabilities = next_token_probabilities(lm, found.before)
    torch.testing.assert_close(probabilities, torch.cat(predicted), rtol=1e-3, atol=1e-5)
    with pytest.raises(InvalidParameterError, match="a prompt is empty"):
        token_states(lm, [()], tokens[:1], lengths[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_start_nearer_to_the_samples_than_chance(kind: Any, tmp_path: Any) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("sklearn")
    from pcgcd.learning import sample
    from pcgcd.learning.em.fit import log_likelihood_per_token
    from tests.learning.worlds import tiny_lm

    lm = tiny_lm()
    samples = sample(
        lm, [(2,)], samples=300, length=8, folder=tmp_path, batch_size=300, shard_size=300
    )
    options: dict[str, Any] = {"lm": lm, "prompts": [(2,)] * 300, "transition": kind}
    clustered = initialise(samples, 16, method="lvd", **options)
    assert torch.equal(
        clustered.emission, initialise(samples, 16, method="lvd", **options).emission
    )
    chance = initialise(samples, 16, transition=kind)
    values = [log_likelihood_per_token(hmm, samples.tokens) for hmm in (clustered, chance)]  # type: ignore[type-var]
    assert values[0] > values[1]
    with pytest.raises(InvalidParameterError, match="draw more samples"):
        initialise(
            samples.tokens[:2],
            64,
            vocab_size=261,
            eos_ids=[1],
            method="lvd",
            lm=lm,
            prompts=[(2,)] * 2,
        )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParameterError, match="vocab_size and eos_ids"):
        initialise(TOKENS, 5)
    options: dict[str, Any] = {"vocab_size": 5, "eos_ids": [3, 4]}
    with pytest.raises(InvalidParameterError, match="too few"):
        initialise(TOKENS, 2, **options)
    with pytest.raises(InvalidParameterError, match="too few"):
        initialise(TOKENS, 1, vocab_size=5, eos_ids=[3, 4], transition="monarch")
    with pytest.raises(InvalidParameterError, match="the token 4"):
        initialise(TOKENS, 5, vocab_size=4, eos_ids=[3])
    with pytest.raises(InvalidParameterError, match="needs the language model"):
        initialise(TOKENS, 5, method="lvd", **options)
    with pytest.raises(InvalidParameterError, match="models of transformers only"):
        initialise(TOKENS, 5, method="lvd", lm=table(), prompts=[(0,)] * 4, **options)
    with pytest.raises(InvalidParameterError, match="random"):
        initialise(TOKENS, 5, method="chance", **options)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    module = sys.modules["pcgcd.learning.distillation.starts"]
    states = TokenStates(torch.zeros(12, 2), torch.zeros(12, 2))
    monkeypatch.setattr(module, "token_states", lambda *_, **__: states)
    with pytest.raises(MissingDependencyError, match="pip install scikit-learn"):
        initialise(TOKENS, 5, method="lvd", lm=table(), prompts=[(0,)] * 4, **options)

"""Packed weights and caches with room change the speed, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.lm.examples import VOCABULARY, check, tiny_model

transformers = pytest.importorskip("transformers")

from pcgcd.lm import TransformersLM, growing_cache, packed_linear  # noqa: E402
from pcgcd.lm.packed_linear import PackedLinears  # noqa: E402


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes each layer that computes with packed weights."""
    found: list[Any] = []
    forward = packed_linear._PackedLinear.forward

    def noted(self: Any, input: Any) -> Any:
        found.append(self)
        return forward(self, input)

    monkeypatch.setattr(packed_linear._PackedLinear, "forward", noted)
    return found


def two_layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.Tanh(), nn.Linear(40, 7, bias=False))


@pytest.mark.parametrize("rows", [1, 2, 16, 100])
def test_packed_layers_compute_the_same(rows: int, used: list[Any]) -> None:
    model, x = two_layers(), torch.randn(rows, 3, 24)
    with torch.inference_mode():
        expected = model(x)
        with PackedLinears(model):
            found = model(x)
    assert len(used) == 2
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_the_model_is_left_as_it_was() -> None:
    model = two_layers()
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    packed = PackedLinears(model)
    with pytest.raises(RuntimeError, match="shapes"), packed:
        nn.Linear(3, 3)(torch.zeros(1, 4))
    assert [type(layer) for layer in model] == [nn.Linear, nn.Tanh, nn.Linear]
    assert {name: dict(module.__dict__) for name, module in model.named_modules()} == before
    copy.deepcopy(model)


@pytest.mark.parametrize("change", ["in place", "other data", "other weight", "other type"])
def test_weights_that_have_changed_are_used_as_they_are(change: str) -> None:
    model, x = two_layers(), torch.randn(5, 24)
    packed = PackedLinears(model)
    with torch.no_grad():
        if change == "in place":
            model[0].weight.mul_(2)
        elif change == "other data":
            model[0].weight.data = model[0].weight.data * 2
        elif change == "other weight":
            model[0].weight = nn.Parameter(model[0].weight * 2)
        else:
            model, x = model.double(), x.double()
        expected = model(x)
        with packed:
            found = model(x)
    torch.testing.assert_close(found, expected)


def test_large_models_and_other_types_are_not_packed(
    used: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    double = two_layers().double()
    with torch.inference_mode(), PackedLinears(double):
        double(torch.randn(2, 24, dtype=torch.float64))
    monkeypatch.setattr(packed_linear, "_MOST_BYTES", 100)
    model = two_layers()
    with torch.inference_mode(), PackedLinears(model):
        model(torch.randn(2, 24))
    assert used == []


def test_a_language_model_uses_both(used: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_cache, "_ROOM", 3)
    lm = TransformersLM(tiny_model("llama"), None, vocabulary=VOCABULARY)
    session = lm.start([(1, 2, 3)] * 3)
    prefixes = [(1, 2, 3)] * 3
    places = set()
    for step in range(14):
        session.log_probs()
        places.add(session._cache.layers[0].keys.data_ptr())  # type: ignore[attr-defined]
        tokens = [step % 9, (step + 1) % 9, (step + 2) % 9]
        session.advance(tokens)
        prefixes = [(*prefix, token) for prefix, token in zip(prefixes, tokens)]
        if step == 8:
            session.reindex([2, 2, 0])
            prefixes = [prefixes[2], prefixes[2], prefixes[0]]
    with torch.no_grad():
        expected = [lm.model(torch.tensor([prefix])).logits[0, -1] for prefix in prefixes]
    check(session.log_probs(), torch.stack(expected).log_softmax(-1), 1e-5)
    assert used
    assert 3 <= len(places) <= 8  # not one for each of the 15 steps


def test_training_after_generating_is_not_disturbed() -> None:
    lm = TransformersLM(tiny_model("llama"), None, vocabulary=VOCABULARY)
    before = lm.log_probs([(1, 2)])
    optimizer = torch.optim.SGD(lm.model.parameters(), lr=0.5)
    lm.model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    optimizer.step()
    found = lm.log_probs([(1, 2)])
    assert float((found - before).abs().max()) > 1e-2
    with torch.no_grad():
        expected = lm.model(torch.tensor([[1, 2]])).logits[:, -1].log_softmax(-1)
    check(found, expected, 1e-5)

"""Emissions smoothed with the language model's predictions."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from pcgcd import HMM
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.files.checkpoints import read_info
from pcgcd.hmm.walks import posteriors
from pcgcd.learning import Fitting, Sampling, Start, distill, initialise
from pcgcd.learning.distillation import pipeline
from pcgcd.learning.distillation.embeddings import spread
from pcgcd.learning.distillation.smoothing import Predictions, predictions, smooth
from pcgcd.learning.em.fit import log_likelihood_per_token

TOKENS = torch.tensor([[0, 1, 3, 3], [1, 1, 1, 1], [2, 4, 4, 4], [0, 2, 0, 3]])


def start(kind: str, seed: int = 0) -> HMM:
    hmm = initialise(TOKENS, 6, vocab_size=5, eos_ids=(3, 4), transition=kind, seed=seed)  # type: ignore[arg-type]
    return hmm  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["dense", "monarch"])
def test_posteriors_are_those_of_all_paths(kind: str) -> None:
    hmm = start(kind)
    dense = hmm if isinstance(hmm, HMM) else hmm.to_dense()
    found = posteriors(hmm, TOKENS).states
    for row, text in enumerate(TOKENS.tolist()):
        expected = torch.zeros(4, 6)
        for path in itertools.product(range(6), repeat=4):
            weight = float(dense.initial[path[0]])
            for t, (state, token) in enumerate(zip(path, text)):
                weight *= float(dense.emission[state, token])
                weight *= float(dense.transition[state, path[t + 1]]) if t < 3 else 1.0
            for t, state in enumerate(path):
                expected[t, state] += weight
        expected /= expected.sum(-1, keepdim=True)
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-6)


def test_predictions_are_averaged_by_hidden_state() -> None:
    pytest.importorskip("transformers")
    from tests.learning.worlds import tiny_lm

    lm = tiny_lm()
    tokens = torch.tensor([[7, 8, 1], [9, 9, 9], [4, 1, 1]])
    prompts = [(2, 3), (5,), (2, 3)]
    hmm = initialise(tokens, 4, vocab_size=lm.vocabulary.logits_size, eos_ids=(1,))
    other = initialise(tokens, 4, vocab_size=lm.vocabulary.logits_size, eos_ids=(1,), seed=1)
    found, second = predictions([hmm, other], lm, prompts, tokens, (1,))
    assert torch.equal(second.emission, predictions([other], lm, prompts, tokens, (1,))[0].emission)
    sums = torch.zeros_like(hmm.emission)
    for prompt, text, length in zip(prompts, tokens.tolist(), (3, 3, 2)):
        weights = posteriors(hmm, torch.tensor([text])).states[0]
        for t in range(length):
            sums += weights[t].unsqueeze(1) * lm.log_probs([(*prompt, *text[:t])]).exp()
    sums[hmm.emission == 0] = 0
    torch.testing.assert_close(
        found.emission, sums / sums.sum(-1, keepdim=True), rtol=1e-3, atol=1e-6
    )
    assert float(found.visits.sum()) == pytest.approx(8, rel=1e-5)


@pytest.mark.parametrize("kind", ["dense", "monarch"])
def test_smoothing_never_hurts_held_out_samples_and_keeps_zeros(kind: str) -> None:
    hmm = start(kind)
    other = start(kind, seed=1)
    predicted = Predictions(other.emission, torch.tensor([5.0, 4, 3, 2, 1, 0]).double())
    before = log_likelihood_per_token(hmm, TOKENS)
    smoothed, strength, value = smooth(hmm, predicted, TOKENS)
    assert value >= before - 1e-6
    assert log_likelihood_per_token(smoothed, TOKENS) == pytest.approx(value)
    assert torch.equal(smoothed.emission == 0, hmm.emission == 0)
    assert strength >= 0
    same = smooth(hmm, predicted, TOKENS, strengths=[0.0]).hmm
    torch.testing.assert_close(same.emission, hmm.emission)
    with pytest.raises(InvalidParameterError, match="held-out"):
        smooth(hmm, predicted, TOKENS[:0])


@pytest.mark.parametrize(("count", "limit"), [(5, 8), (100, 7), (1000, 64), (1000, 999), (40, 1)])
def test_what_smoothing_reads_is_spread_evenly_and_in_runs(count: int, limit: int) -> None:
    numbers = 3 * torch.arange(count)
    found = spread(numbers, limit)
    assert 0 < len(found) <= limit or torch.equal(found, numbers)
    assert len(found) > limit - 16 or torch.equal(found, numbers)
    assert torch.isin(found, numbers).all()
    assert (found.diff() > 0).all()
    if limit >= 64:
        assert found[0] == numbers[0]
        assert found[-1] == numbers[-1]
        assert (found.diff() == 3).sum() >= len(found) * 15 // 16


def test_a_distillation_that_reads_fewer_samples_counts_their_visits_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from tests.learning.worlds import tiny_lm

    seen: list[tuple[int, float]] = []

    def told(*args: object, **kwargs: object) -> tuple[Predictions, ...]:
        found = predictions(*args, **kwargs)  # type: ignore[arg-type]
        seen.append((len(args[3]), float(found[0].visits.sum())))  # type: ignore[arg-type]
        return found

    def used(hmm: HMM, given: Predictions, held_out: torch.Tensor) -> object:
        seen.append((0, float(given.visits.sum())))
        return smooth(hmm, given, held_out)

    monkeypatch.setattr(pipeline, "predictions", told)
    monkeypatch.setattr(pipeline, "smooth", used)
    distill(
        tiny_lm(),
        ["he"],
        tmp_path,
        sampling=Sampling(samples=60, length=6),
        start=Start(num_hidden=5),
        fitting=Fitting(epochs=1, held_out=0.3, smooth=True, smooth_samples=14),
    )
    (read, visits), (_, scaled), *_ = seen
    assert read == 14
    assert scaled == pytest.approx(visits * 42 / 14)
    with pytest.raises(InvalidParameterError, match="smooth_samples"):
        Fitting(smooth_samples=0)


def test_a_smoothed_distillation_says_both_figures(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.learning.worlds import tiny_lm

    lm = tiny_lm()
    options = {
        "sampling": Sampling(samples=60, length=6),
        "start": Start(num_hidden=5),
        "fitting": Fitting(epochs=4, pseudocount=0, held_out=0.3, smooth=True),
    }
    distilled = distill(lm, ["he"], tmp_path, **options)  # type: ignore[arg-type]
    assert distilled.bits["hmm"] < distilled.bits["hmm, not smoothed"]
    assert read_info(tmp_path).facts["strength"] == distilled.strength > 0
    assert distilled.epoch in (distilled.result.best_epoch, len(distilled.result.history))
    assert read_info(tmp_path).facts["best_epoch"] == distilled.epoch
    again = distill(lm, ["he"], tmp_path, **options)  # type: ignore[arg-type]
    assert torch.equal(again.hmm.emission, distilled.hmm.emission)

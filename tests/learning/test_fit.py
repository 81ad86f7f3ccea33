"""Fitting: the likelihood rises, known models are found, and zeros stay zeros."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from pcgcd import HMM
from pcgcd.errors import (
    CheckpointError,
    ImpossibleEvidenceError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.learning.em.expected_counts import expected_counts
from pcgcd.learning.em.fit import batch_order, fit, log_likelihood_per_token
from pcgcd.learning.results import Progress
from tests.hmm.models import dense, ending, monarch, parts, sampled


def one(done: float) -> float:
    return 1.0


def plain_em(hmm: HiddenMarkovModel, data: torch.Tensor, epochs: int) -> list[float]:
    """The likelihood of the data before each step of the textbook's EM, and after the last."""
    options = {"batch_size": len(data), "step_size": one, "pseudocount": 0.0}
    result = fit(hmm, data, epochs=epochs, **options)
    path = [entry.train for entry in result.history]
    return [*path, log_likelihood_per_token(result.hmm, data)]


# -- the M step -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["dense", "monarch"])
def test_em_never_lowers_the_likelihood_of_the_whole_data(kind: str, dtype: torch.dtype) -> None:
    data = sampled(dense(5, 9, seed=7), 60, 12)
    start = dense(6, 9, dtype=dtype) if kind == "dense" else monarch(2, 3, 9, dtype=dtype)
    path = plain_em(start, data, 25)
    assert path[-1] > path[0] + 0.01
    slack = 1e-12 if dtype == torch.float64 else 1e-6
    assert all(later >= earlier - slack for earlier, later in itertools.pairwise(path))


@pytest.mark.parametrize("start", [dense(4, 6), monarch(2, 2, 6)])
def test_a_step_is_the_mixture_that_the_formula_says(start: HiddenMarkovModel) -> None:
    data = sampled(dense(4, 6, seed=5), 30, 8)
    step, mass = 0.3, 0.7
    options = {"epochs": 1, "batch_size": 30, "step_size": lambda done: step}
    after = parts(fit(start, data, pseudocount=mass, **options).hmm)
    counts = expected_counts(start, data)
    used = [counts.initial, *counts.transition, counts.emission_matrix(6)]
    for (name, before), count in zip(parts(start).items(), used):
        smoothed = count + mass / before.shape[-1]
        expected = (1 - step) * before + step * smoothed / smoothed.sum(-1, keepdim=True)
        torch.testing.assert_close(after[name], expected, rtol=1e-12, atol=0)


def test_steps_on_few_tokens_equal_steps_on_the_whole_emission() -> None:
    """The emission is updated lazily; written out, nothing of that shows."""
    start, data = dense(4, 200), sampled(dense(4, 200, seed=3), 40, 6)
    mass = 0.2
    options = {"epochs": 3, "batch_size": 5, "step_size": 0.9, "pseudocount": mass, "seed": 4}
    found = fit(start, data, **options).hmm
    theta = {name: part.clone() for name, part in parts(start).items()}
    for epoch in range(3):
        for number, batch in enumerate(batch_order(40, 5, seed=4, epoch=epoch)):
            counts = expected_counts(HMM(*theta.values(), validate=False), data[batch])
            used = [counts.initial, *counts.transition, counts.emission_matrix(200)]
            size = 0.9 * (1 - (8 * epoch + number) / 24)
            for (name, before), count in zip(theta.items(), used):
                smoothed = count + mass / before.shape[-1]
                theta[name] = torch.lerp(before, smoothed / smoothed.sum(-1, keepdim=True), size)
    for name, part in parts(found).items():
        torch.testing.assert_close(part, theta[name], rtol=1e-9, atol=1e-15)


def test_step_sizes_go_to_zero_linearly() -> None:
    sizes: list[float] = []
    data = sampled(dense(3, 4), 10, 5)
    fit(dense(3, 4), data, epochs=2, batch_size=5, progress=lambda p: sizes.append(p.step_size))
    assert sizes == [1.0, 0.75, 0.5, 0.25]


@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_zeros_and_the_absorbing_state_survive(pseudocount: float) -> None:
    truth, start = ending(4, 6, seed=9), ending(5, 6)
    data = sampled(truth, 50, 10)
    result = fit(start, data, epochs=3, batch_size=50, step_size=one, pseudocount=pseudocount)
    for name, before in parts(start).items():
        assert not bool(parts(result.hmm)[name][before == 0].any())
    assert float(result.hmm.transition[-1, -1]) == 1
    assert float(result.hmm.emission[-1, -1]) == 1
    if pseudocount:
        for name, before in parts(start).items():
            assert bool((parts(result.hmm)[name][before > 0] > 0).all())


def test_padding_is_neither_walked_nor_counted() -> None:
    start = ending(4, 6)
    short = torch.tensor([[0, 1, 5], [2, 5, 5], [3, 3, 5]])
    long = torch.nn.functional.pad(short, (0, 40), value=5)
    options = {"epochs": 4, "batch_size": 3, "pseudocount": 0.1}
    one_, other = (fit(start, data, **options) for data in (short, long))
    assert one_.history[0].train == pytest.approx(other.history[0].train)
    expected = float(start.log_value(long).sum()) / 8
    assert one_.history[0].train == pytest.approx(expected, rel=1e-5)
    assert log_likelihood_per_token(start, long) == pytest.approx(expected, rel=1e-5)
    for name, part in parts(one_.hmm).items():
        torch.testing.assert_close(parts(other.hmm)[name], part)


def test_text_behind_eos_is_an_error() -> None:
    with pytest.raises(ImpossibleEvidenceError, match="EOS"):
        fit(ending(3, 4), torch.tensor([[0, 3, 0, 3, 3]]), epochs=1)


def test_a_state_that_nothing_uses_stays_as_it_is() -> None:
    start = dense(3, 4)
    initial = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    transition = start.transition.clone()
    transition[:, 2] = 0
    transition /= transition.sum(-1, keepdim=True)
    lonely = HMM(initial, transition, start.emission)
    result = fit(lonely, sampled(start, 9, 5), epochs=3, batch_size=9, pseudocount=0)
    torch.testing.assert_close(result.hmm.emission[2], start.emission[2])
    torch.testing.assert_close(result.hmm.transition[2], transition[2])


def test_the_layout_of_the_start_does_not_matter() -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 20, 6)
    strided = HMM(
        start.initial.repeat_interleave(2)[::2],
        start.transition.t().contiguous().t(),
        start.emission.t().contiguous().t(),
    )
    one_, other = (fit(hmm, data, epochs=2, batch_size=8).hmm for hmm in (start, strided))
    for name, part in parts(one_).items():
        torch.testing.assert_close(parts(other)[name], part)


# -- what it finds ----------------------------------------------------------------------------


def test_a_known_model_is_found_up_to_the_order_of_its_states() -> None:
    truth = HMM(
        torch.tensor([0.5, 0.3, 0.2]),
        torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]]),
        torch.tensor([[0.7, 0.2, 0.05, 0.05], [0.05, 0.05, 0.8, 0.1], [0.1, 0.1, 0.1, 0.7]]),
    )
    data = sampled(truth, 4000, 25)
    fits = [
        fit(
            HMM.random(3, 4, generator=torch.Generator().manual_seed(seed)),
            data,
            epochs=30,
            batch_size=500,
            pseudocount=0.01,
        )
        for seed in range(2)
    ]
    found = max(fits, key=lambda result: result.history[-1].train).hmm
    distances = []
    for order in map(list, itertools.permutations(range(3))):
        pairs = (
            (found.emission[order], truth.emission),
            (found.transition[order][:, order], truth.transition),
            (found.initial[order], truth.initial),
        )
        distances.append(max(float((a - b).abs().max()) for a, b in pairs))
    assert min(distances) < 0.05


def test_a_monarch_model_is_found_as_far_as_likelihood_can_tell() -> None:
    truth = monarch(2, 3, 8, seed=20, dtype=torch.float32)
    data, other = sampled(truth, 3000, 20), sampled(truth, 500, 20, seed=1)
    starts = [monarch(2, 3, 8, seed=seed, dtype=torch.float32) for seed in (0, 50)]
    best = max(
        fit(start, data, epochs=15, batch_size=300, held_out=other).held_out or -math.inf
        for start in starts
    )
    assert best > log_likelihood_per_token(truth, other) - 0.02


def test_the_path_of_likelihoods_is_that_of_hmmlearn() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    data, start = sampled(dense(4, 10, seed=3), 30, 15), dense(5, 10)
    model = hmmlearn.CategoricalHMM(
        5, n_iter=8, tol=-math.inf, init_params="", n_features=10, transmat_prior=1.0
    )
    model.startprob_, model.transmat_, model.emissionprob_ = (
        part.numpy().copy() for part in parts(start).values()
    )
    model.fit(data.reshape(-1, 1).numpy(), [15] * 30)
    theirs = [likelihood / data.numel() for likelihood in model.monitor_.history]
    ours = plain_em(start, data, 8)[:8]
    assert ours == pytest.approx(theirs, rel=1e-9)


# -- held-out data, the best epoch, the record ------------------------------------------------


def test_the_best_epoch_is_kept_and_patience_ends_the_rest() -> None:
    truth = dense(2, 30, seed=4, dtype=torch.float32)
    data, held_out = sampled(truth, 12, 6), sampled(truth, 200, 6, seed=1)
    start = dense(8, 30, dtype=torch.float32)
    options = {"batch_size": 12, "step_size": one, "pseudocount": 0.5, "held_out": held_out}
    result = fit(start, data, epochs=40, patience=2, keep_last=True, **options)
    assert result.last is not None
    last = log_likelihood_per_token(result.last, held_out)
    assert last == pytest.approx(result.history[-1].held_out, rel=1e-6)
    values = [entry.held_out for entry in result.history]
    assert result.stopped_early
    assert len(values) == result.best_epoch + 2
    everything = [result.start_held_out, *values]
    assert max(v for v in everything if v is not None) == result.held_out
    again = log_likelihood_per_token(result.hmm, held_out)
    assert again == pytest.approx(result.held_out, rel=1e-6)
    assert result.bits_per_token == pytest.approx(-again / math.log(2), rel=1e-6)


def test_patience_does_not_count_a_start_that_is_hard_to_beat() -> None:
    """Steps of a few sequences forget the truth at first, and come nearer as they get smaller."""
    truth = dense(2, 30, seed=4, dtype=torch.float32)
    data, held_out = sampled(truth, 400, 6), sampled(truth, 400, 6, seed=1)
    found = fit(truth, data, epochs=10, patience=2, batch_size=20, held_out=held_out)
    values = [entry.held_out or 0.0 for entry in found.history]
    assert found.best_epoch == 0
    assert torch.equal(found.hmm.emission, truth.emission)
    assert len(values) == 10
    assert values[-1] > values[0] + 0.05


def test_held_out_likelihood_is_that_of_the_model() -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 33, 7)
    expected = float(start.log_value(data).mean()) / 7
    result = fit(start, data, epochs=0, held_out=data, batch_size=10)
    assert result.start_held_out == pytest.approx(expected)
    assert result.best_epoch == 0
    torch.testing.assert_close(result.hmm.emission, start.emission)


def test_an_impossible_held_out_sequence_is_minus_infinity() -> None:
    start = ending(3, 4)
    held_out = torch.tensor([[0, 3, 0]])
    result = fit(start, torch.tensor([[0, 1, 3]]), epochs=1, held_out=held_out)
    assert result.history[0].held_out == -math.inf


def test_the_start_is_not_changed_and_seeds_decide() -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 40, 7)
    before = {name: part.clone() for name, part in parts(start).items()}
    options = {"epochs": 2, "batch_size": 8, "dropout": 0.2}
    first, same, other = (fit(start, data, seed=seed, **options).hmm for seed in (1, 1, 2))
    for name, part in before.items():
        assert torch.equal(parts(start)[name], part)
        assert torch.equal(parts(first)[name], parts(same)[name])
    assert not torch.equal(first.emission, other.emission)


def test_shards_and_mapped_files_give_what_one_array_gives(tmp_path: Path) -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 23, 7)
    pieces = []
    for number, piece in enumerate(data.split(9)):
        np.save(tmp_path / f"{number}.npy", piece.numpy().astype(np.uint16))
        pieces.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    options = {"epochs": 2, "batch_size": 4}
    whole, sharded = (fit(start, given, **options).hmm for given in (data, pieces))
    assert torch.equal(whole.emission, sharded.emission)


def test_progress_tells_where_it_is() -> None:
    seen: list[Progress] = []
    fit(dense(3, 5), sampled(dense(3, 5), 10, 4), epochs=2, batch_size=4, progress=seen.append)
    assert [(p.epoch, p.batch) for p in seen] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    assert seen[-1].seconds_left == 0
    assert all(p.tokens_per_second > 0 and p.batches == 3 for p in seen)


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    data = sampled(dense(3, 5), 10, 4)
    result = fit(dense(3, 5, seed=9), data, epochs=3, batch_size=4, held_out=data)
    figure = result.plot({"unigram": 2.0})
    figure.savefig(tmp_path / "curve.png")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["training, as it went", "held out", "best epoch"]
    held_out = figure.axes[0].get_lines()[1].get_xydata()
    assert held_out[:, 0].tolist() == [0, 1, 2, 3]
    assert result.start_held_out is not None
    assert held_out[0, 1] == pytest.approx(-result.start_held_out / math.log(2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": -1}, "epochs must be a whole number of at least 0"),
        ({"batch_size": 0}, "batch_size"),
        ({"step_size": 1.5}, "step size must lie"),
        ({"step_size": lambda done: 2.0}, "the schedule gave 2"),
        ({"pseudocount": -1}, "pseudocount"),
        ({"dropout": 1.0}, "dropout"),
        ({"patience": 0}, "patience"),
        ({"engine": "other"}, '"own" or "pyjuice"'),
        ({"data": torch.zeros(0, 3, dtype=torch.long)}, "at least one sequence"),
        ({"data": [np.zeros((2, 3), int), np.zeros((2, 4), int)]}, "one length"),
        ({"data": torch.zeros(3, dtype=torch.long)}, "number, length"),
        ({"held_out": torch.zeros(0, 3, dtype=torch.long)}, "held_out"),
    ],
)
def test_bad_arguments_get_a_clear_error(changed: dict[str, object], message: str) -> None:
    given = {"data": torch.zeros(2, 3, dtype=torch.long)} | changed
    with pytest.raises(InvalidParameterError, match=message):
        fit(dense(2, 3), **given)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_pyjuice_without_a_gpu_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="needs a CUDA device"):
        fit(dense(2, 3), torch.zeros(2, 3, dtype=torch.long), engine="pyjuice")


def test_tokens_of_another_vocabulary_are_an_error() -> None:
    with pytest.raises(VocabularyMismatchError, match="another vocabulary"):
        fit(dense(2, 3), torch.full((2, 3), 7))


# -- folders ----------------------------------------------------------------------------------


def test_a_finished_fit_is_read_back_and_other_settings_are_refused(tmp_path: Path) -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 20, 6)
    options = {"epochs": 2, "batch_size": 8, "held_out": data[:5], "checkpoint_dir": tmp_path}
    first = fit(start, data, **options)
    calls: list[Progress] = []
    again = fit(start, data, progress=calls.append, **options)
    assert not calls
    assert again.history == first.history
    assert torch.equal(again.hmm.emission, first.hmm.emission)
    without = fit(start, data, **(options | {"checkpoint_dir": None}))
    assert torch.equal(without.hmm.emission, first.hmm.emission)
    for changed in ({"epochs": 3}, {"seed": 5}, {"step_size": 0.5}, {"held_out": data}):
        with pytest.raises(CheckpointError, match=next(iter(changed))):
            fit(start, data, **(options | changed))
    with pytest.raises(CheckpointError, match="data"):
        fit(start, data[:-1], **options)
    with pytest.raises(CheckpointError, match="start"):
        fit(dense(3, 5, seed=1), data, **options)


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    start, data = dense(3, 5), sampled(dense(3, 5, seed=8), 20, 6)
    fit(start, data, epochs=1, checkpoint_dir=tmp_path)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match="truncated"):
        fit(start, data, epochs=1, checkpoint_dir=tmp_path)
    state.write_bytes(b"not a file of tensors")
    with pytest.raises(CheckpointError, match="safetensors"):
        fit(start, data, epochs=1, checkpoint_dir=tmp_path)

"""Hidden Markov models."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from pcgcd import HMM, MonarchHMM
from pcgcd.errors import InvalidParameterError, StructuralPropertyError
from pcgcd.hmm import HiddenMarkovModel, model

A, B, PI = (
    torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
    torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.4, 0.5]]),
    torch.tensor([0.4, 0.6]),
)


def random_monarch() -> MonarchHMM:
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64).softmax(-1)

    return MonarchHMM(rows(6), rows(2, 3, 3), rows(3, 2, 2), rows(6, 3))


def test_a_value_is_the_sum_over_hidden_paths() -> None:
    hmm = HMM(PI, A, B)
    for x in itertools.product(range(3), repeat=3):
        total = 0.0
        for z in itertools.product(range(2), repeat=3):
            weight = PI[z[0]] * B[z[0], x[0]]
            for t in (1, 2):
                weight = weight * A[z[t - 1], z[t]] * B[z[t], x[t]]
            total += float(weight)
        assert hmm.log_value(torch.tensor([x])).exp().item() == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_the_values_of_one_length_sum_to_one(length: int) -> None:
    assert HMM(PI, A, B).log_partition(length).item() == pytest.approx(0, abs=1e-5)
    assert random_monarch().log_partition(length).item() == pytest.approx(0, abs=1e-9)


def test_a_monarch_hmm_equals_its_dense_form() -> None:
    monarch = random_monarch()
    dense = monarch.to_dense()
    torch.testing.assert_close(dense.transition.sum(-1), torch.ones(6, dtype=torch.float64))
    x = torch.tensor(list(itertools.product(range(3), repeat=3)))
    torch.testing.assert_close(monarch.log_value(x), dense.log_value(x))


def test_parameters_may_be_lists() -> None:
    hmm = HMM(PI.tolist(), tuple(map(tuple, A.tolist())), B.numpy().astype("float64"))
    for found, expected in zip((hmm.initial, hmm.transition, hmm.emission), (PI, A, B)):
        assert torch.equal(found, expected)
        assert found.dtype == torch.float32
    assert HMM([1], [[1]], [[1, 0]]).log_value([[0, 0]]).item() == 0
    monarch = random_monarch()
    parts = (monarch.initial, monarch.left, monarch.right, monarch.emission)
    again = MonarchHMM(*(part.tolist() for part in parts))
    torch.testing.assert_close(again.to_dense().transition.double(), monarch.to_dense().transition)


@pytest.mark.parametrize("wrong", [[[0.5], [0.5, 0.5]], [["a", "b"]], None, "ab", [[1j, 0]]])
@pytest.mark.parametrize("name", ["initial", "transition", "emission"])
def test_parameters_that_are_no_numbers_are_refused(name: str, wrong: object) -> None:
    parts = {"initial": [1.0], "transition": [[1.0]], "emission": [[0.5, 0.5]], name: wrong}
    with pytest.raises(InvalidParameterError, match=f"{name} must be a tensor, or numbers in"):
        HMM(**parts)  # type: ignore[arg-type]


def test_viterbi_finds_the_heaviest_hidden_path() -> None:
    hmm = HMM(PI, A, B)
    x = torch.tensor(list(itertools.product(range(3), repeat=4)))
    possible = hmm.log_value(x) > -torch.inf
    best = hmm.best_path(x[possible])
    for row, units, log_weight in zip(x[possible], best.units, best.log_weight):
        weights = {}
        for z in itertools.product(range(2), repeat=4):
            weight = PI[z[0]] * B[z[0], row[0]]
            for t in range(1, 4):
                weight = weight * A[z[t - 1], z[t]] * B[z[t], row[t]]
            weights[z] = float(weight)
        assert log_weight.exp().item() == pytest.approx(max(weights.values()), rel=1e-5)
        assert weights[tuple(units.tolist())] == pytest.approx(max(weights.values()), rel=1e-5)


def test_unit_posteriors_are_those_of_forward_and_backward() -> None:
    hmm = HMM(PI, A, B).to(dtype=torch.float64)
    x = [0, 2, 1]
    joint = torch.zeros(2, 2, 2, dtype=torch.float64)
    for z in itertools.product(range(2), repeat=3):
        weight = PI[z[0]] * B[z[0], x[0]]
        for t in (1, 2):
            weight = weight * A[z[t - 1], z[t]] * B[z[t], x[t]]
        joint[z] = weight
    joint = joint / joint.sum()
    posteriors = hmm.unit_posteriors(torch.tensor([x]))
    for t, posterior in enumerate(posteriors):
        others = [axis for axis in range(3) if axis != t]
        torch.testing.assert_close(posterior[0], joint.sum(others), rtol=1e-5, atol=0)


def test_an_hmm_is_read_back_from_its_circuit() -> None:
    hmm = HMM(PI, A, B)
    again = HMM.from_circuit(hmm.unroll(4))
    for name in ("initial", "transition", "emission"):
        assert torch.equal(getattr(again, name), getattr(hmm, name))
    with pytest.raises(StructuralPropertyError, match="no transition"):
        HMM.from_circuit(hmm.unroll(1))
    with pytest.raises(StructuralPropertyError):
        HMM.from_circuit((hmm * hmm).unroll(3) + hmm.unroll(3))


def test_random_is_reproducible_and_normalised() -> None:
    first, second = (HMM.random(4, 9, generator=torch.Generator().manual_seed(3)) for _ in "ab")
    assert torch.equal(first.emission, second.emission)
    torch.testing.assert_close(first.transition.sum(-1), torch.ones(4))


@pytest.mark.parametrize(
    ("pi", "a", "b", "message"),
    [
        (PI[:1], A, B, r"must have shape \(1, 1\)|rows"),
        (PI, A[:1], B, r"must have shape \(2, 2\)"),
        (PI, A, B[:1], "1 rows"),
        (PI, A, B[0], r"\(H, V\)"),
        (PI * 2, A, B, "initial must sum to 1"),
        (PI, A.log(), B, "not logarithms"),
        (PI, A, B * float("nan"), "negative or undefined"),
        (PI, A, B * 0, "emission must sum to 1"),
    ],
)
def test_bad_parameters_get_a_clear_error(pi: Tensor, a: Tensor, b: Tensor, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        HMM(pi, a, b)


def test_unnormalised_weights_on_request() -> None:
    hmm = HMM(PI * 2, A, B, validate=False)
    assert hmm.log_partition(3).exp().item() == pytest.approx(2.0, rel=1e-5)


def test_a_random_monarch_hmm_is_reproducible_normalised_and_as_square_as_possible() -> None:
    first, second = (
        MonarchHMM.random(12, 5, generator=torch.Generator().manual_seed(3)) for _ in "ab"
    )
    assert first.left.shape == (4, 3, 3)
    assert first.right.shape == (3, 4, 4)
    for name in ("initial", "left", "right", "emission"):
        part = getattr(first, name)
        assert torch.equal(part, getattr(second, name))
        torch.testing.assert_close(part.sum(-1), torch.ones(part.shape[:-1]))
    assert first.log_partition(7).item() == pytest.approx(0, abs=1e-5)
    given = MonarchHMM.random(12, 5, blocks=(2, 6), dtype=torch.float64)
    assert given.left.shape == (2, 6, 6)
    assert given.emission.dtype == torch.float64
    with pytest.raises(InvalidParameterError, match="take 9 or 16"):
        MonarchHMM.random(13, 5)
    with pytest.raises(InvalidParameterError, match="multiply to 12"):
        MonarchHMM.random(12, 5, blocks=(5, 2))


def test_random_rows_are_dirichlet_also_far_below_the_range_of_floats() -> None:
    """With concentration a, the entries of V tokens have variance (1 - 1/V) / V / (V a + 1)."""
    size = 4
    for concentration in (1e-5, 0.3, 1.0, 5.0):
        generator = torch.Generator().manual_seed(1)
        hmm = HMM.random(4000, size, concentration=concentration, generator=generator)
        emission = hmm.emission.double()
        assert bool(torch.isfinite(emission).all())
        torch.testing.assert_close(
            emission.sum(-1), torch.ones(4000).double(), rtol=1e-6, atol=1e-6
        )
        variance = (1 - 1 / size) / size / (size * concentration + 1)
        assert float(emission.mean()) == pytest.approx(1 / size, rel=1e-6)
        assert float(emission.var()) == pytest.approx(variance, rel=0.06)
    with pytest.raises(InvalidParameterError, match="concentration must be positive"):
        HMM.random(2, 2, concentration=0.0)
    with pytest.raises(InvalidParameterError, match="whole number"):
        HMM.random(0, 2)


def test_many_random_rows_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same, where each entry takes one draw."""

    def emission() -> Tensor:
        return HMM.random(7, 30, generator=torch.Generator().manual_seed(2)).emission

    whole = emission()
    monkeypatch.setattr(model, "_DRAWN_AT_ONCE", 64)
    torch.testing.assert_close(emission(), whole)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("name", ["initial", "left", "right", "emission"])
def test_what_is_no_weight_is_refused_whoever_makes_it(name: str, wrong: float) -> None:
    hmm = random_monarch()
    parts = {part: getattr(hmm, part) for part in ("initial", "left", "right", "emission")}
    bad = parts[name].clone()
    bad.view(-1)[-1] = wrong
    with pytest.raises(InvalidParameterError, match=f"{name} must be probabilities"):
        MonarchHMM(**{**parts, name: bad}, validate=False)
    if name == "emission":
        for model in (hmm, hmm.to_dense()):
            with pytest.raises(InvalidParameterError, match="emission must be probabilities"):
                model.with_emission(bad)


def test_other_emissions_must_be_probabilities_as_those_before_them() -> None:
    hmm = HMM(PI, A, B)
    with pytest.raises(InvalidParameterError, match="emission must sum to 1"):
        hmm.with_emission(5 * B)
    unnormalised = HMM(PI, A, 2 * B, validate=False)
    assert torch.equal(unnormalised.with_emission(5 * B).emission, 5 * B)


def test_tensors_that_were_spoilt_later_are_found_when_they_are_moved() -> None:
    hmm = HMM(PI.clone(), A.clone(), B.clone())
    hmm.transition[0, 0] = float("nan")
    with pytest.raises(InvalidParameterError, match="transition must be probabilities"):
        hmm.to(dtype=torch.float64)


def test_what_both_kinds_share_has_a_name() -> None:
    for hmm in (HMM(PI, A, B), random_monarch()):
        assert isinstance(hmm, HiddenMarkovModel)
        again = type(hmm)(hmm.initial, *hmm.transition_factors, hmm.emission)
        x = torch.tensor([[0, 1, 2]])
        assert torch.equal(again.log_value(x), hmm.log_value(x))
        assert type(hmm.to(dtype=torch.float64)) is type(hmm)
    with pytest.raises(TypeError, match="abstract"):
        HiddenMarkovModel()  # type: ignore[abstract]


def test_a_text_has_ended_where_one_token_repeats_for_ever() -> None:
    """States 2 and 3 lead to each other and say token 1; 4 says it too, but can leave."""
    transition = torch.tensor(
        [
            [0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 0.5, 0.5, 0.0, 0.0],
            [0.0, 0.0, 0.5, 0.0, 0.0, 0.5],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    emission = torch.tensor(
        [[0.5, 0.5, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 1.0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    )
    hmm = HMM(torch.full((6,), 1 / 6), transition, emission)
    assert hmm.ended.tolist() == [False, False, True, True, False, True]
    assert not bool(HMM(PI, A, B).ended.any())
    assert not bool(random_monarch().ended.any())


def test_ending_tokens_are_those_that_only_ever_end_a_text() -> None:
    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Tensor:
        return (torch.rand(*shape, generator=generator) < 0.4).float()

    counts = []
    for _ in range(300):
        transition, emission = some(4, 4), some(4, 3)
        hmm = HMM(torch.ones(4), transition, emission, validate=False)
        expected = []
        for token in range(3):
            members = {z for z in range(4) if emission[z, token] > 0}
            alone = all(int(emission[z].count_nonzero()) == 1 for z in members)
            leaves = any(transition[y, z] > 0 for y in members for z in set(range(4)) - members)
            expected += [token] if members and alone and not leaves else []
        assert hmm.ending_tokens == tuple(expected)
        counts.append(len(expected))
    assert {0, 1, 2} <= set(counts)

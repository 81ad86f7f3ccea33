"""Long strings, exact zeros, and gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton, MonarchHMM
from pcgcd.circuits.semirings import BOOLEAN, COUNTING, LINEAR, LOG, MAXIMUM, REAL

LONG = 4096


def random_hmm(hidden: int = 8, vocab_size: int = 50, seed: int = 0) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(hidden, vocab_size, concentration=0.5, generator=generator)


def literal(tokens: list[int], vocab_size: int) -> FiniteAutomaton:
    """Anything, then the literal, then anything: the start of the literal is a rare way out."""
    last = len(tokens)
    everything = set(range(vocab_size))
    edges: list[tuple[int, int, set[int]]] = [(i, i + 1, {t}) for i, t in enumerate(tokens)]
    edges += [(last, last, everything)]
    return FiniteAutomaton.from_edges(
        num_states=last + 1, vocab_size=vocab_size, initial=0, accepting={last}, edges=edges
    )


@pytest.mark.parametrize("semiring", [REAL, LOG], ids=["real", "log"])
def test_long_values_in_float32_agree_with_float64(semiring: object) -> None:
    hmm = random_hmm()
    fa = literal(list(range(10)), 50)
    x = hmm.sample(3, length=LONG, generator=torch.Generator().manual_seed(1))
    x[:, :10] = torch.arange(10)
    for circuit in (hmm, hmm * fa):
        exact = circuit.to(dtype=torch.float64).log_value(x)
        actual = semiring.to_log(circuit.value(x, semiring))  # type: ignore[attr-defined]
        assert actual.dtype == torch.float32
        assert (exact < -5000).all()
        torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=0)


def test_long_conditionals_keep_their_precision_in_float32() -> None:
    hmm = random_hmm()
    x = hmm.sample(2, length=LONG - 1, generator=torch.Generator().manual_seed(1))
    exact = hmm.to(dtype=torch.float64).next_token_log_probs(x, length=LONG)
    actual = hmm.next_token_log_probs(x, length=LONG)
    torch.testing.assert_close(actual.double(), exact, rtol=0, atol=1e-4)


# -- sums over a large vocabulary -------------------------------------------------------------

VOCAB_SIZE = 49_152


def normalised_rows(*shape: int, seed: int) -> Tensor:
    """Uneven rows in single precision, divided by their sums in double precision."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(*shape, generator=generator, dtype=torch.float64) ** 3
    return (numbers / numbers.sum(-1, keepdim=True)).float()


def large_hmm(hidden: int, seed: int = 0) -> HMM:
    shapes = ((hidden,), (hidden, hidden), (hidden, VOCAB_SIZE))
    return HMM(*(normalised_rows(*shape, seed=seed + i) for i, shape in enumerate(shapes)))


def log_mass(hmm: HMM, edges: dict[tuple[int, int], np.ndarray], length: int) -> float:
    """Log of the sum over paths from state 0, by numpy, in double precision."""
    initial, transition, emission = (
        tensor.numpy().astype(np.float64) for tensor in (hmm.initial, hmm.transition, hmm.emission)
    )
    mass = {edge: emission[:, tokens].sum(1) for edge, tokens in edges.items()}
    states = 1 + max(max(edge) for edge in edges)
    reached, log_scale = [np.zeros(len(initial)) for _ in range(states)], 0.0
    reached[0] = initial
    for step in range(length):
        moved = [np.zeros(len(initial)) for _ in range(states)]
        for (source, target), weights in mass.items():
            moved[target] += reached[source] * weights
        total = sum(message.sum() for message in moved)
        log_scale += math.log(total)
        last = step == length - 1
        reached = [(m if last else m @ transition) / total for m in moved]
    return log_scale + math.log(sum(message.sum() for message in reached))


@pytest.mark.parametrize("hidden", [4, 64])
def test_a_large_vocabulary_sums_to_one_in_float32(hidden: int) -> None:
    hmm = large_hmm(hidden)
    assert abs(float(hmm.log_partition(1))) < 1e-6
    assert abs(float(hmm.log_partition(128))) < 1e-5
    prefix = torch.tensor([[5, 40_000]])
    total = hmm.next_token_log_probs(prefix, length=4).double().exp().sum()
    assert abs(float(total) - 1) < 1e-6


@pytest.mark.parametrize("automaton_first", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_products_over_a_large_vocabulary_are_precise_in_float32(
    automaton_first: bool, mixed: bool
) -> None:
    every = np.arange(VOCAB_SIZE)
    edges = {(0, 0): every[::2], (0, 1): every[1::2], (1, 1): every[5:], (1, 0): every[::7]}
    fa = FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=VOCAB_SIZE,
        initial=0,
        accepting={0, 1},
        edges=[(source, target, tokens.tolist()) for (source, target), tokens in edges.items()],
    )
    hmm, other = large_hmm(8), large_hmm(5, seed=7)
    guide = 0.25 * hmm + 0.75 * other if mixed else hmm
    product = fa * guide if automaton_first else guide * fa
    for length in (1, 128):
        expected = log_mass(hmm, edges, length)
        if mixed:
            parts = (math.log(0.25) + expected, math.log(0.75) + log_mass(other, edges, length))
            expected = float(np.logaddexp(*parts))
        assert abs(float(product.log_partition(length)) - expected) < 1e-5


@pytest.mark.parametrize("semiring", [LINEAR, REAL, LOG], ids=["linear", "real", "log"])
def test_sums_over_a_large_vocabulary_are_precise_in_every_real_semiring(semiring: object) -> None:
    numbers = normalised_rows(3, VOCAB_SIZE, seed=3)
    index = torch.arange(VOCAB_SIZE) % 2
    exact = numbers.double().numpy().sum(1)
    halves = np.stack([numbers.double().numpy()[:, k::2].sum(1) for k in (0, 1)], 1)
    lifted = semiring.lift(numbers)
    weights = torch.ones(1, VOCAB_SIZE)
    for found, expected in (
        (semiring.sum(lifted), exact),
        (semiring.matmul(lifted, weights), exact[:, None]),
        (semiring.scatter(lifted, index, 2), halves),
    ):
        plain = semiring.to_log(found).double().exp().numpy()
        np.testing.assert_allclose(plain, expected, rtol=3e-7)


@pytest.mark.parametrize("length", [3, 64, 512, LONG])
def test_impossible_strings_are_exactly_zero_at_every_length(length: int) -> None:
    hmm, fa = random_hmm(), literal([3, 4], 50)
    x = torch.full((2, length), 7)
    x[0, :2] = torch.tensor([3, 4])
    for circuit in (fa, hmm * fa):
        possible, impossible = circuit.log_value(x).tolist()
        assert possible > -math.inf
        assert impossible == -math.inf
        assert circuit.value(x, BOOLEAN).tolist() == [True, False]
        assert circuit.value(x, MAXIMUM)[1] == -math.inf


def test_a_rare_constraint_does_not_underflow() -> None:
    """A literal of 600 tokens: exp(-2,000) of the mass, while other units carry all of it."""
    hmm = random_hmm()
    fa = literal([i % 50 for i in range(600)], 50)
    actual = (hmm * fa).log_partition(length=700)
    exact = (hmm.to(dtype=torch.float64) * fa).log_partition(length=700)
    assert exact < -1500
    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=0)


def test_a_left_to_right_hmm_has_no_false_zeros() -> None:
    """The likely state cannot come back, and the end needs the unlikely one."""
    transition = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    emission = torch.tensor([[1.0, 0.0, 0.0], [1e-3, 0.999, 0.0], [0.0, 0.0, 1.0]])
    hmm = HMM(torch.tensor([0.5, 0.5, 0.0]), transition, emission)
    x = torch.tensor([[0] * 1000 + [2]])
    # Only the path that stays 1,000 steps in state 1 can emit token 2 at the end.
    expected = math.log(0.5) + 1000 * math.log(1e-3) + 999 * math.log(0.5) + math.log(0.5)
    assert hmm.log_value(x).item() == pytest.approx(expected, rel=1e-6)
    assert LOG.to_log(hmm.value(x, LOG)).item() == pytest.approx(expected, rel=1e-5)


def test_counts_beyond_every_float_are_exact() -> None:
    everything = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=50_000, initial=0, accepting={0}, edges=[(0, 0, range(50_000))]
    )
    assert everything.partition(500, COUNTING).tolist() == [50_000**500]
    log_count = everything.log_partition(500).item()
    assert log_count == pytest.approx(500 * math.log(50_000), rel=1e-6)


def parameters(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def logits(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    return logits(3), logits(3, 3), logits(3, 4)


def some_fa() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=3,
        vocab_size=4,
        initial=0,
        accepting={2},
        edges=[(0, 1, {0, 1}), (1, 1, {2}), (1, 2, {2, 3}), (2, 2, {0})],
    )


def test_gradients_of_likelihoods_pass_gradcheck() -> None:
    x = torch.tensor([[0, 2, 3, 0], [1, 2, 2, 2]])
    partial = torch.tensor([[0, -1, 3, -1], [-1, -1, -1, -1]])

    def queries(*logits: Tensor) -> tuple[Tensor, ...]:
        hmm = HMM(*(p.softmax(-1) for p in logits))
        c = hmm * some_fa()
        return (
            hmm.log_value(x),
            c.log_value(x),
            c.log_prob(x),
            c.log_marginal(partial),
            c.log_partition(4),
            c.next_token_log_probs(x[:, :2], length=4)[:, 2:],
            LOG.to_log(c.value(partial, LOG)),
        )

    assert torch.autograd.gradcheck(queries, parameters())


def test_gradients_of_raw_parameters_pass_gradcheck() -> None:
    pi, a, b = (p.softmax(-1).detach().requires_grad_() for p in parameters(1))
    x = torch.tensor([[0, 2, 3], [1, 1, 2]])
    assert torch.autograd.gradcheck(lambda *p: HMM(*p).log_value(x), (pi, a, b))


def test_gradients_of_a_monarch_hmm_pass_gradcheck() -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = [(6,), (2, 3, 3), (3, 2, 2), (6, 4)]
    logits = [
        torch.randn(*s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes
    ]
    x = torch.tensor([[0, 2, 3]])
    assert torch.autograd.gradcheck(
        lambda *p: MonarchHMM(*(q.softmax(-1) for q in p)).log_value(x), logits
    )


def test_gradients_are_finite_where_a_value_is_zero() -> None:
    logits = parameters()
    x = torch.tensor([[3, 3, 3], [0, 2, 3]])  # the first string is impossible
    value = (HMM(*(p.softmax(-1) for p in logits)) * some_fa()).log_value(x)
    assert value[0] == -math.inf
    value[1].backward()
    assert all(torch.isfinite(p.grad).all() for p in logits if p.grad is not None)


def test_float32_and_float64_are_kept() -> None:
    hmm, fa = random_hmm(), literal([3], 50)
    x = torch.tensor([[3, 4]])
    assert (hmm * fa).log_value(x).dtype == torch.float32
    assert (hmm.to(dtype=torch.float64) * fa).log_value(x).dtype == torch.float64
    assert (hmm * fa).to(dtype=torch.float64).log_partition(2).dtype == torch.float64
    assert (hmm * fa).unroll(2).to(dtype=torch.float64).log_partition().dtype == torch.float64

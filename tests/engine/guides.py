"""Guides of every kind over a small vocabulary, each with its values in plain numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pcgcd import HMM, MonarchHMM
from pcgcd.circuits import (
    ChainOperators,
    Circuit,
    CircuitLike,
    Dense,
    InputLayer,
    Operator,
    OperatorChain,
    ProductLayer,
    SumLayer,
)
from pcgcd.circuits.operators.base import PLAIN

Array = np.ndarray[Any, np.dtype[np.float64]]
LENGTH = 4


@dataclass(frozen=True)
class Example:
    """A guide, and the value of a string of any length (of LENGTH, if it has one)."""

    guide: CircuitLike
    value: Callable[[Sequence[int]], float]
    fixed: bool = False


class Wheel(Operator):
    """An operator of a user's: stay with probability 0.7, or move on to the next of n states."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def _turned(self, x: Any, step: int, semiring: Any) -> Any:
        index = (torch.arange(self.size) + step) % self.size
        stay, move = (semiring.lift(torch.tensor([w])) for w in (0.7, 0.3))
        return semiring.add(semiring.mul(x, stay), semiring.mul(semiring.gather(x, index), move))

    def matvec(self, x: Any, semiring: Any = PLAIN) -> Any:
        return self._turned(x, 1, semiring)

    def rmatvec(self, x: Any, semiring: Any = PLAIN) -> Any:
        return self._turned(x, -1, semiring)


def _rows(rng: np.random.Generator, *shape: int) -> Array:
    weights = rng.random(shape) ** 2 + 0.02
    return weights / weights.sum(-1, keepdims=True)


def _tensor(array: Array) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)


def chain_value(initial: Array, transition: Array, emission: Array) -> Callable[..., float]:
    def value(x: Sequence[int]) -> float:
        message = initial * emission[:, x[0]]
        for token in x[1:]:
            message = (message @ transition) * emission[:, token]
        return float(message.sum())

    return value


def dense(vocab_size: int, seed: int = 0, num_hidden: int = 3) -> Example:
    rng = np.random.default_rng(seed)
    parts = (
        _rows(rng, num_hidden),
        _rows(rng, num_hidden, num_hidden),
        _rows(rng, num_hidden, vocab_size),
    )
    return Example(HMM(*map(_tensor, parts)), chain_value(*parts))


def with_zeros(vocab_size: int) -> Example:
    """Deterministic transitions, and each hidden state has a token that it never says."""
    rng = np.random.default_rng(5)
    initial, transition = np.array([0.5, 0.5, 0.0]), np.eye(3)[[1, 2, 0]]
    emission = _rows(rng, 3, vocab_size)
    emission[np.arange(3), np.arange(3)] = 0
    emission /= emission.sum(1, keepdims=True)
    guide = HMM(*map(_tensor, (initial, transition, emission)))
    return Example(guide, chain_value(initial, transition, emission))


def monarch(vocab_size: int) -> Example:
    rng = np.random.default_rng(1)
    initial, emission = _rows(rng, 6), _rows(rng, 6, vocab_size)
    left, right = _rows(rng, 2, 3, 3), _rows(rng, 3, 2, 2)
    # z = (i, j): j moves within block i by left[i], then i within block j by right[j].
    transition = np.einsum("ijk,kil->ijlk", left, right).reshape(6, 6)
    guide = MonarchHMM(*map(_tensor, (initial, left, right, emission)))
    np.testing.assert_allclose(guide.to_dense().transition.numpy(), transition, atol=1e-6)
    return Example(guide, chain_value(initial, transition, emission))


def mixed(vocab_size: int) -> Example:
    a, b = dense(vocab_size, 2, 2), dense(vocab_size, 3, 4)
    return Example(0.3 * a.guide + 0.7 * b.guide, lambda x: 0.3 * a.value(x) + 0.7 * b.value(x))


def kronecker(vocab_size: int) -> Example:
    """A product of two HMMs: not normalised."""
    a, b = dense(vocab_size, 4, 2), dense(vocab_size, 5, 3)
    return Example(a.guide * b.guide, lambda x: a.value(x) * b.value(x))


def scaled(vocab_size: int) -> Example:
    a = dense(vocab_size, 6)
    return Example(2.5 * a.guide, lambda x: 2.5 * a.value(x))


def own_operator(vocab_size: int) -> Example:
    """A user's transition, emissions that do not sum to one, and an end that is not free."""
    rng = np.random.default_rng(7)
    initial, emission, final = _rows(rng, 4), 3 * rng.random((4, vocab_size)), rng.random(4)
    transition = 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)
    guide = OperatorChain(
        ChainOperators(
            Dense(_tensor(initial[None])),
            Wheel(4),
            Dense(_tensor(emission)),
            Dense(_tensor(np.diag(final))),
        )
    )

    def value(x: Sequence[int]) -> float:
        message = initial * emission[:, x[0]]
        for token in x[1:]:
            message = (message @ transition) * emission[:, token]
        return float(message @ final)

    return Example(guide, value)


def inhomogeneous(vocab_size: int) -> Example:
    """A chain of one length whose steps have weights of their own, and numbers of units too."""
    rng = np.random.default_rng(8)
    sizes = (2, 3, 2, 4)
    emissions = [_rows(rng, size, vocab_size) for size in sizes]
    steps = [_rows(rng, before, after) for before, after in zip((1, *sizes), sizes)]
    layer: Any = None
    for t in reversed(range(LENGTH)):
        here: Any = InputLayer(t, Dense(_tensor(emissions[t])))
        if layer is not None:
            here = ProductLayer(here, layer)
        layer = SumLayer([here], [Dense(_tensor(steps[t]))])

    def value(x: Sequence[int]) -> float:
        message = np.ones(1)
        for step, emission, token in zip(steps, emissions, x, strict=True):
            message = (message @ step) * emission[:, token]
        return float(message.sum())

    return Example(Circuit(layer), value, fixed=True)


def tree(vocab_size: int) -> Example:
    """x_1 has the children x_2 and x_3, and x_3 the child x_4: a Chow-Liu tree with latents."""
    rng = np.random.default_rng(9)
    emissions = [_rows(rng, size, vocab_size) for size in (3, 2, 2, 3)]
    root, second, third, fourth = (
        _rows(rng, 1, 3),
        _rows(rng, 3, 2),
        _rows(rng, 3, 2),
        _rows(rng, 2, 3),
    )
    inputs = [InputLayer(t, Dense(_tensor(emissions[t]))) for t in range(LENGTH)]

    def under(layer: Any, weights: Array) -> SumLayer:
        return SumLayer([layer], [Dense(_tensor(weights))])

    last = ProductLayer(inputs[2], under(inputs[3], fourth))
    top = ProductLayer(inputs[0], under(inputs[1], second), under(last, third))

    def value(x: Sequence[int]) -> float:
        a, b, c, d = (emission[:, token] for emission, token in zip(emissions, x, strict=True))
        return float((root[0] * a * (second @ b) * (third @ (c * (fourth @ d)))).sum())

    return Example(Circuit(under(top, root)), value, fixed=True)


KINDS: dict[str, Callable[[int], Example]] = {
    "dense": dense,
    "zeros": with_zeros,
    "monarch": monarch,
    "mixture": mixed,
    "kronecker": kronecker,
    "multiple": scaled,
    "own operator": own_operator,
    "inhomogeneous": inhomogeneous,
    "tree": tree,
}

"""Every query against enumeration, on every kind of circuit."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd import HMM, MonarchHMM
from pcgcd.circuits import (
    Circuit,
    CircuitLike,
    Dense,
    Identity,
    InputLayer,
    Layer,
    ProductLayer,
    SumLayer,
)
from pcgcd.testing import CircuitLaws
from tests.circuits.chain_examples import dfa, nfa


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def hmm(seed: int = 0, hidden: int = 2) -> HMM:
    return HMM.random(hidden, 3, generator=generator(seed), dtype=torch.float64)


class TestHMM(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return hmm()

    def reference_log_value(self, strings: Tensor) -> Tensor:
        model, values = hmm(), []
        for x in strings.tolist():
            alpha = model.initial * model.emission[:, x[0]]
            for token in x[1:]:
                alpha = (model.transition.T @ alpha) * model.emission[:, token]
            values.append(alpha.sum().log())
        return torch.stack(values)


class TestHMMInFloat32(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return hmm().to(dtype=torch.float32)


class TestHMMWithZeros(CircuitLaws):
    """Left to right: what cannot happen has probability zero exactly."""

    def create_circuit(self) -> CircuitLike:
        return HMM(
            torch.tensor([0.5, 0.5, 0.0]),
            torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]),
            torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]),
        )


class TestMonarchHMM(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        source = generator()
        shapes = [(4,), (2, 2, 2), (2, 2, 2), (4, 3)]
        return MonarchHMM(
            *(torch.randn(*s, generator=source, dtype=torch.float64).softmax(-1) for s in shapes)
        )


class TestDFA(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return dfa()


class TestAmbiguousNFA(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return nfa()


class TestHMMTimesDFA(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return hmm() * dfa()

    def reference_log_value(self, strings: Tensor) -> Tensor:
        accepted = torch.tensor([dfa().accepts(x) for x in strings.tolist()])
        return hmm().log_value(strings).where(accepted, torch.tensor(float("-inf")))


class TestHMMTimesAmbiguousNFA(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return hmm() * nfa()


class TestThreeFactors(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return dfa() * hmm() * nfa()


class TestOneStep(CircuitLaws):
    length = 1

    def create_circuit(self) -> CircuitLike:
        return hmm() * dfa()


class TestMixtureOfChains(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return 0.3 * hmm() + 0.7 * (hmm(1, 3) * dfa())


class TestMixtureTimesChain(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        return (0.5 * hmm() + 2.0 * hmm(1)) * nfa()


class TestTree(CircuitLaws):
    """A latent tree, with a shared sub-circuit under two sums."""

    def create_circuit(self) -> CircuitLike:
        source = generator()

        def weights(rows: int, columns: int) -> Dense:
            return Dense(torch.rand(rows, columns, generator=source, dtype=torch.float64))

        shared: Layer = InputLayer(1, weights(2, 3))
        pair = ProductLayer(InputLayer(0, weights(2, 3)), shared)
        other = ProductLayer(InputLayer(0, weights(2, 3)), shared)
        both = SumLayer([pair, other], [weights(2, 2), weights(2, 2)])
        top = ProductLayer(both, InputLayer(2, weights(2, 3)))
        return Circuit(SumLayer([SumLayer([top], [Identity(2)])], [weights(1, 2)]))


class TestTreeTimesTree(CircuitLaws):
    def create_circuit(self) -> CircuitLike:
        tree = TestTree().create_circuit()
        return tree * tree

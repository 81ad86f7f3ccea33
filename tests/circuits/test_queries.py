"""Every query against enumeration, on every kind of circuit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pcgcd import HMM, MonarchHMM
from pcgcd.circuits import (
    MISSING,
    Circuit,
    CircuitLike,
    Dense,
    Identity,
    InputLayer,
    Layer,
    ProductLayer,
    SumLayer,
)
from pcgcd.errors import InvalidParameterError
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


# -- how strings and lengths are given --------------------------------------------------------

QUERIES: dict[str, Callable[[CircuitLike, Any], Any]] = {
    "value": lambda circuit, x: circuit.value(x).mantissa,
    "log_value": lambda circuit, x: circuit.log_value(x),
    "log_prob": lambda circuit, x: circuit.log_prob(x),
    "log_marginal": lambda circuit, x: circuit.log_marginal(x, length=5),
    "log_conditional": lambda circuit, x: circuit.log_conditional(x, x, length=5),
    "next_token_log_probs": lambda circuit, x: circuit.next_token_log_probs(x, length=5),
    "token_marginals": lambda circuit, x: circuit.token_marginals(x, length=5),
    "expected_token_counts": lambda circuit, x: circuit.expected_token_counts(x, length=5),
    "unit_posteriors": lambda circuit, x: torch.cat(circuit.unit_posteriors(x, length=5)),
    "sample": lambda circuit, x: circuit.sample(3, 5, evidence=x, generator=generator()),
    "best_path": lambda circuit, x: torch.cat(circuit.best_path(x, length=5)[:2]),
}
ANY_LENGTH = ("value", "log_value", "log_prob")


@pytest.mark.parametrize("kind", [list, tuple, np.array])
@pytest.mark.parametrize("query", QUERIES)
def test_tokens_may_be_lists(query: str, kind: Callable[[Any], Any]) -> None:
    rows = [(0, 1), (2, 0)]
    for circuit in (hmm(), hmm() * hmm(1), hmm().unroll(5)):
        if query in ANY_LENGTH and isinstance(circuit, Circuit):
            continue
        expected = QUERIES[query](circuit, torch.tensor(rows))
        assert torch.equal(QUERIES[query](circuit, kind(rows)), expected)


@pytest.mark.parametrize("wrong", [[[0, 1], [0]], [["a"]], [[None]], "ab", {}, [0], 3, [[0.5]]])
@pytest.mark.parametrize("query", QUERIES)
def test_what_is_no_list_of_strings_is_refused(query: str, wrong: Any) -> None:
    if query == "sample" and wrong == [0]:
        return  # one string
    with pytest.raises(InvalidParameterError, match="token"):
        QUERIES[query](hmm(), wrong)


def test_an_empty_prefix_may_be_a_list() -> None:
    model = hmm()
    first = (model.initial @ model.emission).log()
    torch.testing.assert_close(model.next_token_log_probs([[]], length=3)[0], first)


@pytest.mark.parametrize("prefix", [(), (1,), (MISSING, 2)])
def test_the_best_path_of_a_length_agrees_with_a_beginning(prefix: tuple[int, ...]) -> None:
    model, length, weights = hmm(), 4, {}
    for x in itertools.product(range(3), repeat=length):
        if any(known not in (MISSING, token) for known, token in zip(prefix, x)):
            continue
        for z in itertools.product(range(2), repeat=length):
            weight = model.initial[z[0]] * model.emission[z[0], x[0]]
            for t in range(1, length):
                weight = weight * model.transition[z[t - 1], z[t]] * model.emission[z[t], x[t]]
            weights[x, z] = float(weight)
    tokens, units = max(weights, key=lambda path: weights[path])
    evidence = [prefix] if prefix else None
    for circuit in (model, model.unroll(length)):
        best = circuit.best_path(evidence, length=length)
        assert (tuple(best.tokens[0].tolist()), tuple(best.units[0].tolist())) == (tokens, units)
        assert best.log_weight.exp().item() == pytest.approx(weights[tokens, units])


def test_without_evidence_queries_are_about_the_circuit_itself() -> None:
    circuit, nothing = hmm() * dfa(), torch.full((1, 3), MISSING)
    for query in ("token_marginals", "expected_token_counts"):
        expected = getattr(circuit, query)(nothing)
        assert torch.equal(getattr(circuit, query)(length=3), expected)
        assert torch.equal(getattr(circuit.unroll(3), query)(), expected)
        with pytest.raises(InvalidParameterError, match="name one"):
            getattr(circuit, query)()
    expected = circuit.unit_posteriors(nothing)
    assert all(map(torch.equal, circuit.unit_posteriors(length=3), expected))

"""What pyjuice computes with an exported circuit, against what the circuit computes itself.

pyjuice works in float32, and its numbers here agree to about 1e-6.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pcgcd.circuits import BlockSparse, Circuit, CircuitLike, Dense, SumLayer
from pcgcd.circuits.pyjuice import from_pyjuice, to_pyjuice
from tests.circuits.bridge_examples import (
    VOCAB_SIZE,
    ambiguous_automaton,
    automaton,
    dead_units,
    hmm,
)

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]

LENGTH = 4

Compile = Callable[[Any], Any]


CIRCUITS: dict[str, Callable[[], CircuitLike]] = {
    "hmm": hmm,
    "hmm with blocks of one": lambda: hmm(3),
    "hmm with blocks of sixteen": lambda: hmm(16),
    "hmm x dfa": lambda: hmm() * automaton(),
    "hmm x nfa": lambda: hmm(2) * ambiguous_automaton(),
    "dead units": dead_units,
    "mixture": lambda: 0.3 * hmm() + 0.7 * (hmm(2, seed=1) * automaton()),
}


@pytest.fixture(params=CIRCUITS, ids=lambda name: name.replace(" ", "-"))
def circuit(request: pytest.FixtureRequest) -> Circuit:
    return CIRCUITS[request.param]().unroll(LENGTH)


def every_string() -> Tensor:
    return torch.tensor(list(itertools.product(range(VOCAB_SIZE), repeat=LENGTH)))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a.detach().double(), b.detach().double(), atol=1e-5, rtol=1e-5)


def test_likelihood_is_value_without_partition(circuit: Circuit, compiled: Compile) -> None:
    export = to_pyjuice(circuit)
    x = every_string()
    likelihood = compiled(export.root)(x, force_use_fp32=True).flatten()
    close(likelihood + export.log_partition, circuit.log_value(x))


def test_marginals(circuit: Circuit, compiled: Compile, juice: Any) -> None:
    x = every_string()
    missing = torch.tensor([False, True, True, False])
    pc = compiled(to_pyjuice(circuit).root)
    found = juice.queries.marginal(pc, x, missing_mask=missing, force_use_fp32=True)
    close(found.flatten(), circuit.log_marginal(x.masked_fill(missing, -1)))


def test_conditionals(circuit: Circuit, compiled: Compile, juice: Any) -> None:
    missing = torch.tensor([False, True, True, False])
    x = every_string()
    x = x[circuit.log_marginal(x.masked_fill(missing, -1)) > float("-inf")]
    evidence = x.masked_fill(missing, -1)
    pc = compiled(to_pyjuice(circuit).root)
    found = juice.queries.conditional(pc, x, missing_mask=missing, force_use_fp32=True)
    expected = circuit.token_marginals(evidence)
    close(found[:, missing], expected[:, missing])
    pair = torch.tensor([[-1, 2, -1, -1]]).expand_as(evidence)
    close(found[:, 1, 2].log(), circuit.log_conditional(pair, evidence))


@pytest.mark.parametrize("name", ["hmm", "hmm x dfa", "dead units"])
def test_one_em_step(name: str, compiled: Compile) -> None:
    """The M-step of the expected counts, theta * d(sum of log-likelihoods)/d(theta)."""
    export = to_pyjuice(CIRCUITS[name](), length=LENGTH)
    pseudocount = 0.1
    model = from_pyjuice(export.root).to(dtype=torch.float64)
    x = model.sample(64, generator=torch.Generator().manual_seed(0))
    expected = m_step(model, x, pseudocount)
    pc = compiled(export.root)
    pc.init_param_flows(flows_memory=0.0)
    pc(x, force_use_fp32=True)
    pc.backward(x, flows_memory=1.0, logspace_flows=False, force_use_fp32=True)
    pc.mini_batch_em(step_size=1.0, pseudocount=pseudocount, keep_zero_params=True)
    pc.update_parameters()
    found = parameters(from_pyjuice(pc.root_ns))
    assert len(found) == len(expected) > 2
    for a, b in zip(found, expected):
        close(a, b)


def parameters(model: Circuit) -> list[Tensor]:
    """The tensor of each operator, tied ones once."""
    operators = dict.fromkeys(o for layer in model.layers for o in layer.operators)
    return [operator.weights for operator in operators if isinstance(operator, Dense | BlockSparse)]


def m_step(model: Circuit, x: Tensor, pseudocount: float) -> list[Tensor]:
    tensors = parameters(model)
    for tensor in tensors:
        tensor.requires_grad_()
    model.log_value(x).sum().backward()
    rows = {
        id(w.weights): w.row
        for layer in model.layers
        if isinstance(layer, SumLayer)
        for w in layer.weights
        if isinstance(w, BlockSparse)
    }
    updated = []
    for tensor in tensors:
        assert tensor.grad is not None
        theta = tensor.detach()
        # (blocks, rows, columns); a dense matrix is one block.
        counts = (theta * tensor.grad).reshape(-1, *theta.shape[-2:])
        row = rows.get(id(tensor), torch.zeros(1, dtype=torch.long))
        degree = torch.bincount(row)[row, None, None] * counts.shape[2]
        counts = torch.where(theta.reshape(counts.shape) > 0, counts + pseudocount / degree, 0)
        sums = torch.zeros(int(row.max()) + 1, counts.shape[1], dtype=counts.dtype)
        sums = sums.index_add(0, row, counts.sum(2))[row, :, None]
        updated.append((counts / sums.clamp(min=1e-30)).reshape(theta.shape))
    return updated

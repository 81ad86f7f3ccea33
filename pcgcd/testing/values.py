"""The value of a circuit on given strings, by its definition: in numpy, without its own passes.

Products are multiplied pointwise and mixtures added pointwise, HMMs are run from their parameters,
automata edge by edge, and graphs layer by layer on dense weights. So the answers share no code
with ``log_value``, with the rules of products, or with the semirings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pcgcd.automata import FiniteAutomaton
from pcgcd.circuits import CircuitLike, InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.chain_mixture import ChainMixture
from pcgcd.circuits.semirings import LOG
from pcgcd.hmm import HMM

Numbers: TypeAlias = "NDArray[np.float64]"
Strings: TypeAlias = "NDArray[np.int64]"


def log_values(circuit: CircuitLike, strings: Strings) -> Numbers:
    """Return the logarithm of the circuit's value on each of the strings (m, n), (m,), in float64.

    A layer of a kind that is not the library's has no other definition than its own ``up``.
    """
    if isinstance(circuit, ChainMixture):
        each = [log_values(operand, strings) for operand in circuit.operands]
        return _log_sum(np.stack(each, axis=1) + _log(circuit.weights))
    graph = circuit.unroll(strings.shape[1])
    factors = circuit.factors
    if len(factors) > 1 and all(
        factor.unroll(strings.shape[1]).scope == graph.scope for factor in factors
    ):
        return _total([log_values(factor, strings) for factor in factors])
    if isinstance(circuit, FiniteAutomaton):
        return _log([path_weight(circuit, string) for string in strings.tolist()])
    if isinstance(circuit, HMM):
        return _log_forward(circuit, strings)
    columns = dict(zip(sorted(graph.scope), strings.T, strict=True))
    found: dict[Layer, Numbers] = {}
    for layer in graph.layers:
        found[layer] = _layer(layer, [found[child] for child in layer.children], columns)
    return found[graph.root][:, 0]


def path_weight(fa: FiniteAutomaton, string: Iterable[int]) -> float:
    """Add up, over the accepting paths of a string, the products of their edges' weights.

    Of an automaton without weights, the number of accepting paths.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2,
    ...     vocab_size=2,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 0, {0}), (0, 1, {0}), (1, 1, {0})],
    ... )
    >>> path_weight(fa, [0, 0, 0]), path_weight(fa, [1])
    (3.0, 0.0)
    """
    weights = np.ones(len(fa.source)) if fa.weight is None else fa.weight
    admits = fa.labels.label_class[:, fa.labels.token_class][fa.label]  # (E, V)
    here = fa.initial_mask.astype(np.float64)
    for token in string:
        after = np.zeros(fa.num_states)
        for edge in np.flatnonzero(admits[:, token]):
            after[fa.target[edge]] += here[fa.source[edge]] * weights[edge]
        here = after
    return float(here @ fa.accepting_mask)


def _log_forward(hmm: HMM, strings: Strings) -> Numbers:
    initial, transition, emission = map(_log, (hmm.initial, hmm.transition, hmm.emission))
    here = initial + emission[:, strings[:, 0]].T  # (m, H)
    for tokens in strings.T[1:]:
        here = _log_matvec(transition.T, here) + emission[:, tokens].T
    return _log_sum(here)


def _layer(layer: Layer, below: Sequence[Numbers], columns: dict[int, Strings]) -> Numbers:
    """The logarithms of a layer's units (m, units), given those of its children."""
    if isinstance(layer, InputLayer):
        emission = _log(layer.emission.to_dense(torch.float64))
        return np.asarray(emission[:, columns[layer.variable]].T)
    if isinstance(layer, ProductLayer):
        return _total(below)
    if isinstance(layer, SumLayer):
        terms = [
            _log_matvec(_log(weights.to_dense(torch.float64)), values)
            for weights, values in zip(layer.weights, below, strict=True)
        ]
        return _log_sum(np.stack(terms, axis=-1))
    device = next((o.device for o in layer.operators if o.device is not None), None)
    given = [torch.as_tensor(values, device=device) for values in below]
    values = layer.up(given, LOG.with_dtype(torch.float64))
    return np.asarray(values.detach().cpu(), dtype=np.float64)


def _log(numbers: Any) -> Numbers:
    """Logarithms in float64; -inf for zero."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu()
    with np.errstate(divide="ignore"):
        result: Numbers = np.log(np.asarray(numbers, dtype=np.float64))
    return result


def _total(terms: Sequence[Numbers]) -> Numbers:
    return np.asarray(np.sum(terms, axis=0))


def _log_matvec(log_matrix: Numbers, log_x: Numbers) -> Numbers:
    """``log sum_j matrix[i, j] x[b, j]``, (batch, rows)."""
    return np.stack([_log_sum(row + log_x) for row in log_matrix], axis=-1)


def _log_sum(terms: Numbers) -> Numbers:
    """``log sum exp`` over the last axis."""
    largest = terms.max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    total: Numbers = _log(np.exp(terms - shift).sum(axis=-1)) + shift[..., 0]
    return total

"""Products, mixtures and what follows from them, for circuits of one length and of all lengths."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from pcgcd.circuits import product_rules  # noqa: F401  (registers the rules)
from pcgcd.circuits.base import CircuitLike
from pcgcd.circuits.chain import Chain, ChainProduct
from pcgcd.circuits.chain_mixture import ChainMixture
from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import SumLayer
from pcgcd.circuits.operators import Multiple
from pcgcd.circuits.product import Multiplication
from pcgcd.circuits.properties import require_tractable
from pcgcd.errors import (
    AmbiguousAutomatonError,
    AmbiguousAutomatonWarning,
    InvalidParameterError,
    PcgcdError,
    StructuralPropertyError,
)


def circuit_product(a: CircuitLike, b: CircuitLike, *, partial: bool = False) -> CircuitLike:
    """Return the circuit of all pointwise products, ``a * b``.

    The product of two chains is a chain; of a circuit of one length with anything, a circuit of
    that length. It is lazy: building it costs next to nothing.

    Args:
        a: The left operand; its units count first.
        b: The right operand.
        partial: Allow operands over different variables (a constraint on a few of them). Without
            it, different scopes are an error, since they mostly are a mistake.

    Raises:
        StructuralPropertyError: The operands are not compatible; names both scopes.
        VocabularyMismatchError: They are over different vocabularies.

    >>> import torch
    >>> from pcgcd import HMM, FiniteAutomaton
    >>> hmm = HMM(torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([[0.5, 0.5]]))
    >>> one = FiniteAutomaton.from_edges(
    ...     num_states=2,
    ...     vocab_size=2,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 0, {0}), (0, 1, {1}), (1, 1, {0})],
    ... )
    >>> (hmm * one).log_partition(length=3).exp()  # 001, 010, 100: 3 of 8
    tensor(0.3750)
    """
    _check_circuits(a, b)
    if isinstance(a, Chain) and isinstance(b, Chain):
        return ChainProduct(a, b)
    left, right = _graphs_of_one_length((a, b))
    if left.scope != right.scope and not partial:
        raise StructuralPropertyError(
            f"the circuits are over different variables: the left scope is {left.scope}, the right "
            f"one {right.scope}. If that is meant, use circuit_product(a, b, partial=True)"
        )
    require_tractable(left, "a product (its left operand)")
    require_tractable(right, "a product (its right operand)")
    root = Multiplication().multiply(left.root, right.root)
    return Circuit(root, factors=(*a.factors, *b.factors))


def _check_circuits(*operands: object) -> None:
    for operand in operands:
        if not isinstance(operand, CircuitLike):
            # Constraints are above this package.
            advice = "; compile it first: .compile(lm.vocabulary) makes an automaton over tokens"
            raise InvalidParameterError(
                f"expected a circuit, such as an HMM or an automaton over tokens, but got "
                f"{operand!r:.60}{advice if hasattr(operand, 'compile') else ''}"
            )


def _graphs_of_one_length(operands: Sequence[CircuitLike]) -> list[Circuit]:
    fixed = next((operand for operand in operands if isinstance(operand, Circuit)), None)
    if fixed is None:
        kind = next(type(operand) for operand in operands if not isinstance(operand, Chain))
        raise StructuralPropertyError(
            f"circuits that are no chains are combined at one length only, but this {kind.__name__}"
            " has none yet: unroll it first, circuit.unroll(n)"
        )
    length = fixed.num_variables
    return [o if isinstance(o, Circuit) else o.unroll(length) for o in operands]


def is_compatible(a: CircuitLike, b: CircuitLike, *, partial: bool = False) -> bool:
    """Return whether ``a * b`` exists: both divide the same variables in the same way.

    Products are lazy, so the answer comes from building one.
    """
    _check_circuits(a, b)
    try:
        circuit_product(a, b, partial=partial)
    except PcgcdError:
        return False
    return True


def is_structured_decomposable(circuit: CircuitLike) -> bool:
    """Return whether all products over the same variables divide them in the same way."""
    graph = circuit.sample_graph()
    return is_compatible(graph, graph)


def mixture(operands: Sequence[CircuitLike], weights: Sequence[float] | None = None) -> CircuitLike:
    """Mix circuits: ``sum_i weights[i] * operands[i]``, pointwise; without weights, the plain sum.

    >>> import torch
    >>> from pcgcd import HMM
    >>> a = HMM(torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([[0.5, 0.5]]))
    >>> b = HMM(torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> (0.25 * a + 0.75 * b).log_value(torch.tensor([[0, 0], [0, 1]])).exp()
    tensor([0.8125, 0.0625])
    """
    if not operands:
        raise InvalidParameterError("a mixture needs at least one circuit")
    _check_circuits(*operands)
    weights = [1.0] * len(operands) if weights is None else [float(w) for w in weights]
    if len(weights) != len(operands):
        raise InvalidParameterError(f"{len(operands)} circuits, but {len(weights)} weights")
    if not all(w >= 0 and math.isfinite(w) for w in weights):
        raise InvalidParameterError(f"mixture weights must be finite and not negative: {weights}")
    chains = [operand for operand in operands if isinstance(operand, Chain)]
    if len(chains) == len(operands):
        return ChainMixture(chains, weights)
    first, *others = graphs = _graphs_of_one_length(operands)
    for other in others:
        if other.scope != first.scope:
            raise StructuralPropertyError(
                f"a mixture needs circuits over the same variables, but one scope is "
                f"{first.scope} and another {other.scope}"
            )
    roots, shares = [graph.root for graph in graphs], [Multiple(w, 1) for w in weights]
    return Circuit(SumLayer(roots, shares))


def scale(circuit: CircuitLike, weight: float) -> CircuitLike:
    """Return the circuit with all its values multiplied by a number."""
    return mixture([circuit], [weight])


def condition(
    p: CircuitLike, constraint: CircuitLike, *, on_ambiguous: Literal["raise", "warn"] = "raise"
) -> CircuitLike:
    """Condition on a constraint, ``p(x | C)``: a product with values known to be zero or one.

    Args:
        p: Any circuit.
        constraint: An unambiguous automaton (or a product of such).
        on_ambiguous: What to do with an ambiguous automaton, under which the product weighs each
            string by its number of accepting paths (Thm 4.3) and so is not p(x | C).

    Raises:
        AmbiguousAutomatonError: The automaton is ambiguous.
        StructuralPropertyError: The constraint is no automaton at all.
    """
    _check_circuits(p, constraint)
    if not constraint.is_indicator:
        if not (isinstance(constraint, Chain) and constraint.counts_paths):
            raise StructuralPropertyError(
                f"conditioning needs a constraint with values 0 and 1, such as an automaton, but "
                f"got {constraint!r}; for a product of two distributions, use p * q"
            )
        message = (
            f"{constraint!r} is ambiguous: some string has several accepting paths, and the "
            "product would weigh it by their number. Determinize the automaton, or use p * fa "
            "where that weight is meant"
        )
        if on_ambiguous == "raise":
            raise AmbiguousAutomatonError(message)
        warnings.warn(message, AmbiguousAutomatonWarning, stacklevel=2)
    return circuit_product(p, constraint)


def log_expectation(p: CircuitLike, q: CircuitLike, length: int | None = None) -> Tensor:
    """Compute ``log sum_x p(x) q(x)``; for a normalised p, the log-expectation of q under p."""
    return circuit_product(p, q).log_partition(length)


def expectation(p: CircuitLike, q: CircuitLike, length: int | None = None) -> Tensor:
    """``sum_x p(x) q(x)``; see :func:`log_expectation` where that underflows."""
    return log_expectation(p, q, length).exp()


def kl_from_conditioning(
    p: CircuitLike, constraint: CircuitLike, length: int | None = None
) -> Tensor:
    """``KL(p(. | C) || p) = -log p(C)``: how far the constraint bends the distribution, in nats.

    Tractable because the ratio of the two is constant on C; needs an unambiguous automaton.
    """
    constrained = condition(p, constraint)
    return p.log_partition(length) - constrained.log_partition(length)

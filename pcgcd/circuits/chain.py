"""Homogeneous chains: circuits for every length, whose steps share one set of operators."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.numbers import TensorLike
from pcgcd.circuits import prefixes
from pcgcd.circuits.base import CircuitLike
from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer, OperatorMap, ProductLayer, SumLayer
from pcgcd.circuits.operators import Identity, Operator, compose, kronecker, rowwise_kronecker
from pcgcd.circuits.queries.evidence import as_tokens
from pcgcd.circuits.semirings import BOOLEAN
from pcgcd.circuits.tables import table_html
from pcgcd.errors import AmbiguousAutomatonWarning, InvalidParameterError, VocabularyMismatchError

_KEPT_LENGTHS = 8


class ChainOperators(NamedTuple):
    """The parts of a chain on K hidden units over V tokens.

        value(x) = initial · D(x_1) · transition · D(x_2) · ... · transition · D(x_n) · final · 1

    where D(x) is the diagonal matrix of the emission's column x.

    Attributes:
        initial: (1, K).
        transition: (K, K), from the unit of one step (row) to that of the next (column).
        emission: (K, V).
        final: (K, K), diagonal: how much a path may end in a unit.
    """

    initial: Operator
    transition: Operator
    emission: Operator
    final: Operator

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> ChainOperators:
        """Return the same operators with their tensors elsewhere, or in another floating type."""
        return ChainOperators(*(operator.to(device, dtype) for operator in self))


class Chain(CircuitLike):
    """A circuit for every length n >= 1, given by :attr:`operators`.

    :class:`pcgcd.HMM` and :class:`pcgcd.FiniteAutomaton` are chains, and so is their product.
    """

    @property
    @abstractmethod
    def operators(self) -> ChainOperators:
        """The four operators that every step shares."""

    @property
    def num_units(self) -> int:
        """The number of hidden units K."""
        return self.operators.transition.shape[0]

    @property
    def vocab_size(self) -> int:
        return self.operators.emission.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the operators' tensors are."""
        return self.operators.emission.device or torch.device("cpu")

    @property
    def counts_paths(self) -> bool:
        """Whether the value of some string is a number of paths above one."""
        return False

    @property
    def weighs_by_paths(self) -> bool:
        """Whether a factor of this product counts paths, so that it distorts the others."""
        return False

    @property
    def factors(self) -> tuple[Chain, ...]:
        return (self,)

    def map_operators(self, operator_map: OperatorMap) -> Chain:
        """Return the operators mapped; an :class:`OperatorChain` if anything changed."""
        operators = ChainOperators(*map(operator_map, self.operators))
        same = all(new is old for new, old in zip(operators, self.operators))
        return self if same else OperatorChain(operators)

    @abstractmethod
    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Chain:
        """See :class:`CircuitLike`."""

    def unroll(self, length: int | None = None) -> Circuit:
        """Return the layered graph over x_1..x_n, its steps tied."""
        if length is None:
            raise InvalidParameterError("a chain has every length: name one, e.g. length=16")
        if length < 1:
            raise InvalidParameterError(f"a chain has at least one variable, but length={length}")
        if length not in self._unrolled:
            if len(self._unrolled) >= _KEPT_LENGTHS:
                self._unrolled.pop(next(iter(self._unrolled)))
            self._unrolled[length] = self._unroll(length)
        return self._unrolled[length]

    @cached_property
    def _unrolled(self) -> dict[int, Circuit]:
        return {}

    def _unroll(self, length: int) -> Circuit:
        initial, transition, emission, final = self.operators
        layer: Layer = InputLayer(length - 1, emission)
        ending = final
        for step in range(length - 2, -1, -1):
            below = SumLayer([layer], [compose(transition, ending)])
            layer = ProductLayer(InputLayer(step, emission), below)
            ending = Identity(self.num_units)
        return Circuit(SumLayer([layer], [compose(initial, ending)]), family=self)

    def shortest_length(self, limit: int = 100_000) -> int | None:
        """Find the smallest length at which some string has positive weight; None if there is none.

        Follows the set of possible hidden units until it ends or repeats itself.
        """
        initial, transition, emission, final = self.operators
        possible = emission.total(BOOLEAN)
        ending = final.matvec(torch.ones_like(possible), BOOLEAN)
        here = initial.rows(torch.zeros(1, dtype=torch.long, device=self.device), BOOLEAN)
        seen: set[bytes] = set()
        for length in range(1, limit + 1):
            here = here & possible
            if bool((here & ending).any()):
                return length
            key = np.packbits(here.cpu().numpy()).tobytes()
            if key in seen:
                return None
            seen.add(key)
            here = transition.rmatvec(here, BOOLEAN)
        return None

    def _repr_html_(self) -> str:
        """A table of the four operators."""
        rows = [
            (name, " x ".join(f"{size:,}" for size in operator.shape), repr(operator))
            for name, operator in zip(self.operators._fields, self.operators)
        ]
        return table_html(repr(self), ("operator", "shape", "kind"), rows)

    # Prefixes are read by the engine that decodes; everything else by the general queries.

    def next_token_log_probs(self, prefix: TensorLike, length: int | None = None) -> Tensor:
        tokens = as_tokens(prefix, self.device)
        known = prefixes.readable_prefix(self, tokens, length)
        if known is None or length is None or known.shape[1] >= length:
            return super().next_token_log_probs(tokens, length)
        return prefixes.next_token_log_probs(self, known, length)

    def log_marginal(self, x: TensorLike, length: int | None = None) -> Tensor:
        tokens = as_tokens(x, self.device)
        whole = tokens.shape[-1] if length is None else length
        known = prefixes.readable_prefix(self, tokens, whole)
        if known is None or whole is None:
            return super().log_marginal(tokens, length)
        return prefixes.log_marginal(self, known, whole)

    def sample(
        self,
        num_samples: int,
        length: int | None = None,
        *,
        evidence: TensorLike | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        tokens = as_tokens(evidence, self.device)
        whole = tokens.shape[-1] if length is None and evidence is not None else length
        rows = tokens if tokens.dim() == 2 else tokens.unsqueeze(0)
        known = prefixes.readable_prefix(self, rows, whole)
        if known is None or whole is None or num_samples < 1:
            return super().sample(num_samples, length, evidence=evidence, generator=generator)
        drawn = prefixes.sample(self, known.repeat_interleave(num_samples, 0), whole, generator)
        if evidence is not None and tokens.dim() == 2:
            return drawn.reshape(len(known), num_samples, whole)
        return drawn

    def log_prob(self, x: TensorLike) -> Tensor:
        """See :class:`CircuitLike`. Warns where an ambiguous automaton weighs strings by paths."""
        if self.weighs_by_paths:
            warnings.warn(
                "a factor is an ambiguous automaton: strings are weighed by their number of "
                "accepting paths (Thm 4.3), so this is not p(x | C). Determinize the automaton, or "
                "use condition(p, automaton), which refuses ambiguous ones",
                AmbiguousAutomatonWarning,
                stacklevel=2,
            )
        return super().log_prob(x)


class OperatorChain(Chain):
    """A chain of four operators, some of them perhaps of one's own kind.

    >>> from pcgcd.circuits import Dense, Identity
    >>> coin = Dense(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    >>> start = Dense(torch.tensor([[0.2, 0.8]]))
    >>> chain = OperatorChain(ChainOperators(start, Identity(2), coin, Identity(2)))
    >>> chain.log_value(torch.tensor([[0, 1]])).exp()
    tensor([0.1220])
    """

    def __init__(self, operators: ChainOperators) -> None:
        units, tokens = operators.emission.shape
        wanted = ((1, units), (units, units), (units, tokens), (units, units))
        for name, operator, shape in zip(operators._fields, operators, wanted):
            if operator.shape != shape:
                raise InvalidParameterError(
                    f"in a chain whose emission is {units} x {tokens}, the {name} operator must "
                    f"have shape {shape}, but {operator!r} has {operator.shape}"
                )
        self._operators = operators

    @property
    def operators(self) -> ChainOperators:
        return self._operators

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> OperatorChain:
        return OperatorChain(self.operators.to(device, dtype))

    def __repr__(self) -> str:
        return f"OperatorChain({self.num_units} units, {self.vocab_size} tokens)"


def check_together(verb: str, chains: Sequence[Chain]) -> None:
    """Raise unless all chains are over one vocabulary and on one device."""
    first = chains[0]
    for other in chains[1:]:
        if first.vocab_size != other.vocab_size:
            raise VocabularyMismatchError(
                f"cannot {verb} circuits over {first.vocab_size} and {other.vocab_size} tokens; "
                "build both for one vocabulary"
            )
        if first.device != other.device:
            raise InvalidParameterError(
                f"cannot {verb} circuits on {first.device} and {other.device}; move one of them "
                "with .to(device) first"
            )


class ChainProduct(Chain):
    """The product of two chains: one chain on pairs of hidden units (Thm 4.4).

    ``initial``, ``transition`` and ``final`` are Kronecker products, ``emission`` is a row-wise
    one; all of them lazy.
    """

    def __init__(self, left: Chain, right: Chain) -> None:
        check_together("multiply", (left, right))
        self.left, self.right = left, right

    @property
    def factors(self) -> tuple[Chain, ...]:
        """The chains that were multiplied, products among them opened up, from left to right."""
        return (*self.left.factors, *self.right.factors)

    @cached_property
    def operators(self) -> ChainOperators:
        a, b = self.left.operators, self.right.operators
        return ChainOperators(
            initial=kronecker(a.initial, b.initial),
            transition=kronecker(a.transition, b.transition),
            emission=rowwise_kronecker(a.emission, b.emission),
            final=kronecker(a.final, b.final),
        )

    @property
    def is_indicator(self) -> bool:
        return all(factor.is_indicator for factor in self.factors)

    @property
    def weighs_by_paths(self) -> bool:
        return any(factor.counts_paths or factor.weighs_by_paths for factor in self.factors)

    def split_units(self, units: Tensor) -> tuple[Tensor, ...]:
        """Return the hidden units of each factor that pairs (triples, ...) of units are made of."""
        parts: list[Tensor] = []
        for factor in reversed(self.factors):
            parts.append(units % factor.num_units)
            units = units // factor.num_units
        return tuple(reversed(parts))

    def map_operators(self, operator_map: OperatorMap) -> ChainProduct:
        left, right = self.left, self.right
        return ChainProduct(left.map_operators(operator_map), right.map_operators(operator_map))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> ChainProduct:
        return ChainProduct(self.left.to(device, dtype), self.right.to(device, dtype))

    def __repr__(self) -> str:
        return " * ".join(repr(factor) for factor in self.factors)

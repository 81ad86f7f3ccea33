"""What every circuit can be asked, whether it has one length or all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.circuits import queries
from pcgcd.circuits.frozen import Frozen
from pcgcd.circuits.queries import DEFAULT
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError, StructuralPropertyError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit
    from pcgcd.circuits.layers import OperatorMap
    from pcgcd.circuits.operators import Operator

_SHORT = 3


class CircuitLike(Frozen, ABC):
    """A circuit over x_1..x_n, for one n (:class:`Circuit`) or for every n (chains, mostly).

    Its value on a string is a non-negative number; normalised over all strings of a length it is
    a distribution. Tokens are integers, -1 stands for "missing".
    """

    @abstractmethod
    def unroll(self, length: int | None = None) -> Circuit:
        """Return the explicit layered graph over ``length`` variables."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The number of tokens (values of a variable)."""

    @abstractmethod
    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> CircuitLike:
        """Return the same circuit with its tensors elsewhere, or in another floating type."""

    def map_operators(self, operator_map: OperatorMap) -> CircuitLike:
        """Return the same structure with each operator replaced by what the function makes of it.

        What the function leaves alone stays what it is: of ``hmm * fa`` with another emission of
        the HMM, ``fa`` is still an automaton.
        """
        raise StructuralPropertyError(
            f"{self!r} makes its operators anew for every length: map those of one, "
            "circuit.unroll(n).map_operators(function)"
        )

    def with_operators(self, replacements: Mapping[Operator, Operator]) -> CircuitLike:
        """Return the same structure with other weights: each operator named replaced by another.

        >>> from pcgcd import HMM
        >>> from pcgcd.circuits import Dense
        >>> hmm = HMM(torch.tensor([1.0]), torch.tensor([[1.0]]), torch.tensor([[0.5, 0.5]]))
        >>> coin = Dense(torch.tensor([[0.9, 0.1]]))
        >>> other = hmm.with_operators({hmm.operators.emission: coin})
        >>> other.log_value(torch.tensor([[0, 1]])).exp()
        tensor([0.0900])
        """
        left = set(replacements)

        def replace(operator: Operator) -> Operator:
            left.discard(operator)
            return replacements.get(operator, operator)

        result = self.map_operators(replace)
        if left:
            raise InvalidParameterError(
                f"{left.pop()!r} is no operator of this circuit; name those in `operators` (of a "
                "product or a mixture of chains: in `operators` of one of them)"
            )
        return result

    @property
    def factors(self) -> tuple[CircuitLike, ...]:
        """What was multiplied to make this circuit, from left to right; else the circuit itself."""
        return (self,)

    def sample_graph(self) -> Circuit:
        """Return a layered graph with this structure: of a circuit of every length, a short one."""
        return self.unroll(None if self._has_fixed_length else _SHORT)

    @property
    def is_indicator(self) -> bool:
        """Whether the value of every string is known to be zero or one: a constraint."""
        return False

    def shortest_length(self) -> int | None:
        """Return the smallest length on which some string has positive weight, if that is known."""
        return None

    # -- algebra ------------------------------------------------------------------------------

    def __mul__(self, other: CircuitLike | float) -> CircuitLike:
        """``(a * b)(x) = a(x) * b(x)``; with a number, a rescaled circuit."""
        from pcgcd.circuits.algebra import circuit_product, scale

        if isinstance(other, CircuitLike):
            return circuit_product(self, other)
        return scale(self, other) if isinstance(other, int | float) else NotImplemented

    def __rmul__(self, other: float) -> CircuitLike:
        return self.__mul__(other)

    def __add__(self, other: CircuitLike) -> CircuitLike:
        """``(a + b)(x) = a(x) + b(x)``; write ``0.3 * a + 0.7 * b`` for a weighted mixture."""
        from pcgcd.circuits.algebra import mixture

        return mixture([self, other]) if isinstance(other, CircuitLike) else NotImplemented

    # -- token by token -----------------------------------------------------------------------

    def start(self, budgets: Sequence[int | None]) -> Any:
        """Start with empty prefixes, one row for each budget, to be advanced token by token.

        What decoding asks of a circuit: which tokens may come next, how likely they are, and how
        likely the text is to end well. See :class:`pcgcd.engine.PrefixState`.
        """
        from pcgcd.circuits import prefixes

        return prefixes.compiled(self).start(budgets)

    # -- queries ------------------------------------------------------------------------------

    def _unroll_for(self, x: Tensor, length: int | None = None) -> Circuit:
        if x.dim() != 2:
            raise InvalidParameterError(
                f"expected tokens of shape (batch, length), but got {tuple(x.shape)}"
            )
        if length is None and not self._has_fixed_length:
            length = x.shape[1]
        return self.unroll(length)

    def value(self, x: Tensor, semiring: Semiring[Value] = DEFAULT) -> Value:
        """Return the values of x (batch, n) in any semiring, missing tokens (-1) summed out."""
        return queries.value(self._unroll_for(x), x, semiring)

    def partition(self, length: int | None = None, semiring: Semiring[Value] = DEFAULT) -> Value:
        """Return the sum of the values over all strings in any semiring, (1,).

        In ``BOOLEAN``: is there a string? In ``COUNTING``, of an automaton: how many paths are
        there? In ``MAXIMUM``: the weight of the best path.
        """
        return queries.value(self.unroll(length), None, semiring)

    def log_value(self, x: Tensor) -> Tensor:
        """Logarithms of the circuit's values on x (batch, n); -inf where the value is zero."""
        return queries.log_value(self._unroll_for(x), x)

    def log_partition(self, length: int | None = None) -> Tensor:
        """Logarithm of the sum of the values over all strings of the length."""
        return queries.log_partition(self.unroll(length))

    def log_prob(self, x: Tensor) -> Tensor:
        """Logarithms of the values normalised over all strings of x's length (batch, n)."""
        return queries.log_prob(self._unroll_for(x), x)

    def log_marginal(self, x: Tensor, length: int | None = None) -> Tensor:
        """``log p(observed part of x)``, normalised; missing tokens (-1, or past x) summed out."""
        return queries.log_marginal(self._unroll_for(x, length), x)

    def log_conditional(self, x: Tensor, evidence: Tensor, length: int | None = None) -> Tensor:
        """``log p(x | evidence)``, both partial strings with -1 for missing."""
        return queries.log_conditional(self._unroll_for(x, length), x, evidence)

    def next_token_log_probs(self, prefix: Tensor, length: int | None = None) -> Tensor:
        """``log p(x_{t+1} = v | x_{1:t})`` for each v: prefix (batch, t) to (batch, V)."""
        if length is None and not self._has_fixed_length:
            raise InvalidParameterError(
                "name the total length: next_token_log_probs(prefix, length=n)"
            )
        return queries.next_token_log_probs(self._unroll_for(prefix, length), prefix)

    def token_marginals(self, evidence: Tensor, length: int | None = None) -> Tensor:
        """``p(x_t = v | evidence)`` for each t and v, (batch, n, V)."""
        return queries.token_marginals(self._unroll_for(evidence, length), evidence)

    def expected_token_counts(self, evidence: Tensor, length: int | None = None) -> Tensor:
        """How often each token is expected to occur given the evidence, (batch, V)."""
        return queries.expected_token_counts(self._unroll_for(evidence, length), evidence)

    def unit_posteriors(self, evidence: Tensor, length: int | None = None) -> list[Tensor]:
        """For each variable, ``p(its input layer's unit k is used | evidence)``, (batch, units)."""
        return queries.unit_posteriors(self._unroll_for(evidence, length), evidence)

    def sample(
        self,
        num_samples: int,
        length: int | None = None,
        *,
        evidence: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Strings drawn from the normalised circuit, given the evidence.

        Args:
            num_samples: How many to draw.
            length: The strings' length (of a circuit of one length: its own).
            evidence: Tokens to keep, -1 elsewhere: (n,), or (batch, n) for a batch of draws.
            generator: The source of randomness.

        Returns:
            (num_samples, n), or (batch, num_samples, n) for a batch of evidence.
        """
        if length is None and evidence is not None and not self._has_fixed_length:
            length = evidence.shape[-1]
        return queries.sample(self.unroll(length), num_samples, evidence, generator)

    def best_path(self, evidence: Tensor, length: int | None = None) -> queries.BestPath:
        """Find the heaviest path (units and missing tokens) that agrees with the evidence."""
        return queries.best_path(self._unroll_for(evidence, length), evidence)

    def _repr_html_(self) -> str:
        """A table of the layers of a short graph."""
        return self.sample_graph()._repr_html_()

    @property
    def _has_fixed_length(self) -> bool:
        return False

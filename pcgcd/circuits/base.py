"""What every circuit can be asked, whether it has one length or all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.basics.numbers import TensorLike
from pcgcd.circuits import queries
from pcgcd.circuits.frozen import Frozen
from pcgcd.circuits.queries import DEFAULT
from pcgcd.circuits.queries.evidence import as_tokens
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

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.sample_graph().device

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

        if isinstance(other, int | float):
            return scale(self, other)
        # What must be compiled first is refused there, with what to do.
        if hasattr(other, "compile") or isinstance(other, CircuitLike):
            return circuit_product(self, other)
        return NotImplemented

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

    def _read(self, x: TensorLike | None, length: int | None = None) -> tuple[Circuit, Tensor]:
        """The graph of the length asked for, or of x's own, and the tokens as a tensor."""
        tokens = as_tokens(x, self.device)
        if tokens.dim() != 2:
            raise InvalidParameterError(
                f"expected tokens of shape (batch, length), but got {tuple(tokens.shape)}"
            )
        if length is None and x is not None and not self._has_fixed_length:
            length = tokens.shape[1]
        return self.unroll(length), tokens

    def value(self, x: TensorLike, semiring: Semiring[Value] = DEFAULT) -> Value:
        """Return the values of x (batch, n) in any semiring, missing tokens (-1) summed out."""
        return queries.value(*self._read(x), semiring)

    def partition(self, length: int | None = None, semiring: Semiring[Value] = DEFAULT) -> Value:
        """Return the sum of the values over all strings in any semiring, (1,).

        In ``BOOLEAN``: is there a string? In ``COUNTING``, of an automaton: how many paths are
        there? In ``MAXIMUM``: the weight of the best path.
        """
        return queries.value(self.unroll(length), None, semiring)

    def log_value(self, x: TensorLike) -> Tensor:
        """Logarithms of the circuit's values on x (batch, n); -inf where the value is zero."""
        return queries.log_value(*self._read(x))

    def log_partition(self, length: int | None = None) -> Tensor:
        """Logarithm of the sum of the values over all strings of the length."""
        return queries.log_partition(self.unroll(length))

    def log_prob(self, x: TensorLike) -> Tensor:
        """Logarithms of the values normalised over all strings of x's length (batch, n)."""
        return queries.log_prob(*self._read(x))

    def log_marginal(self, x: TensorLike, length: int | None = None) -> Tensor:
        """``log p(observed part of x)``, normalised; missing tokens (-1, or past x) summed out."""
        return queries.log_marginal(*self._read(x, length))

    def log_conditional(
        self, x: TensorLike, evidence: TensorLike, length: int | None = None
    ) -> Tensor:
        """``log p(x | evidence)``, both partial strings with -1 for missing."""
        known = as_tokens(evidence, self.device)
        return queries.log_conditional(*self._read(x, length), known)

    def next_token_log_probs(self, prefix: TensorLike, length: int | None = None) -> Tensor:
        """``log p(x_{t+1} = v | x_{1:t})`` for each v: prefix (batch, t) to (batch, V)."""
        if length is None and not self._has_fixed_length:
            raise InvalidParameterError(
                "name the total length: next_token_log_probs(prefix, length=n)"
            )
        return queries.next_token_log_probs(*self._read(prefix, length))

    def token_marginals(
        self, evidence: TensorLike | None = None, length: int | None = None
    ) -> Tensor:
        """``p(x_t = v | evidence)`` for each t and v, (batch, n, V)."""
        return queries.token_marginals(*self._read(evidence, length))

    def expected_token_counts(
        self, evidence: TensorLike | None = None, length: int | None = None
    ) -> Tensor:
        """How often each token is expected to occur given the evidence, (batch, V)."""
        return queries.expected_token_counts(*self._read(evidence, length))

    def unit_posteriors(
        self, evidence: TensorLike | None = None, length: int | None = None
    ) -> list[Tensor]:
        """For each variable, ``p(its input layer's unit k is used | evidence)``, (batch, units)."""
        return queries.unit_posteriors(*self._read(evidence, length))

    def sample(
        self,
        num_samples: int,
        length: int | None = None,
        *,
        evidence: TensorLike | None = None,
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
        known = None if evidence is None else as_tokens(evidence, self.device)
        if length is None and known is not None and not self._has_fixed_length:
            length = known.shape[-1]
        return queries.sample(self.unroll(length), num_samples, known, generator)

    def best_path(
        self, evidence: TensorLike | None = None, length: int | None = None
    ) -> queries.BestPath:
        """Find the heaviest path (units and missing tokens) that agrees with the evidence.

        >>> from pcgcd import HMM
        >>> hmm = HMM([0.4, 0.6], [[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]])
        >>> hmm.best_path(length=4).tokens, hmm.best_path([[0]], length=4).tokens
        (tensor([[1, 1, 1, 1]]), tensor([[0, 0, 0, 0]]))
        """
        return queries.best_path(*self._read(evidence, length))

    def _repr_html_(self) -> str:
        """A table of the layers of a short graph."""
        return self.sample_graph()._repr_html_()

    @property
    def _has_fixed_length(self) -> bool:
        return False

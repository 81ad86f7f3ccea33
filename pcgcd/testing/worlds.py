"""Small worlds: every query of a circuit answered by summing over all strings.

The values come from the definition (:mod:`pcgcd.testing.values`) and not from the circuit's own
``log_value``, so that its answers can be compared with them. Hidden paths are enumerated in
:mod:`pcgcd.testing.paths`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pcgcd.circuits import MISSING, CircuitLike
from pcgcd.errors import CircuitTooLargeError
from pcgcd.testing.values import log_values

_LIMIT = 1 << 20


def all_strings(vocab_size: int, length: int, *, limit: int = _LIMIT) -> Tensor:
    """All strings of a length, in lexicographic order, (V**n, n).

    Args:
        vocab_size: The number of tokens V.
        length: The length n.
        limit: The largest number of strings to write out.

    Raises:
        CircuitTooLargeError: There are more strings than the limit.

    >>> all_strings(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    number = vocab_size**length
    if number > limit:
        raise CircuitTooLargeError(
            f"there are {vocab_size}**{length} = {number:,} strings, over the limit of {limit:,}; "
            "enumerate a smaller world, or raise the limit"
        )
    return torch.arange(number).unsqueeze(1) // _places(vocab_size, length) % vocab_size


def _places(vocab_size: int, length: int, device: torch.device | None = None) -> Tensor:
    """What each token of a string counts in the string's number, (n,)."""
    return vocab_size ** torch.arange(length - 1, -1, -1, device=device)


def partial_strings(vocab_size: int, length: int, *, limit: int = _LIMIT) -> Tensor:
    """All strings in which any tokens may be missing (-1), ((V + 1)**n, n).

    >>> partial_strings(1, 2).tolist()
    [[-1, -1], [-1, 0], [0, -1], [0, 0]]
    """
    return all_strings(vocab_size + 1, length, limit=limit) + MISSING


@dataclass(frozen=True)
class World:
    """All strings of a length with their values, and what follows from them.

    Attributes:
        strings: All strings, (V**n, n).
        log_values: Logarithms of their values, (V**n,), float64.
        vocab_size: The number of tokens V.
    """

    strings: Tensor
    log_values: Tensor
    vocab_size: int

    @property
    def support(self) -> Tensor:
        """Which strings have a positive value, (V**n,)."""
        return ~torch.isneginf(self.log_values)

    @property
    def log_partition(self) -> Tensor:
        """``log sum_x value(x)``."""
        return self.log_values.logsumexp(0)

    @property
    def log_prob(self) -> Tensor:
        """The values, normalised, (V**n,)."""
        return self.log_values - self.log_partition

    def index(self, strings: Tensor) -> Tensor:
        """Return the position of each string (batch, n) among all strings, (batch,)."""
        return (strings * _places(self.vocab_size, strings.shape[-1], strings.device)).sum(-1)

    def agrees(self, evidence: Tensor) -> Tensor:
        """Which strings agree with the evidence (batch, m <= n), (batch, V**n)."""
        seen = self.strings[:, : evidence.shape[1]]
        return ((evidence[:, None] == seen) | (evidence[:, None] == MISSING)).all(-1)

    def _log_sum(self, chosen: Tensor) -> Tensor:
        return torch.where(chosen, self.log_values, -torch.inf).logsumexp(-1)

    def log_mass(self, evidence: Tensor) -> Tensor:
        """``log sum of the values that agree with the evidence``, (batch,)."""
        return self._log_sum(self.agrees(evidence))

    def log_marginal(self, evidence: Tensor) -> Tensor:
        """``log p(evidence)``, (batch,)."""
        return self.log_mass(evidence) - self.log_partition

    def is_possible(self, evidence: Tensor) -> Tensor:
        """Return whether some string of positive value agrees with the evidence, (batch,)."""
        return (self.agrees(evidence) & self.support).any(-1)

    def log_conditional(self, x: Tensor, evidence: Tensor) -> Tensor:
        """``log p(x | evidence)`` for possible evidence, both (batch, m <= n), (batch,)."""
        joint = self._log_sum(self.agrees(x) & self.agrees(evidence))
        return joint - self.log_mass(evidence)

    def next_token_log_probs(self, prefix: Tensor) -> Tensor:
        """``log p(x_{t+1} = v | x_{1:t})`` for possible prefixes (batch, t), (batch, V)."""
        pad = torch.nn.functional.pad
        longer = [pad(prefix, (0, 1), value=token) for token in range(self.vocab_size)]
        joint = torch.stack([self.log_mass(strings) for strings in longer], dim=1)
        return joint - self.log_mass(prefix).unsqueeze(1)

    def token_marginals(self, evidence: Tensor) -> Tensor:
        """``p(x_t = v | evidence)`` for possible evidence, (batch, n, V)."""
        log_weight = self.log_values - self.log_mass(evidence).unsqueeze(1)
        posterior = log_weight.exp() * self.agrees(evidence)  # of every string, (batch, V**n)
        one_hot = torch.nn.functional.one_hot(self.strings, self.vocab_size).double()
        return torch.einsum("bs,stv->btv", posterior, one_hot)

    def expected_token_counts(self, evidence: Tensor) -> Tensor:
        """How often each token occurs on average, given possible evidence, (batch, V)."""
        return self.token_marginals(evidence).sum(1)


def enumerate_values(circuit: CircuitLike, length: int | None = None) -> World:
    """Return the world of a circuit: its value on every string of a length.

    >>> from pcgcd import FiniteAutomaton
    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2,
    ...     vocab_size=2,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 0, {0}), (0, 1, {1})],
    ... )
    >>> world = enumerate_values(fa, 2)
    >>> world.strings[world.support].tolist()
    [[0, 1]]
    """
    graph = circuit.unroll(length)
    strings = all_strings(circuit.vocab_size, graph.num_variables).to(graph.device)
    values = torch.from_numpy(log_values(circuit, strings.cpu().numpy()))
    return World(strings, values.to(graph.device), circuit.vocab_size)

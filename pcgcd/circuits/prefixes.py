"""Queries about the prefixes of chains, answered by the engine that decoders use.

The engine stands above this package, so it registers itself: see :func:`use_compiler`. Where it
does not apply (gradients are wanted, tokens are missing in the middle) the general queries answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.circuits.queries.evidence import MISSING
from pcgcd.errors import ImpossibleEvidenceError, InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits.base import CircuitLike
    from pcgcd.circuits.chain import Chain

__all__ = [
    "compiled",
    "log_marginal",
    "next_token_log_probs",
    "readable_prefix",
    "sample",
    "use_compiler",
]

_COMPILERS: list[Callable[[CircuitLike], Any]] = []
# How many prefixes are scored at a time: their rows over the vocabulary are in memory.
_ROWS_AT_A_TIME = 256


def use_compiler(compiler: Callable[[CircuitLike], Any]) -> None:
    """Say what compiles circuits: a function to an object with ``start(budgets)``."""
    _COMPILERS[:] = [compiler]


def compiled(circuit: CircuitLike) -> Any:
    """The engine of a circuit.

    Raises:
        InvalidParameterError: There is no engine: ``pcgcd.engine`` was not imported.
    """
    if not _COMPILERS:
        raise InvalidParameterError("no engine is known; import pcgcd.engine first")
    return _COMPILERS[0](circuit)


def readable_prefix(chain: Chain, x: Tensor, length: int | None) -> Tensor | None:
    """The observed beginning of x, (batch, t), if the engine can answer for it; otherwise None.

    Args:
        chain: The circuit.
        x: Tokens (batch, m), -1 where missing.
        length: The length of the whole strings.
    """
    if x.dim() != 2 or x.is_floating_point() or x.dtype == torch.bool or not len(x):
        return None
    if length is None or length < 1 or x.shape[1] > length or x.device != chain.device:
        return None
    if torch.is_grad_enabled() and any(part.requires_grad for part in chain.operators):
        return None
    seen = (x != MISSING).all(0)
    count = int(seen.sum())
    if not bool(seen[:count].all()) or not bool((x[:, count:] == MISSING).all()):
        return None
    if not _COMPILERS or not compiled(chain).is_fast:
        return None
    return x[:, :count]


def _read(chain: Chain, prefixes: Tensor, length: int) -> Any:
    """The state after each prefix, (batch, t)."""
    state = compiled(chain).start([length] * len(prefixes))
    for column in prefixes.T:
        state = state.advance(column)
    return state


def next_token_log_probs(chain: Chain, prefixes: Tensor, length: int) -> Tensor:
    """``log p(x_{t+1} | x_{1:t})``, (batch, V); see :class:`CircuitLike`."""
    parts = []
    for rows in prefixes.split(_ROWS_AT_A_TIME):
        state = _read(chain, rows, length)
        _require_possible(state.log_mass, "prefix")
        parts.append(state.next_token_log_probs().dense(chain.vocab_size))
    return torch.cat(parts)


def log_marginal(chain: Chain, prefixes: Tensor, length: int) -> Tensor:
    """``log p(x_{1:t})`` of the normalised circuit, (batch,)."""
    start = compiled(chain).start([length])
    _require_possible(start.log_mass, "empty prefix")
    parts = [
        _read(chain, rows, length).log_mass - start.log_mass
        for rows in prefixes.split(_ROWS_AT_A_TIME)
    ]
    return torch.cat(parts)


def sample(
    chain: Chain, prefixes: Tensor, length: int, generator: torch.Generator | None
) -> Tensor:
    """Strings that begin with the prefixes, (batch, length), drawn token by token."""
    parts = []
    for rows in prefixes.split(_ROWS_AT_A_TIME):
        state, columns = _read(chain, rows, length), [rows]
        _require_possible(state.log_mass, "evidence")
        for _ in range(rows.shape[1], length):
            candidates = state.next_token_log_probs()
            tokens = candidates.token(_draw(candidates.log_weights, generator))
            state = state.advance(tokens)
            columns.append(tokens.unsqueeze(1).to(rows))
        parts.append(torch.cat(columns, 1))
    return torch.cat(parts)


def _draw(log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One column per row with probability in proportion to its weight; never one of weight 0."""
    cumulative = log_weights.double().softmax(-1).cumsum(-1)
    total = cumulative[:, -1:]
    uniform = torch.rand(
        len(total), 1, dtype=torch.float64, device=total.device, generator=generator
    )
    # Strictly below the total, so that the first larger entry exists and has positive weight.
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).squeeze(-1)


def _require_possible(log_mass: Tensor, what: str) -> None:
    rows = log_mass.isneginf().nonzero().flatten().tolist()
    if rows:
        raise ImpossibleEvidenceError(
            f"the {what} in row(s) {rows[:10]} has probability zero, so nothing can be "
            "conditioned on it; leave these rows out"
        )

"""Queries about the prefixes of chains, answered by the engine that decoders use.

The engine stands above this package, so it registers itself when it is first needed: see
:func:`use_compiler`. Where it does not apply (gradients are wanted, tokens are missing in the
middle) the general queries answer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.basics.numbers import draw
from pcgcd.circuits.properties import require_possible
from pcgcd.circuits.queries.evidence import MISSING

if TYPE_CHECKING:
    from pcgcd.circuits.base import CircuitLike
    from pcgcd.circuits.chain import Chain

_COMPILERS: list[Callable[[CircuitLike], Any]] = []
# How many prefixes are scored at a time: their rows over the vocabulary are in memory.
_ROWS_AT_A_TIME = 256


def use_compiler(compiler: Callable[[CircuitLike], Any]) -> None:
    """Register what compiles circuits: a function to an object with ``start(budgets)``."""
    _COMPILERS[:] = [compiler]


def compiled(circuit: CircuitLike) -> Any:
    """Return the engine of a circuit."""
    if not _COMPILERS:
        import_module("pcgcd.engine")
    return _COMPILERS[0](circuit)


def readable_prefix(chain: Chain, x: Tensor, length: int | None) -> Tensor | None:
    """Return the observed beginning of x (batch, m) if the engine can answer for it, else None."""
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
    if not compiled(chain).is_fast:
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
        require_possible(~state.log_mass.isneginf(), "prefix")
        parts.append(state.next_token_log_probs().dense(chain.vocab_size))
    return torch.cat(parts)


def log_marginal(chain: Chain, prefixes: Tensor, length: int) -> Tensor:
    """``log p(x_{1:t})`` of the normalised circuit, (batch,)."""
    start = compiled(chain).start([length])
    require_possible(~start.log_mass.isneginf(), "empty prefix")
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
        require_possible(~state.log_mass.isneginf(), "evidence")
        for _ in range(rows.shape[1], length):
            candidates = state.next_token_log_probs()
            weights = candidates.log_weights.double().softmax(-1)
            tokens = candidates.token(draw(weights, generator))
            state = state.advance(tokens)
            columns.append(tokens.unsqueeze(1).to(rows))
        parts.append(torch.cat(columns, 1))
    return torch.cat(parts)

"""Hidden paths of a chain, all of them: the oracle for best paths and posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits import MISSING, BestPath, Chain
from pcgcd.testing.worlds import all_strings


def _log_emission(chain: Chain) -> Tensor:
    return chain.operators.emission.to_dense(torch.float64).log()


def _paths(chain: Chain, evidence: Tensor, log_missing: Tensor) -> tuple[Tensor, Tensor]:
    """All paths (units**n, n), and the logarithms of their weights (batch, units**n).

    Args:
        chain: An HMM, an automaton, or a product of such.
        evidence: (batch, n).
        log_missing: What each unit makes of a missing token, (units,).
    """
    initial, transition, emission, final = (
        operator.to_dense(torch.float64).log() for operator in chain.operators
    )
    observed = emission[:, evidence.clamp(min=0)].permute(1, 2, 0)
    by_step = torch.where((evidence != MISSING).unsqueeze(-1), observed, log_missing)
    length = evidence.shape[1]
    paths = all_strings(chain.num_units, length).to(evidence.device)
    log_weights = initial[0, paths[:, 0]] + final.logsumexp(1)[paths[:, -1]]
    log_weights = log_weights + transition[paths[:, :-1], paths[:, 1:]].sum(-1)
    steps = torch.arange(length, device=paths.device)
    return paths, log_weights + by_step[:, steps, paths].sum(-1)


def brute_force_best_path(chain: Chain, evidence: Tensor) -> BestPath:
    """Return the heaviest hidden path and missing tokens, by trying all paths; any one of equals.

    >>> from pcgcd import HMM
    >>> hmm = HMM(
    ...     torch.tensor([0.5, 0.5]),
    ...     torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
    ...     torch.tensor([[0.7, 0.3], [0.1, 0.9]]),
    ... )
    >>> brute_force_best_path(hmm, torch.tensor([[0, -1]])).units
    tensor([[0, 0]])
    """
    best_value, best_token = _log_emission(chain).max(1)
    paths, log_weights = _paths(chain, evidence, best_value)
    log_weight, index = log_weights.max(1)
    units = paths[index]
    tokens = torch.where(evidence == MISSING, best_token[units], evidence)
    return BestPath(tokens, units, log_weight)


def brute_force_unit_posteriors(chain: Chain, evidence: Tensor) -> Tensor:
    """``p(hidden unit of step t is k | evidence)`` by summing over all paths, (batch, n, units)."""
    paths, log_weights = _paths(chain, evidence, _log_emission(chain).logsumexp(1))
    one_hot = torch.nn.functional.one_hot(paths, chain.num_units).double()
    return torch.einsum("bp,ptk->btk", log_weights.softmax(1), one_hot)

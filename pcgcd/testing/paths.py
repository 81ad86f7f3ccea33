"""Hidden paths of a chain, all of them: the oracle for best paths and posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits import MISSING, BestPath, Chain
from pcgcd.testing.worlds import all_strings

__all__ = ["brute_force_best_path", "brute_force_unit_posteriors", "path_log_weights"]


def path_log_weights(chain: Chain, log_emission: Tensor) -> tuple[Tensor, Tensor]:
    """The weight of every hidden path, given what each unit makes of each step.

    Args:
        chain: An HMM, an automaton, or a product of such.
        log_emission: (batch, n, units).

    Returns:
        All paths (units**n, n), and the logarithms of their weights (batch, units**n).
    """
    length = log_emission.shape[1]
    initial, transition, _, final = (
        operator.to_dense(torch.float64).log() for operator in chain.operators
    )
    paths = all_strings(chain.num_units, length).to(log_emission.device)
    log_weights = initial[0, paths[:, 0]] + final.logsumexp(1)[paths[:, -1]]
    for step in range(length - 1):
        log_weights = log_weights + transition[paths[:, step], paths[:, step + 1]]
    steps = torch.arange(length, device=paths.device)
    return paths, log_weights + log_emission[:, steps, paths].sum(-1)


def brute_force_best_path(chain: Chain, evidence: Tensor) -> BestPath:
    """The heaviest hidden path and missing tokens, by trying all paths; any one of equals.

    >>> from pcgcd import HMM
    >>> hmm = HMM(
    ...     torch.tensor([0.5, 0.5]),
    ...     torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
    ...     torch.tensor([[0.7, 0.3], [0.1, 0.9]]),
    ... )
    >>> brute_force_best_path(hmm, torch.tensor([[0, -1]])).units
    tensor([[0, 0]])
    """
    log_emission = chain.operators.emission.to_dense(torch.float64).log()
    best_value, best_token = log_emission.max(1)
    seen = evidence != MISSING
    observed = log_emission[:, evidence.clamp(min=0)].permute(1, 2, 0)
    by_step = torch.where(seen.unsqueeze(-1), observed, best_value)
    paths, log_weights = path_log_weights(chain, by_step)
    log_weight, index = log_weights.max(1)
    units = paths[index]
    return BestPath(torch.where(seen, evidence, best_token[units]), units, log_weight)


def brute_force_unit_posteriors(chain: Chain, evidence: Tensor) -> Tensor:
    """``p(hidden unit of step t is k | evidence)`` by summing over all paths, (batch, n, units)."""
    log_emission = chain.operators.emission.to_dense(torch.float64).log()
    observed = log_emission[:, evidence.clamp(min=0)].permute(1, 2, 0)
    free = log_emission.logsumexp(1)
    by_step = torch.where((evidence != MISSING).unsqueeze(-1), observed, free)
    paths, log_weights = path_log_weights(chain, by_step)
    one_hot = torch.nn.functional.one_hot(paths, chain.num_units).double()
    return torch.einsum("bp,ptk->btk", log_weights.softmax(1), one_hot)

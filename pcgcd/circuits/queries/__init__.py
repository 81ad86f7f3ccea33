"""What circuits can be asked. ``docs/queries.md`` has the table of properties and costs."""

from __future__ import annotations

from pcgcd.circuits.queries.evidence import MISSING
from pcgcd.circuits.queries.likelihood import (
    DEFAULT,
    expected_token_counts,
    log_conditional,
    log_marginal,
    log_partition,
    log_prob,
    log_value,
    next_token_log_probs,
    token_marginals,
    unit_posteriors,
    value,
)
from pcgcd.circuits.queries.traces import BestPath, best_path, sample

__all__ = [
    "DEFAULT",
    "MISSING",
    "BestPath",
    "best_path",
    "expected_token_counts",
    "log_conditional",
    "log_marginal",
    "log_partition",
    "log_prob",
    "log_value",
    "next_token_log_probs",
    "sample",
    "token_marginals",
    "unit_posteriors",
    "value",
]

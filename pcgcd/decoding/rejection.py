"""Rejection sampling: texts of the model alone, kept if they satisfy the constraint."""

from __future__ import annotations

import math
from collections.abc import Callable

from pcgcd.decoding.genealogy import Genealogy
from pcgcd.decoding.results import Generation

_LEAST_BATCH = 16


def reject(attempt: Callable[[int], Generation], wanted: int, max_attempts: int) -> Generation:
    """Sample until there is one text more than wanted, or the attempts run out.

    The share of accepted samples would be too large, since sampling stops at a success. With k + 1
    successes in N attempts k / (N - 1) is unbiased, and so is m / N where the attempts run out
    with m successes (Girshick, Mosteller and Savage, 1946, "Unbiased estimates for certain binomial
    sampling problems").

    Args:
        attempt: Draws so many texts of the model; those without weight are rejected.
        wanted: The number of texts k.
        max_attempts: The largest number of attempts.
    """
    attempts, seconds, model_seconds = 0, 0.0, 0.0
    prompt_ids: tuple[int, ...] = ()
    accepted: list[tuple[str, tuple[int, ...], float, bool]] = []
    while len(accepted) <= wanted and attempts < max_attempts:
        result = attempt(min(max(wanted, _LEAST_BATCH), max_attempts - attempts))
        prompt_ids = result.prompt_ids
        seconds, model_seconds = seconds + result.seconds, model_seconds + result.model_seconds
        for row in range(len(result)):
            attempts += 1
            if result.log_weights[row] > -math.inf:
                accepted.append(
                    (
                        result.texts[row],
                        result.token_ids[row],
                        result.log_probs[row],
                        result.satisfied[row],
                    )
                )
            if len(accepted) > wanted:
                break
    rate = len(accepted) / attempts if len(accepted) <= wanted else wanted / (attempts - 1)
    kept = accepted[:wanted]
    return Generation(
        texts=tuple(row[0] for row in kept),
        token_ids=tuple(row[1] for row in kept),
        log_weights=(0.0,) * len(kept),
        log_probs=tuple(row[2] for row in kept),
        log_values=tuple(row[2] for row in kept),
        prompt_ids=prompt_ids,
        log_evidence=math.log(rate) if rate else -math.inf,
        effective_sample_sizes=(),
        satisfied=tuple(row[3] for row in kept),
        ended=(True,) * len(kept),
        genealogy=Genealogy(()),
        method="rejection",
        acceptance_rate=rate,
        seconds=seconds,
        model_seconds=model_seconds,
    )

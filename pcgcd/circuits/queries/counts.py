"""Expected counts: how often units and tokens are used, given the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pcgcd.circuits.queries.evidence import read_evidence
from pcgcd.circuits.queries.likelihood import input_layers, token_marginals
from pcgcd.circuits.queries.passes import downward
from pcgcd.circuits.queries.requirements import require_tractable
from pcgcd.circuits.semirings import REAL
from pcgcd.errors import ImpossibleEvidenceError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit

__all__ = ["expected_token_counts", "unit_posteriors"]


def expected_token_counts(circuit: Circuit, evidence: Tensor) -> Tensor:
    """``sum_t p(x_t = v | evidence)``, (batch, V)."""
    return token_marginals(circuit, evidence).sum(1)


def unit_posteriors(circuit: Circuit, evidence: Tensor) -> list[Tensor]:
    """For each variable, how likely each unit of its input layers is used, (batch, units).

    For an HMM these are the posteriors of the hidden states. Where a variable has several input
    layers (mixtures), their units follow one another in the circuit's order.
    """
    require_tractable(circuit, "unit_posteriors")
    real = REAL.with_dtype(circuit.dtype)
    known = read_evidence(circuit, evidence)
    layers = input_layers(circuit)
    targets = [layer for group in layers.values() for layer in group]
    flows, values = downward(circuit, known, real, targets, keep=targets)
    mass = values[circuit.root].mantissa
    if not bool((mass > 0).all()):
        raise ImpossibleEvidenceError(
            "some row of the evidence has probability zero, so no unit can have produced it"
        )
    result = []
    for group in layers.values():
        used = real.concat([real.mul(flows[layer], values[layer]) for layer in group])
        posterior = real.normalised(used)
        result.append(torch.broadcast_to(posterior, (known.batch_size, posterior.shape[-1])))
    return result

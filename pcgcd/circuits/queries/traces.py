"""Walking down a circuit, choosing one term of every sum: samples and best paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import draw
from pcgcd.circuits.layers import Choose, InputLayer, Layer
from pcgcd.circuits.properties import no_mass, require_tractable
from pcgcd.circuits.queries.evidence import MISSING, Evidence, read_evidence
from pcgcd.circuits.queries.passes import upward
from pcgcd.circuits.semirings import MAXIMUM, REAL, Semiring, Value
from pcgcd.errors import ImpossibleEvidenceError, InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit

_CHUNK = 1 << 24


def _walk(
    circuit: Circuit,
    values: dict[Layer, Value],
    evidence: Evidence,
    rows: Tensor,
    semiring: Semiring[Value],
    choose: Choose[Value],
) -> tuple[Tensor, Tensor]:
    """The tokens and units (rows, n) of a walk for each entry of ``rows`` (of the evidence).

    ``choose`` picks an index along the last axis of an array of weights: at an inner layer one of
    its terms (see :meth:`Layer.trace`), at an input a missing token.
    """
    tokens = evidence.tokens[rows].clone()
    units = torch.zeros_like(tokens)
    # The unit of each layer that each walk goes through; -1 where it does not pass.
    taken = {circuit.root: torch.zeros_like(rows)}

    for layer in reversed(circuit.layers):
        if layer not in taken:
            continue
        walks = (taken[layer] >= 0).nonzero().flatten()
        unit = taken.pop(layer)[walks]
        if isinstance(layer, InputLayer):
            column = evidence.column[layer.variable]
            units[walks, column] = unit
            missing = tokens[walks, column] == MISSING
            free, free_unit = walks[missing], unit[missing]
            for part, part_unit in _chunks(free, free_unit, width=layer.num_tokens):
                tokens[part, column] = choose(layer.emission.rows(part_unit, semiring))
            continue
        width = sum(child.num_units for child in layer.children)
        for part, part_unit in _chunks(walks, unit, width):
            below = [
                _rows(values[child], rows[part], semiring) if layer.trace_needs_values else None
                for child in layer.children
            ]
            chosen = layer.trace(part_unit, below, semiring, choose)
            if len(chosen) != len(layer.children):
                raise InvalidParameterError(
                    f"{type(layer).__name__}.trace must return the units of each of the "
                    f"{len(layer.children)} children, but returned {len(chosen)}"
                )
            for child, child_unit in zip(layer.children, chosen):
                here = child_unit >= 0
                taken.setdefault(child, torch.full_like(rows, -1))[part[here]] = child_unit[here]
    return tokens, units


def _chunks(walks: Tensor, units: Tensor, width: int) -> list[tuple[Tensor, Tensor]]:
    if not len(walks):
        return []
    size = max(1, _CHUNK // max(1, width))
    return list(zip(walks.split(size), units.split(size)))


def _rows(value: Value, rows: Tensor, semiring: Semiring[Value]) -> Value:
    return value if semiring.shape(value)[0] == 1 else semiring.take_rows(value, rows)


def sample(
    circuit: Circuit,
    num_samples: int,
    evidence: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draws from ``p(x | evidence)``: (num_samples, n), or (batch, num_samples, n)."""
    require_tractable(circuit, "sample")
    if num_samples < 0:
        raise InvalidParameterError(f"the number of samples must not be negative: {num_samples}")
    batched = evidence is not None and evidence.dim() == 2
    rows_given = evidence if evidence is None or batched else evidence.unsqueeze(0)
    known = read_evidence(circuit, rows_given)
    real = REAL.with_dtype(circuit.dtype)
    with torch.no_grad():
        values = upward(circuit, known, real)
        if not bool((values[circuit.root].mantissa > 0).all()):
            if evidence is None:
                raise no_mass(circuit)
            raise ImpossibleEvidenceError("the evidence has probability zero: nothing to sample")
        rows = torch.arange(known.batch_size, device=circuit.device).repeat_interleave(num_samples)
        tokens, _ = _walk(
            circuit, values, known, rows, real, lambda w: draw(real.normalised(w), generator)
        )
    shape = (known.batch_size, num_samples, circuit.num_variables)
    return tokens.reshape(shape if batched else shape[1:])


class BestPath(NamedTuple):
    """The heaviest path through a circuit.

    Attributes:
        tokens: The string: observed tokens, and the path's own where they were missing (batch, n).
        units: The unit of each variable's input layer on the path (batch, n); for an HMM the
            hidden states, for an automaton the edges.
        log_weight: Logarithm of the path's weight (batch,).
    """

    tokens: Tensor
    units: Tensor
    log_weight: Tensor


def best_path(circuit: Circuit, evidence: Tensor) -> BestPath:
    """``argmax`` over paths (and missing tokens) of the weight: Viterbi on any circuit."""
    require_tractable(circuit, "best_path")
    known = read_evidence(circuit, evidence)
    maximum = MAXIMUM.with_dtype(circuit.dtype)
    with torch.no_grad():
        values = upward(circuit, known, maximum)
        log_weight = values[circuit.root].reshape(-1).expand(known.batch_size)
        if bool((log_weight == float("-inf")).any()):
            raise ImpossibleEvidenceError(
                "some row of the evidence has probability zero, so there is no path through it"
            )
        rows = torch.arange(known.batch_size, device=circuit.device)
        tokens, units = _walk(circuit, values, known, rows, maximum, lambda w: w.argmax(-1))
    return BestPath(tokens, units, log_weight)

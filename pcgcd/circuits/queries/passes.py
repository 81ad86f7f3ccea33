"""The two passes over a circuit that every query is made of.

Upward: the value of each unit given the evidence. Downward: the derivative of the root with
respect to each unit. A variable that no row observes is summed out once for the whole batch:
its values have a batch of one, and broadcast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pcgcd.circuits.layers import InputLayer, Layer
from pcgcd.circuits.operators import Operator
from pcgcd.circuits.queries.evidence import Evidence
from pcgcd.circuits.semirings import Semiring, Value

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit


def _input_value(
    layer: InputLayer, evidence: Evidence, semiring: Semiring[Value], total: Callable[[], Value]
) -> Value:
    column = evidence.column[layer.variable]
    if not evidence.some[column]:
        return total()
    tokens = evidence.tokens[:, column]
    if evidence.every[column]:
        return layer.observed(tokens, semiring)
    seen = tokens >= 0
    return semiring.where(seen[:, None], layer.observed(tokens.clamp(min=0), semiring), total())


def upward(
    circuit: Circuit,
    evidence: Evidence,
    semiring: Semiring[Value],
    keep: Collection[Layer] | None = None,
) -> dict[Layer, Value]:
    """Return the units' values (batch or 1, units), bottom up.

    Args:
        circuit: The circuit; it should be smooth and decomposable if anything is missing.
        evidence: What is observed.
        semiring: The semiring to compute in.
        keep: The layers whose values are wanted besides the root's (default: all). The others
            are forgotten as soon as their last parent is done.
    """
    parents = Counter(child for layer in circuit.layers for child in layer.children)
    values: dict[Layer, Value] = {}
    totals: dict[Operator, Value] = {}
    for layer in circuit.layers:
        if isinstance(layer, InputLayer):

            def total(layer: InputLayer = layer) -> Value:
                if layer.emission not in totals:
                    totals[layer.emission] = layer.up((), semiring)
                return totals[layer.emission]

            values[layer] = _input_value(layer, evidence, semiring, total)
        else:
            values[layer] = layer.up([values[child] for child in layer.children], semiring)
        for child in layer.children:
            parents[child] -= 1
            if keep is not None and not parents[child] and child not in keep:
                del values[child]
    return values


def _ancestors(circuit: Circuit, targets: Collection[Layer]) -> set[Layer]:
    """The targets and every layer above them."""
    found = set(targets)
    for layer in circuit.layers:
        if any(child in found for child in layer.children):
            found.add(layer)
    return found


def downward(
    circuit: Circuit,
    evidence: Evidence,
    semiring: Semiring[Value],
    targets: Collection[Layer],
    keep: Collection[Layer] = (),
) -> tuple[dict[Layer, Value], dict[Layer, Value]]:
    """Return the derivatives of the root with respect to the units of the target layers.

    Only what lies between the root and the targets is visited, and of the upward pass only what
    is multiplied on the way (and ``keep``) is held in memory.

    Returns:
        The derivatives, and the values of the layers in ``keep`` and of the root, by layer.
    """
    path = _ancestors(circuit, targets)
    needed = {child for layer in path if layer.down_needs_values for child in layer.children}
    values = upward(circuit, evidence, semiring, keep=needed | set(keep) | {circuit.root})
    one = semiring.lift(evidence.tokens.new_ones((1, 1)))
    flows: dict[Layer, Value] = {circuit.root: one}
    for layer in reversed(circuit.layers):
        if layer not in path or not layer.children:
            continue
        flow = flows[layer] if layer in targets else flows.pop(layer)
        below = [values[child] if layer.down_needs_values else None for child in layer.children]
        for child, part in zip(layer.children, layer.down(flow, below, semiring)):
            if child in path:
                flows[child] = semiring.add(flows[child], part) if child in flows else part
    return flows, values

"""From a circuit to a graph of pyjuice."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalised
from pcgcd.circuits.algebra import mixture
from pcgcd.circuits.base import CircuitLike
from pcgcd.circuits.chain import ChainProduct
from pcgcd.circuits.chain_mixture import ChainMixture
from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer
from pcgcd.circuits.properties import no_mass, require_tractable
from pcgcd.circuits.pyjuice.blocks import Term
from pcgcd.circuits.pyjuice.entries import Entries
from pcgcd.circuits.pyjuice.library import load_pyjuice
from pcgcd.circuits.pyjuice.plan import Edges, Plan, SumPlan, make_plan
from pcgcd.circuits.pyjuice.selections import with_gathers
from pcgcd.circuits.queries.evidence import read_evidence
from pcgcd.circuits.queries.passes import upward
from pcgcd.circuits.semirings import LINEAR, REAL, Scaled

_MAX_WEIGHTS = 1 << 26
_REAL = REAL.with_dtype(torch.float64)


class PyjuiceExport(NamedTuple):
    """A circuit as a normalised graph of pyjuice.

    Attributes:
        root: The root node of the graph.
        log_partition: ``circuit.log_value(x)`` minus the log-likelihood of x in pyjuice.
    """

    root: Any
    log_partition: float


def to_pyjuice(
    circuit: CircuitLike,
    *,
    length: int | None = None,
    max_weights: int = _MAX_WEIGHTS,
    dtype: torch.dtype = torch.float32,
) -> PyjuiceExport:
    """Export a circuit to pyjuice, ready for ``juice.compile`` (or :func:`compile_pyjuice`).

    pyjuice normalises all sum weights, so they are normalised here, from the inputs to the root:
    with Z_k the partition function of unit k, ``W'[i, j] = W[i, j] Z_j / Z_i`` makes every unit a
    distribution, and the Z of the root is returned.

    A product such as ``hmm * fa`` leaves its factored form: each edge of the automaton costs H x H
    weights at every step (at which it can lie on an accepting path). Automata come first in the
    order of factors, so that these are dense blocks on the sparse pattern of the edges.

    Blocks have the largest power of two of units that divides the layers' units (at most 1,024)
    and keeps zeros few among the stored weights. Nothing is padded, so an HMM whose number of
    hidden states is no multiple of four gets blocks of one unit, which are slow.

    Steps are tied where their normalised weights agree (an HMM), and not where they differ (a
    product, whose weights depend on the steps that remain). Blocks without a possible unit are
    left out. Impossible units in the other blocks emit nothing (inputs) or have uniform weights
    (sums), and the weights that lead to them are zero: train with
    ``mini_batch_em(..., keep_zero_params=True)``. Variables keep their numbers.

    Two things of pyjuice 2.6.3 to know: its kernels add 1e-24 to sums within a block, so that a
    string that is impossible only by zeros inside of blocks can get a tiny likelihood; and
    ``juice.load`` cannot read back the saved graph of a product, so keep the circuit.

    Args:
        circuit: Any circuit; smooth and decomposable.
        length: The number of variables, of a circuit that has every length.
        max_weights: The largest number of weights to store, of sums and inputs together.
        dtype: The type of the stored weights. pyjuice itself computes in float32 only.

    Raises:
        CircuitTooLargeError: There are more weights than that.
        EmptyLanguageError: No string has positive weight.
        MissingDependencyError: pyjuice is not installed.
    """
    juice = load_pyjuice()
    graph = _graph(circuit, length)
    require_tractable(graph, "to_pyjuice")
    with torch.no_grad():
        split = with_gathers(graph.to("cpu") if graph.device.type != "cpu" else graph)
        mass = upward(split, read_evidence(split, None), _REAL)
        total = mass[split.root]
        if not bool(total.mantissa.item() > 0):
            raise no_mass(graph)
        plan = make_plan(split, mass, _REAL, max_weights)
        root = _Writer(juice, plan, mass, dtype).write()
    return PyjuiceExport(root, float(_REAL.to_log(total)))


def _graph(circuit: CircuitLike, length: int | None) -> Circuit:
    """The graph to write; in products of chains the factors of zeros and ones come first."""
    if isinstance(circuit, Circuit):
        graph = circuit.unroll(length)
        return graph if graph.family is None else _graph(graph.family, graph.num_variables)
    if isinstance(circuit, ChainProduct):
        factors = sorted(circuit.factors, key=lambda f: f.operators.transition.dtype is not None)
        ordered: CircuitLike = reduce(ChainProduct, factors)
        return ordered.unroll(length)
    if isinstance(circuit, ChainMixture):
        return mixture([_graph(o, length) for o in circuit.operands], circuit.weights).unroll()
    return circuit.unroll(length)


class _Writer:
    """One writing: the nodes made so far."""

    def __init__(
        self, juice: Any, plan: Plan, mass: dict[Layer, Scaled], dtype: torch.dtype
    ) -> None:
        self.juice, self.plan, self.mass, self.dtype = juice, plan, mass, dtype
        self.nodes: dict[Layer, Any] = {}
        self.sources: dict[int, Any] = {}

    def write(self) -> Any:
        """Return the root: the highest sum."""
        for plan in self.plan.sums:
            self.nodes[plan.layer] = self._sum(plan)
        return self.nodes[self.plan.sums[-1].layer]

    def _sum(self, plan: SumPlan) -> Any:
        edges = plan.edges
        children = [
            self._product(terms, columns, edges.column_size)
            for terms, columns in zip(plan.products, edges.columns)
            if len(columns)
        ]
        source = self.sources.get(id(edges))
        if source is not None:
            return source.duplicate(*children, tie_params=True)
        places = _compact(edges)
        node = self.juice.summate(
            *children, num_node_blocks=len(edges.rows), block_size=edges.row_size, edge_ids=places
        )
        weights = _normalised_weights(plan, places, self.mass, self.plan.entries)
        node.set_params(weights.to(self.dtype), normalize=False)
        self.sources[id(edges)] = node
        return node

    def _product(self, terms: tuple[Term, ...], columns: Tensor, size: int) -> Any:
        picks = []
        for base, units in terms:
            units = units.reshape(-1, size)[columns]  # (blocks, size)
            place = torch.searchsorted(self.plan.rows[base], units // size)
            picks.append(place * size + units % size)
        edge_ids = torch.stack(picks, dim=-1)  # (blocks, size, terms)
        inside = torch.arange(size)[:, None]
        aligned = torch.equal(edge_ids, edge_ids[:, :1] // size * size + inside)
        return self.juice.multiply(
            *(self._base(base) for base, _ in terms),
            edge_ids=edge_ids[:, 0] // size if aligned else edge_ids.flatten(0, 1),
            sparse_edges=not aligned,
        )

    def _base(self, layer: Layer) -> Any:
        if layer not in self.nodes and isinstance(layer, InputLayer):
            self.nodes[layer] = self._input(layer)
        return self.nodes[layer]

    def _input(self, layer: InputLayer) -> Any:
        source = self.sources.get(id(layer.emission))
        if source is not None:
            return source.duplicate(layer.variable, tie_params=True)
        size, blocks = self.plan.block_size[layer], self.plan.rows[layer]
        node = self.juice.inputs(
            layer.variable,
            num_node_blocks=len(blocks),
            block_size=size,
            dist=self.juice.distributions.Categorical(num_cats=layer.num_tokens),
        )
        rows = (blocks[:, None] * size + torch.arange(size)).flatten()
        emission = layer.emission.rows(rows, LINEAR.with_dtype(torch.float64))
        node.set_params(normalised(emission).to(self.dtype), normalize=False)
        self.sources[id(layer.emission)] = node
        return node


def _compact(edges: Edges) -> Tensor:
    """The pairs of blocks, numbered among the kept ones, over all children: (2, pairs)."""
    parts, first = [], 0
    for pair, columns in zip(edges.pairs, edges.columns):
        row, column = torch.searchsorted(edges.rows, pair[0]), torch.searchsorted(columns, pair[1])
        parts.append(torch.stack([row, column + first]))
        first += len(columns)
    return torch.cat(parts, dim=1)


def _normalised_weights(
    plan: SumPlan, places: Tensor, mass: dict[Layer, Scaled], found: dict[Any, Entries]
) -> Tensor:
    """``W[i, j] Z_j / Z_i`` on the pairs of blocks; rows without mass are uniform."""
    edges, own = plan.edges, mass[plan.layer]
    r, c = edges.row_size, edges.column_size
    blocks = torch.zeros(places.shape[1], r, c, dtype=torch.float64)
    first = 0
    for pair, child, operator in zip(edges.pairs, plan.layer.children, plan.layer.weights):
        if not pair.shape[1]:
            continue
        row, column, value = found[operator]
        width = child.num_units // c
        keys, order = (pair[0] * width + pair[1]).sort()
        key = row // r * width + column // c
        place = torch.searchsorted(keys, key).clamp(max=len(keys) - 1)
        keep = (keys[place] == key) & (own.mantissa[0, row] > 0)
        row, column, value, place = row[keep], column[keep], value[keep], place[keep]
        below = mass[child]
        ratio = below.mantissa[0, column] / own.mantissa[0, row]
        shift = (below.exponent[0, column] - own.exponent[0, row]).double() / 2
        # In two halves: 2 ** shift may be infinite where the weight is tiny.
        value = value * torch.exp2(shift.floor()) * ratio * torch.exp2(shift.ceil())
        blocks[first + order[place], row % r, column % c] = value
        first += pair.shape[1]
    sums = torch.zeros(len(edges.rows), r, dtype=torch.float64)
    sums = sums.index_add(0, places[0], blocks.sum(2))[places[0], :, None]  # (pairs, r, 1)
    degree = torch.bincount(places[0])[places[0], None, None] * c
    return torch.where(sums > 0, blocks / sums, torch.ones_like(blocks) / degree)

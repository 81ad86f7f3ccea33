"""From a graph of pyjuice to a circuit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import BlockSparse, Dense, Identity, Incidence, Operator, kronecker
from pcgcd.circuits.pyjuice.library import load_pyjuice, nodes_of
from pcgcd.errors import InvalidParameterError, StructuralPropertyError


def from_pyjuice(ns: Any) -> Circuit:
    """Return the circuit of a pyjuice graph, given its root node.

    Sum weights become dense matrices where all blocks are there, and block-sparse ones elsewhere.
    Nodes with tied parameters share one operator. Weights are taken as they stand in the graph
    (pyjuice normalises sum weights when it compiles); after training a compiled circuit ``pc``,
    call ``pc.update_parameters()`` and pass ``pc.root_ns``.

    Inputs may be ``Categorical``, ``MaskedCategorical`` and ``Literal``. A masked value has weight
    zero here, where the kernels of pyjuice give it 1e-10. A variable that has ``Literal`` inputs
    only gets the largest vocabulary in the graph.

    Args:
        ns: The root node, of one unit.

    Raises:
        InvalidParameterError: This is no pyjuice graph, or it has no parameters yet.
        StructuralPropertyError: It has inputs or sums of a kind that circuits do not know.
        MissingDependencyError: pyjuice is not installed.
    """
    juice = load_pyjuice()
    if not isinstance(ns, juice.nodes.CircuitNodes):
        raise InvalidParameterError(
            f"from_pyjuice reads the root node of a graph, but got {type(ns).__name__}; of a "
            "compiled circuit pc, pass pc.root_ns after pc.update_parameters()"
        )
    return _Reader(juice, ns).read()


def _source(node: Any) -> Any:
    """The node that holds the parameters."""
    while node.is_tied():
        node = node.get_source_ns()
    return node


def _parameters(node: Any) -> Tensor:
    params = _source(node).get_params()
    if params is None:
        raise InvalidParameterError(
            f"{node!r} has no parameters yet; call root.init_parameters() or set_params first"
        )
    result: Tensor = params.detach().clone()
    return result


class _Reader:
    """One reading: the layers and the tied operators made so far."""

    def __init__(self, juice: Any, root: Any) -> None:
        self.juice = juice
        self.nodes = nodes_of(root)
        self.layers: dict[Any, Layer] = {}
        self.emissions: dict[tuple[Any, int], Operator] = {}
        self.weights: dict[tuple[Any, tuple[int, ...]], list[Operator | None]] = {}

    def read(self) -> Circuit:
        """Return the circuit of the last node."""
        sizes = self._vocab_sizes()
        for node in self.nodes:
            if node.is_input():
                self.layers[node] = self._input(node, sizes)
            elif node.is_prod():
                self.layers[node] = self._product(node)
            else:
                self.layers[node] = self._sum(node)
        return Circuit(self.layers[self.nodes[-1]])

    def _vocab_sizes(self) -> dict[int, int]:
        """How many values each variable has; a literal does not know."""
        kinds = self.juice.nodes.distributions
        sizes: dict[int, int] = {}
        largest = 2
        for node in (node for node in self.nodes if node.is_input()):
            if isinstance(node.dist, (kinds.Categorical, kinds.MaskedCategorical)):
                size = known = node.dist.num_cats
            elif isinstance(node.dist, kinds.Literal):
                size, known = node.dist.lit + 1, 0
            else:
                raise StructuralPropertyError(
                    f"inputs must be Categorical, MaskedCategorical or Literal, but {node!r} has "
                    f"the distribution {type(node.dist).__name__}; replace it by a Categorical "
                    "with the same probabilities"
                )
            variable = _variable(node)
            largest = max(largest, size)
            sizes[variable] = max(sizes.get(variable, 0), known)
        return {variable: size or largest for variable, size in sizes.items()}

    def _input(self, node: Any, sizes: dict[int, int]) -> Layer:
        variable = _variable(node)
        key = (_source(node), sizes[variable])
        if key not in self.emissions:
            self.emissions[key] = Dense(self._emission(node, sizes[variable]))
        return InputLayer(variable, self.emissions[key])

    def _emission(self, node: Any, size: int) -> Tensor:
        kinds = self.juice.nodes.distributions
        if isinstance(node.dist, kinds.Literal):
            literal = torch.tensor([node.dist.lit]).expand(node.num_nodes)
            return torch.nn.functional.one_hot(literal, max(size, node.dist.lit + 1)).float()
        params = _parameters(node).reshape(node.num_nodes, -1)
        probabilities = params[:, : node.dist.num_cats]
        if isinstance(node.dist, kinds.Categorical):
            return probabilities
        mask, num_cats = params[:, node.dist.num_cats : -1], node.dist.num_cats
        if node.dist.mask_mode == "full_mask":
            allowed = mask > 0.5
        else:
            value = torch.arange(num_cats)
            allowed = (value >= mask[:, :1]) & (value < mask[:, 1:])
            allowed = allowed ^ (node.dist.mask_mode == "rev_range")
        return probabilities * allowed

    def _product(self, node: Any) -> Layer:
        factors = []
        for child, edges in zip(node.chs, node.edge_ids.T):
            layer = self.layers[child]
            size = node.block_size if node.is_block_sparse() else 1
            blocks = child.num_nodes // size
            if len(edges) != blocks or not torch.equal(edges, torch.arange(blocks)):
                rows = torch.arange(len(edges))
                gather = Incidence(rows, edges.clone(), (len(edges), blocks))
                layer = SumLayer([layer], [kronecker(gather, Identity(size))])
            factors.append(layer)
        return factors[0] if len(factors) == 1 else ProductLayer(*factors)

    def _sum(self, node: Any) -> Layer:
        if type(node) is not self.juice.nodes.SumNodes:
            raise StructuralPropertyError(
                f"sums must have weights of their own, but {node!r} is a {type(node).__name__}, "
                "whose weights depend on more than the graph; rebuild it with juice.summate"
            )
        source = _source(node)
        key = (source, tuple(child.num_node_blocks for child in node.chs))
        if key not in self.weights:
            self.weights[key] = list(_split_by_child(source, _parameters(node), key[1]))
        pairs = [
            (self.layers[child], operator)
            for child, operator in zip(node.chs, self.weights[key])
            if operator is not None
        ]
        return SumLayer([layer for layer, _ in pairs], [operator for _, operator in pairs])


def _variable(node: Any) -> int:
    scope = node.scope.to_list()
    if len(scope) != 1:
        raise StructuralPropertyError(
            f"inputs must have one variable each, but {node!r} has {len(scope)}: {scope}"
        )
    return int(scope[0])


def _split_by_child(
    node: Any, params: Tensor, child_blocks: tuple[int, ...]
) -> Iterator[Operator | None]:
    """The weights over each child; None where no edge leads to it."""
    row, column = node.edge_ids
    first = 0
    for blocks in child_blocks:
        here = (column >= first) & (column < first + blocks)
        places = row[here] * blocks + column[here] - first
        if not len(places):
            yield None
        elif len(places) == len(places.unique()) == node.num_node_blocks * blocks:
            grid = params[here][places.argsort()].unflatten(0, (node.num_node_blocks, blocks))
            yield Dense(grid.transpose(1, 2).reshape(node.num_nodes, -1))
        else:
            yield BlockSparse(
                row[here].clone(),
                column[here] - first,
                params[here],
                (node.num_node_blocks, blocks),
            )
        first += blocks

"""Circuits: layered graphs of sums and products, their algebra and their queries."""

from __future__ import annotations

from pcgcd.circuits.algebra import (
    circuit_product,
    condition,
    expectation,
    is_compatible,
    is_structured_decomposable,
    kl_from_conditioning,
    log_expectation,
    mixture,
    scale,
)
from pcgcd.circuits.base import CircuitLike
from pcgcd.circuits.chain import Chain, ChainOperators, ChainProduct, OperatorChain
from pcgcd.circuits.chain_mixture import ChainMixture
from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import (
    PLAIN,
    BlockDiagonal,
    BlockSparse,
    Composition,
    Dense,
    Diagonal,
    Identity,
    Incidence,
    Kronecker,
    LabelSets,
    Monarch,
    Multiple,
    Operator,
    RowwiseKronecker,
    SideBySide,
    Stacked,
    block_diagonal,
    compose,
    kronecker,
    rowwise_kronecker,
    side_by_side,
    stacked,
)
from pcgcd.circuits.product import Multiplication, product_rule
from pcgcd.circuits.properties import is_decomposable, is_smooth
from pcgcd.circuits.pyjuice import PyjuiceExport, compile_pyjuice, from_pyjuice, to_pyjuice
from pcgcd.circuits.queries import MISSING, BestPath
from pcgcd.circuits.scope import Scope

__all__ = [
    "MISSING",
    "PLAIN",
    "BestPath",
    "BlockDiagonal",
    "BlockSparse",
    "Chain",
    "ChainMixture",
    "ChainOperators",
    "ChainProduct",
    "Circuit",
    "CircuitLike",
    "Composition",
    "Dense",
    "Diagonal",
    "Identity",
    "Incidence",
    "InputLayer",
    "Kronecker",
    "LabelSets",
    "Layer",
    "Monarch",
    "Multiple",
    "Multiplication",
    "Operator",
    "OperatorChain",
    "ProductLayer",
    "PyjuiceExport",
    "RowwiseKronecker",
    "Scope",
    "SideBySide",
    "Stacked",
    "SumLayer",
    "block_diagonal",
    "circuit_product",
    "compile_pyjuice",
    "compose",
    "condition",
    "expectation",
    "from_pyjuice",
    "is_compatible",
    "is_decomposable",
    "is_smooth",
    "is_structured_decomposable",
    "kl_from_conditioning",
    "kronecker",
    "log_expectation",
    "mixture",
    "product_rule",
    "rowwise_kronecker",
    "scale",
    "side_by_side",
    "stacked",
    "to_pyjuice",
]

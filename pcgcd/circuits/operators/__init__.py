"""Operators: the weights of sum layers and the emissions of input layers, never written out."""

from __future__ import annotations

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.operators.block_sparse import BlockSparse
from pcgcd.circuits.operators.blocks import (
    BlockDiagonal,
    SideBySide,
    Stacked,
    block_diagonal,
    side_by_side,
    stacked,
)
from pcgcd.circuits.operators.composition import Composition, compose
from pcgcd.circuits.operators.dense import Dense
from pcgcd.circuits.operators.diagonal import Diagonal, Identity, Multiple
from pcgcd.circuits.operators.incidence import Incidence
from pcgcd.circuits.operators.kronecker import Kronecker, kronecker
from pcgcd.circuits.operators.label_sets import LabelSets
from pcgcd.circuits.operators.monarch import Monarch
from pcgcd.circuits.operators.rowwise_kronecker import RowwiseKronecker, rowwise_kronecker

__all__ = [
    "PLAIN",
    "BlockDiagonal",
    "BlockSparse",
    "Composition",
    "Dense",
    "Diagonal",
    "Identity",
    "Incidence",
    "Kronecker",
    "LabelSets",
    "Monarch",
    "Multiple",
    "Operator",
    "RowwiseKronecker",
    "SideBySide",
    "Stacked",
    "block_diagonal",
    "compose",
    "kronecker",
    "rowwise_kronecker",
    "side_by_side",
    "stacked",
]

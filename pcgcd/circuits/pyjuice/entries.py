"""The positive entries of an operator, without writing out its zeros."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.circuits.operators import (
    BlockSparse,
    Composition,
    Diagonal,
    Identity,
    Incidence,
    Kronecker,
    Operator,
)
from pcgcd.circuits.semirings import LINEAR
from pcgcd.errors import CircuitTooLargeError

_CHUNK = 1 << 24
# An operator with more places than this times the limit is not even looked through.
_SCAN_FACTOR = 16
_DOUBLE = LINEAR.with_dtype(torch.float64)


class Entries(NamedTuple):
    """A sparse matrix: ``value[k]`` (double) at ``(row[k], column[k])``, no place twice."""

    row: Tensor
    column: Tensor
    value: Tensor


def too_large(what: str, size: int, limit: int) -> CircuitTooLargeError:
    """Make the error for something of so many weights."""
    return CircuitTooLargeError(
        f"pyjuice stores each weight, and {what} {size:,} of them, over the limit of {limit:,}; "
        "use the circuit itself (it stays factored), a smaller model or a shorter length, or "
        f"raise the limit: to_pyjuice(circuit, max_weights=N) with N at least {size:,}"
    )


def entries(operator: Operator, limit: int) -> Entries:
    """Return the entries of an operator, unless there are more than the limit."""
    rows, columns = operator.shape
    if isinstance(operator, Identity):
        return _ones(torch.arange(rows), torch.arange(rows))
    if isinstance(operator, Diagonal):
        index = operator.weights.nonzero().flatten()
        return Entries(index, index, operator.weights[index].double())
    if isinstance(operator, Incidence):
        return _joined(_ones(operator.row, operator.column), columns)
    if isinstance(operator, BlockSparse):
        block, i, j = operator.weights.nonzero(as_tuple=True)
        row = operator.row[block] * operator.weights.shape[1] + i
        column = operator.column[block] * operator.weights.shape[2] + j
        value = operator.weights[block, i, j].double()
        return _joined(Entries(row, column, value), columns)
    if isinstance(operator, Kronecker):
        return _kronecker(operator, limit)
    if isinstance(operator, Composition):
        found = _composition(operator, limit)
        if found is not None:
            return found
    return _scanned(operator, limit)


def _ones(row: Tensor, column: Tensor) -> Entries:
    return Entries(row, column, torch.ones(len(row), dtype=torch.float64))


def _joined(found: Entries, columns: int) -> Entries:
    """Entries in the same place added up."""
    places, inverse = (found.row * columns + found.column).unique(return_inverse=True)
    if len(places) == len(inverse):
        return found
    value = found.value.new_zeros(len(places)).index_add(0, inverse, found.value)
    return Entries(places // columns, places % columns, value)


def _kronecker(operator: Kronecker, limit: int) -> Entries:
    left, right = entries(operator.left, limit), entries(operator.right, limit)
    size = len(left.value) * len(right.value)
    if size > limit:
        raise too_large(f"one sum layer alone, {operator!r}, has", size, limit)
    rows, columns = operator.right.shape
    return Entries(
        (left.row[:, None] * rows + right.row).flatten(),
        (left.column[:, None] * columns + right.column).flatten(),
        (left.value[:, None] * right.value).flatten(),
    )


def _composition(operator: Composition, limit: int) -> Entries | None:
    """Each entry (i, k) on the left meets all entries (k, j) on the right.

    None where that makes too many pairs; there may be few entries all the same.
    """
    first, *rest = operator.operators
    left = entries(first, limit)
    for part in rest:
        right = entries(part, limit)
        per_row = torch.bincount(right.row, minlength=part.shape[0])
        start = per_row.cumsum(0) - per_row
        count = per_row[left.column]
        if int(count.sum()) > limit:
            return None
        mine = torch.arange(len(left.row)).repeat_interleave(count)
        rank = torch.arange(len(mine)) - (count.cumsum(0) - count)[mine]
        other = right.row.argsort()[start[left.column[mine]] + rank]
        value = left.value[mine] * right.value[other]
        left = _joined(Entries(left.row[mine], right.column[other], value), part.shape[1])
    return left


def _scanned(operator: Operator, limit: int) -> Entries:
    """Row by row, for operators that have no shorter way."""
    rows, columns = operator.shape
    parts, size = [], 0
    for index in torch.arange(rows).split(max(1, _CHUNK // columns)):
        dense = operator.rows(index, _DOUBLE)
        i, j = dense.nonzero(as_tuple=True)
        parts.append(Entries(index[i], j, dense[i, j]))
        size += len(i)
        if size > limit or rows * columns > _SCAN_FACTOR * limit:
            raise too_large(f"one sum layer alone, {operator!r}, has up to", rows * columns, limit)
    return Entries(*(torch.cat(column) for column in zip(*parts)))

"""What an export consists of: which sums and products, in which blocks, and which of them are tied.

pyjuice alternates sums and products, stores units in blocks of 2^k, and weights as dense blocks on
the pairs of blocks that have any. Here a circuit is brought into that form, without its weights:

- each sum reads products, and each product multiplies units of inputs and of other sums, picked by
  their numbers (:class:`pcgcd.circuits.pyjuice.blocks.Term`);
- blocks that no path of positive weight reaches are left out;
- sums that share their operators and end up with equal normalised weights are tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.layers import InputLayer, Layer, SumLayer
from pcgcd.circuits.operators import Operator
from pcgcd.circuits.pyjuice.blocks import Term, block_sizes, product_terms, tie_key
from pcgcd.circuits.pyjuice.entries import Entries, entries, too_large
from pcgcd.circuits.pyjuice.selections import Gather
from pcgcd.circuits.semirings import Real, Scaled


@dataclass(frozen=True, eq=False)
class Edges:
    """Between which blocks a sum has weights. Sums that are tied have the same object."""

    rows: Tensor  # the blocks of the sum's own units that are kept, in order
    columns: tuple[Tensor, ...]  # for each child, the blocks of its units that are kept, in order
    # For each child, the (row block, column block) pairs with weights, (2, pairs).
    pairs: tuple[Tensor, ...]
    row_size: int  # the units in a block of the sum
    column_size: int  # the units in a block of the children

    @property
    def num_weights(self) -> int:
        """How many weights are stored, the zeros within blocks among them."""
        return sum(pair.shape[1] for pair in self.pairs) * self.row_size * self.column_size


class SumPlan(NamedTuple):
    """A sum of the export: its layer, the factors of each child, and where its weights are."""

    layer: SumLayer
    products: tuple[tuple[Term, ...], ...]
    edges: Edges


class Plan(NamedTuple):
    """The export."""

    sums: tuple[SumPlan, ...]  # children before parents, the root last
    rows: dict[Layer, Tensor]  # of each input and each sum, the blocks that are kept, in order
    block_size: dict[Layer, int]  # of each input and each sum
    entries: dict[Operator, Entries]  # the weights of each operator, not normalised


def make_plan(circuit: Circuit, mass: dict[Layer, Scaled], real: Real, limit: int) -> Plan:
    """Plan the export of a circuit with gathers (see :mod:`pcgcd.circuits.pyjuice.selections`).

    Args:
        circuit: The circuit.
        mass: The partition function of each unit of each layer, (1, units).
        real: The semiring of these.
        limit: The largest number of weights.
    """
    sums = [s for s in circuit.layers if isinstance(s, SumLayer) and not isinstance(s, Gather)]
    products = {s: tuple(product_terms(child) for child in s.children) for s in sums}
    found = {w: entries(w, limit) for w in dict.fromkeys(w for s in sums for w in s.weights)}
    block_size = block_sizes(sums, products, found)
    tolerance = 32 * torch.finfo(circuit.dtype).eps
    used: dict[Layer, Tensor] = {circuit.root: torch.ones(1, dtype=torch.bool)}
    latest: dict[tuple[int, ...], SumPlan] = {}
    plans: list[SumPlan] = []
    for layer in reversed(sums):
        if layer not in used:
            continue
        key = tie_key(layer)
        tied = latest.get(key)
        if (
            tied is None
            or not torch.equal(tied.edges.rows, used[layer].nonzero().flatten())
            or not _equal_mass(layer, tied.layer, mass, real, tolerance)
        ):
            sizes = (block_size[layer], block_size[products[layer][0][0].base])
            edges = _edges(layer, used[layer], sizes, mass, found)
            latest[key] = SumPlan(layer, products[layer], edges)
        plan = SumPlan(layer, products[layer], latest[key].edges)
        plans.append(plan)
        _mark_used(plan, block_size, used)
    _keep_tied_inputs_alike(used)
    rows = {layer: mask.nonzero().flatten() for layer, mask in used.items()}
    _check_size(plans, rows, block_size, limit)
    return Plan(tuple(reversed(plans)), rows, block_size, found)


def _equal_mass(
    a: SumLayer, b: SumLayer, mass: dict[Layer, Scaled], real: Real, tolerance: float
) -> bool:
    """Whether two sums with the same operators have the same normalised weights.

    W'[i, j] = W[i, j] Z_j / Z_i is the same if the masses are, up to a factor.
    """
    pairs = [(a, b), *zip(a.children, b.children)]
    return all(_proportional(mass[x], mass[y], real, tolerance) for x, y in pairs)


def _proportional(x: Scaled, y: Scaled, real: Real, tolerance: float) -> bool:
    alive = x.mantissa > 0
    if not torch.equal(alive, y.mantissa > 0):
        return False
    ratio = real.div(
        Scaled(x.mantissa[alive], x.exponent[alive]), Scaled(y.mantissa[alive], y.exponent[alive])
    )
    if not len(ratio.mantissa):
        return True
    relative = real.div(ratio, Scaled(ratio.mantissa[:1], ratio.exponent[:1]))
    plain = relative.mantissa * torch.exp2(relative.exponent.clamp(-100, 100).double())
    return bool(((plain - 1).abs() <= tolerance).all())


def _edges(
    layer: SumLayer,
    used: Tensor,
    sizes: tuple[int, int],
    mass: dict[Layer, Scaled],
    found: dict[Operator, Entries],
) -> Edges:
    """The pairs of blocks between which some weight is positive, below the used rows."""
    row_size, column_size = sizes
    pairs = []
    for child, operator in zip(layer.children, layer.weights):
        row, column, _ = found[operator]
        keep = used[row // row_size]
        keep &= (mass[layer].mantissa[0] > 0)[row] & (mass[child].mantissa[0] > 0)[column]
        width = child.num_units // column_size
        places = (row[keep] // row_size * width + column[keep] // column_size).unique()
        pairs.append(torch.stack([places // width, places % width]))
    # A block of units without mass, kept because a product with weight zero looks at it, needs an
    # edge to somewhere. (Some other block has mass, or nothing would look at this layer.)
    covered = torch.zeros_like(used)
    for pair in pairs:
        covered[pair[0]] = True
    empty = (used & ~covered).nonzero().flatten()
    if len(empty):
        k = next(k for k, pair in enumerate(pairs) if pair.shape[1])
        filler = torch.stack([empty, pairs[k][1, :1].expand_as(empty)])
        pairs[k] = torch.cat([pairs[k], filler], dim=1)
    return Edges(
        rows=used.nonzero().flatten(),
        columns=tuple(pair[1].unique() for pair in pairs),
        pairs=tuple(pairs),
        row_size=row_size,
        column_size=column_size,
    )


def _mark_used(plan: SumPlan, block_size: dict[Layer, int], used: dict[Layer, Tensor]) -> None:
    """Mark what the products of a sum read in the blocks that are kept."""
    for terms, columns in zip(plan.products, plan.edges.columns):
        for base, units in terms if len(columns) else ():
            size = block_size[base]
            mask = used.setdefault(base, torch.zeros(base.num_units // size, dtype=torch.bool))
            mask[units.reshape(-1, plan.edges.column_size)[columns] // size] = True


def _keep_tied_inputs_alike(used: dict[Layer, Tensor]) -> None:
    """An emission is written once, with the units that some step uses."""
    masks: dict[int, Tensor] = {}
    for layer in used:
        if isinstance(layer, InputLayer):
            mask = masks.setdefault(id(layer.emission), used[layer])
            mask |= used[layer]
            used[layer] = mask


def _check_size(
    plans: list[SumPlan], rows: dict[Layer, Tensor], block_size: dict[Layer, int], limit: int
) -> None:
    size = sum(edges.num_weights for edges in {id(p.edges): p.edges for p in plans}.values())
    emissions = {
        id(layer.emission): len(kept) * block_size[layer] * layer.num_tokens
        for layer, kept in rows.items()
        if isinstance(layer, InputLayer)
    }
    size += sum(emissions.values())
    if size > limit:
        raise too_large("the whole circuit has", size, limit)

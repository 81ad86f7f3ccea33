"""How each pair of layer kinds is multiplied."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import Identity
from pcgcd.circuits.product import Multiplication, incompatible, product_rule
from pcgcd.errors import VocabularyMismatchError

Requests: TypeAlias = "Generator[tuple[Layer, Layer], Layer, Layer]"


@product_rule(InputLayer, InputLayer)
def multiply_inputs(left: InputLayer, right: InputLayer, run: Multiplication) -> Layer:
    """Pairs of units on one variable: the row-wise Kronecker product of the emissions (Thm 4.4)."""
    if left.num_tokens != right.num_tokens:
        raise VocabularyMismatchError(
            f"variable {left.variable} has {left.num_tokens} values in the left operand and "
            f"{right.num_tokens} in the right one; build both for one vocabulary"
        )
    return InputLayer(left.variable, run.rowwise_kronecker(left.emission, right.emission))


@product_rule(SumLayer, SumLayer)
def multiply_sums(left: SumLayer, right: SumLayer, run: Multiplication) -> Requests:
    """(sum_i U_i a_i) ⊗ (sum_j W_j b_j) = sum_ij (U_i ⊗ W_j)(a_i ⊗ b_j)."""
    children, weights = [], []
    for a, u in zip(left.children, left.weights):
        for b, w in zip(right.children, right.weights):
            children.append((yield a, b))
            weights.append(run.kronecker(u, w))
    return SumLayer(children, weights)


@product_rule(SumLayer, Layer)
@product_rule(SumLayer, ProductLayer)
def multiply_sum_with_any(left: SumLayer, right: Layer, run: Multiplication) -> Requests:
    """(sum_i U_i a_i) ⊗ b = sum_i (U_i ⊗ 1)(a_i ⊗ b)."""
    children = []
    for a in left.children:
        children.append((yield a, right))
    one = Identity(right.num_units)
    return SumLayer(children, [run.kronecker(u, one) for u in left.weights])


@product_rule(Layer, SumLayer)
@product_rule(ProductLayer, SumLayer)
def multiply_any_with_sum(left: Layer, right: SumLayer, run: Multiplication) -> Requests:
    """A ⊗ (sum_j W_j b_j) = sum_j (1 ⊗ W_j)(a ⊗ b_j)."""
    children = []
    for b in right.children:
        children.append((yield left, b))
    one = Identity(left.num_units)
    return SumLayer(children, [run.kronecker(one, w) for w in right.weights])


@product_rule(ProductLayer, Layer)
@product_rule(Layer, ProductLayer)
@product_rule(ProductLayer, ProductLayer)
def multiply_products(left: Layer, right: Layer, run: Multiplication) -> Requests:
    """(a_1 ∘ a_2) ⊗ (b_1 ∘ b_2) = (a_1 ⊗ b_1) ∘ (a_2 ⊗ b_2), where the scopes correspond.

    Where one side divides its variables more finely, the parts that face one part of the other
    side are taken together; nested products are opened up if that helps.
    """
    groups = _groups(_parts(left), _parts(right))
    if groups is None:
        groups = _groups(_parts(left, deep=True), _parts(right, deep=True))
    if groups is None or (len(groups) == 1 and max(map(len, groups[0])) > 1):
        raise incompatible(left, right)  # no division in common, so nothing to descend into
    factors = []
    for a, b in groups:
        if a and b:
            factors.append((yield run.joined(a), run.joined(b)))
        else:
            alone = run.joined(a or b)
            factors.append(run.repeated(alone, left.num_units, right.num_units, on_left=bool(a)))
    return run.joined(factors)


def _parts(layer: Layer, deep: bool = False) -> list[Layer]:
    parts: list[Layer] = []
    stack = [layer]
    while stack:
        top = stack.pop()
        if isinstance(top, ProductLayer) and (deep or top is layer):
            stack.extend(reversed(top.children))
        else:
            parts.append(top)
    return parts


def _groups(left: list[Layer], right: list[Layer]) -> list[tuple[list[Layer], list[Layer]]] | None:
    """The finest grouping in which the two sides of each group overlap no other group.

    None if some group has several layers on both sides: the divisions do not correspond.
    """
    groups: list[tuple[int, list[Layer], list[Layer]]]
    groups = [(layer.scope.bits, [layer], []) for layer in left]
    for layer in right:
        bits = layer.scope.bits
        touched = [group for group in groups if group[0] & bits]
        groups = [group for group in groups if not group[0] & bits]
        a = [part for group in touched for part in group[1]]
        b = [part for group in touched for part in group[2]]
        for group in touched:
            bits |= group[0]
        groups.append((bits, a, [*b, layer]))
    if any(len(a) > 1 and len(b) > 1 for _, a, b in groups):
        return None
    return [(a, b) for _, a, b in groups]

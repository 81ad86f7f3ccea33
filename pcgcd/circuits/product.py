"""Multiplying layered graphs over the same variables: ``(a * b)(x) = a(x) b(x)``.

Two layers of K_a and K_b units are multiplied into one layer of K_a * K_b units, all the pairs,
numbered (i, j) -> i * K_b + j. How, depends on the kinds of the two layers: see
:mod:`pcgcd.circuits.product_rules`. Nothing is written out: weights and emissions become Kronecker
products of the operands' own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

import torch

from pcgcd.circuits.layers import InputLayer, Layer, ProductLayer, SumLayer
from pcgcd.circuits.operators import Identity, Incidence, Operator, kronecker, rowwise_kronecker
from pcgcd.errors import StructuralPropertyError

# A rule returns the product of two layers. Where it needs products of other layers, it is a
# generator that yields the pairs and is sent the results.
Rule: TypeAlias = Callable[
    [Any, Any, "Multiplication"], "Layer | Generator[tuple[Layer, Layer], Layer, Layer]"
]
AnyRule = TypeVar("AnyRule", bound=Rule)

_RULES: dict[tuple[type[Any], type[Any]], Rule] = {}
_OWN_KINDS = (InputLayer, ProductLayer, SumLayer)


def product_rule(left: type[Any], right: type[Any]) -> Callable[[AnyRule], AnyRule]:
    """Register how a layer of one kind is multiplied with a layer of another.

    The decorated function gets the two layers and the running :class:`Multiplication`, and returns
    the product. Where it needs products of other layers, it is a generator that yields the pair
    and is sent the result, so that circuits of any depth are multiplied without recursion::

        @product_rule(MyLayer, SumLayer)
        def my_rule(a, b, run):
            below = yield a, b.children[0]
            return SumLayer([below], [run.kronecker(Identity(a.num_units), b.weights[0])])

    The rule of the most specific pair of classes applies (the left class decides ties).
    """

    def register(rule: AnyRule) -> AnyRule:
        _RULES[left, right] = rule
        return rule

    return register


def _find_rule(left: Layer, right: Layer) -> Rule:
    candidates = [
        (i + j, i, rule)
        for i, a in enumerate(type(left).__mro__)
        for j, b in enumerate(type(right).__mro__)
        if (rule := _RULES.get((a, b))) is not None
    ]
    if not candidates:
        raise StructuralPropertyError(
            f"no rule multiplies {left!r} with {right!r}; register one with "
            f"product_rule({type(left).__name__}, {type(right).__name__})"
        )
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def incompatible(left: Layer, right: Layer) -> StructuralPropertyError:
    """Make the error for two layers that divide their variables differently."""
    advice = "Both must divide the same variables in the same way"
    for side, layer in (("left", left), ("right", right)):
        if _splits_off_first(layer):
            advice += (
                f": the {side} one splits off its first variable from all the later ones, as HMMs, "
                "automata and other chains do, so that the other must be right-linear too, each "
                "of its products splitting off its first variable from all the later ones"
            )
    if any(type(layer) not in _OWN_KINDS for layer in (left, right)):
        names = f"{type(left).__name__}, {type(right).__name__}"
        advice += f", or a rule must say how these meet: register one with product_rule({names})"
    return StructuralPropertyError(
        f"the circuits are not compatible: the left operand has {_describe(left)}, the right one "
        f"{_describe(right)}. {advice}"
    )


def _splits_off_first(layer: Layer) -> bool:
    first = layer.scope.bits & -layer.scope.bits
    return len(layer.children) == 2 and first in (child.scope.bits for child in layer.children)


def _describe(layer: Layer) -> str:
    parts = " x ".join(repr(child.scope) for child in layer.children)
    division = f", divided into {parts}" if isinstance(layer, ProductLayer) else ""
    return f"a {type(layer).__name__} of scope {layer.scope}{division}"


class Multiplication:
    """One run of the product algorithm: what it has made so far, so that equal things are tied.

    Attributes:
        kronecker: The Kronecker product of two weights; equal calls give one (tied) operator.
        rowwise_kronecker: The row-wise Kronecker product of two emissions; likewise.
    """

    def __init__(self) -> None:
        self._products: dict[tuple[Layer, Layer], Layer] = {}
        self._joined: dict[tuple[Layer, ...], Layer] = {}
        self.kronecker: Callable[[Operator, Operator], Operator] = cache(kronecker)
        self.rowwise_kronecker: Callable[[Operator, Operator], Operator] = cache(rowwise_kronecker)

    def multiply(self, left: Layer, right: Layer) -> Layer:
        """Return the layer of all pairs of units, with an explicit stack in place of recursion."""
        stack: list[tuple[tuple[Layer, Layer], Generator[tuple[Layer, Layer], Layer, Layer]]] = []
        request: tuple[Layer, Layer] | None = (left, right)
        result: Layer | None = None
        while True:
            if request is not None:
                pair, request = request, None
                result = self._products.get(pair)
                if result is None:
                    made = self._apply_rule(*pair)
                    if isinstance(made, Layer):
                        result = self._products[pair] = made
                    else:
                        stack.append((pair, made))
            if not stack:
                assert result is not None, "the last rule has returned a layer"
                return result
            pair, waiting = stack[-1]
            try:
                request = next(waiting) if result is None else waiting.send(result)
            except StopIteration as stop:
                stack.pop()
                result = self._products[pair] = stop.value
            else:
                result = None

    def _apply_rule(
        self, left: Layer, right: Layer
    ) -> Layer | Generator[tuple[Layer, Layer], Layer, Layer]:
        if left.scope.isdisjoint(right.scope):
            return ProductLayer(
                self.repeated(left, left.num_units, right.num_units, on_left=True),
                self.repeated(right, left.num_units, right.num_units, on_left=False),
            )
        return _find_rule(left, right)(left, right, self)

    def joined(self, layers: Sequence[Layer]) -> Layer:
        """Return the product of layers over different variables; of a single one, itself."""
        if len(layers) == 1:
            return layers[0]
        key = tuple(layers)
        if key not in self._joined:
            self._joined[key] = ProductLayer(*layers)
        return self._joined[key]

    def repeated(self, layer: Layer, left: int, right: int, *, on_left: bool) -> Layer:
        """Extend a layer to pairs of units (i, j): it uses only i (on the left) or only j."""
        device = next((o.device for o in layer.operators if o.device is not None), None)
        count = right if on_left else left
        rows = torch.arange(count, device=device)
        ones = Incidence(rows, torch.zeros_like(rows), (count, 1))
        one = Identity(layer.num_units)
        return SumLayer([layer], [kronecker(one, ones) if on_left else kronecker(ones, one)])

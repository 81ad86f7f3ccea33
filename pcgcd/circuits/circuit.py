"""A circuit of one length: an immutable graph of layers with one unit at the root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from pcgcd.circuits import display
from pcgcd.circuits.base import CircuitLike
from pcgcd.circuits.layers import InputLayer, Layer, OperatorMap
from pcgcd.circuits.operators import Operator
from pcgcd.circuits.properties import first_undecomposable, first_unsmooth
from pcgcd.circuits.scope import Scope
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

if TYPE_CHECKING:
    import networkx as nx


Node = TypeVar("Node")


def bottom_up(root: Node, children: Callable[[Node], Iterable[Node]]) -> tuple[Node, ...]:
    """All nodes below (and with) the root, children before parents, without recursion."""
    done: dict[Node, None] = {}
    stack = [(root, iter(children(root)))]
    while stack:
        node, rest = stack[-1]
        child = next((child for child in rest if child not in done), None)
        if child is not None:
            stack.append((child, iter(children(child))))
        else:
            stack.pop()
            done.setdefault(node)
    return tuple(done)


class Circuit(CircuitLike):
    """A layered circuit over the variables of its root's scope.

    >>> from pcgcd.circuits import Circuit, Dense, InputLayer, ProductLayer, SumLayer
    >>> coin = Dense(torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    >>> pair = ProductLayer(InputLayer(0, coin), InputLayer(1, coin))
    >>> circuit = Circuit(SumLayer([pair], [Dense(torch.tensor([[0.4, 0.6]]))]))
    >>> circuit.log_value(torch.tensor([[1, 1]])).exp()
    tensor([0.5860])
    """

    def __init__(
        self,
        root: Layer,
        *,
        family: CircuitLike | None = None,
        factors: tuple[CircuitLike, ...] | None = None,
    ) -> None:
        """Check that the root has one unit and that each variable has one vocabulary.

        Args:
            root: The top layer.
            family: What this is one length of, if it was unrolled; error messages ask it.
            factors: What was multiplied to make it (default: the family's factors, or itself).
        """
        if root.num_units != 1:
            raise InvalidParameterError(
                f"the root of a circuit has one unit, but {root!r} has {root.num_units}; "
                "put a sum layer on top"
            )
        self.root = root
        self.family = family
        self._factors = family.factors if factors is None and family is not None else factors
        self.layers = bottom_up(root, lambda layer: layer.children)
        for layer in self.layers:
            _ = layer.scope  # cached bottom-up, so that deep graphs need no recursion
            if not layer.children and not isinstance(layer, InputLayer):
                raise InvalidParameterError(
                    f"{layer!r} has no children: set `self.children`, or inherit from InputLayer"
                )
        self.vocab_sizes: dict[int, int] = {}
        for layer in self.inputs:
            known = self.vocab_sizes.setdefault(layer.variable, layer.num_tokens)
            if known != layer.num_tokens:
                raise VocabularyMismatchError(
                    f"variable {layer.variable} has {known} values in one input layer and "
                    f"{layer.num_tokens} in another"
                )
        devices = {str(operator.device) for operator in self.operators if operator.device}
        if len(devices) > 1:
            raise InvalidParameterError(
                f"the layers are on different devices ({', '.join(sorted(devices))}); "
                "move the operands to one with .to(device) first"
            )

    @property
    def factors(self) -> tuple[CircuitLike, ...]:
        return (self,) if self._factors is None else self._factors

    @property
    def inputs(self) -> Iterator[InputLayer]:
        """The input layers, in bottom-up order."""
        return (layer for layer in self.layers if isinstance(layer, InputLayer))

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The weights of all layers, each once, bottom up."""
        return tuple(dict.fromkeys(o for layer in self.layers for o in layer.operators))

    @property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return self.root.scope

    @property
    def num_variables(self) -> int:
        """How many variables there are."""
        return len(self.scope)

    @cached_property
    def variables(self) -> tuple[int, ...]:
        """The variables in order; column t of a batch of tokens belongs to the t-th."""
        return tuple(self.scope)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, which must be the same for all variables."""
        sizes = set(self.vocab_sizes.values())
        if len(sizes) > 1:
            raise VocabularyMismatchError(
                f"the variables have different numbers of values: {sorted(sizes)}; "
                "ask circuit.vocab_sizes for each"
            )
        return sizes.pop()

    @cached_property
    def dtype(self) -> torch.dtype:
        """The floating type of the weights."""
        found = [operator.dtype for operator in self.operators if operator.dtype is not None]
        return reduce(torch.promote_types, found) if found else torch.get_default_dtype()

    @cached_property
    def device(self) -> torch.device:
        """Where the weights are."""
        found = (operator.device for operator in self.operators)
        return next((device for device in found if device is not None), torch.device("cpu"))

    @cached_property
    def is_tractable(self) -> bool:
        """Whether it is smooth and decomposable, so that sums over tokens are exact."""
        return first_unsmooth(self) is None and first_undecomposable(self) is None

    @property
    def _has_fixed_length(self) -> bool:
        return True

    def unroll(self, length: int | None = None) -> Circuit:
        """Return the circuit itself; the length, if named, must be its own."""
        if length is not None and length != self.num_variables:
            raise InvalidParameterError(
                f"this circuit has {self.num_variables} variables, but {length} were asked for"
            )
        return self

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Circuit:
        if self.family is not None:
            return self.family.to(device, dtype).unroll(self.num_variables)
        root = self._mapped_root(lambda operator: operator.to(device, dtype))
        moved = self._factors and tuple(factor.to(device, dtype) for factor in self._factors)
        return Circuit(root, factors=moved)

    def map_operators(self, operator_map: OperatorMap) -> Circuit:
        """Return an operator that several layers share stays shared."""
        return Circuit(self._mapped_root(operator_map))

    def _mapped_root(self, operator_map: OperatorMap) -> Layer:
        tied = cache(operator_map)
        rebuilt: dict[Layer, Layer] = {}
        for layer in self.layers:
            rebuilt[layer] = layer.rebuilt(tuple(rebuilt[c] for c in layer.children), tied)
        return rebuilt[self.root]

    def __repr__(self) -> str:
        return (
            f"Circuit({len(self.layers)} layers over {self.num_variables} variables, "
            f"{sum(layer.num_units for layer in self.layers):,} units)"
        )

    def __str__(self) -> str:
        return display.to_text(self)

    def _repr_html_(self) -> str:
        return display.to_html(self)

    def _repr_svg_(self) -> str:
        return display.to_svg(self)

    def to_networkx(self) -> nx.DiGraph[Any]:
        """Return the graph of layers; edges point from parent to child."""
        return display.to_networkx(self)

"""Linear layers on the CPU with weights in the order that oneDNN multiplies them in.

With few rows, ``torch.nn.Linear`` spends much of its time on bringing the weights into the order
that its blocks need, again at each call. Here that is done once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# The packed weights are a second copy.
_MOST_BYTES = 1 << 31
# The number of rows that the order of the weights is made for; others work too.
_ROWS = 16
_KEY = "_pcgcd_packed"


class _Packed(NamedTuple):
    packed: Tensor
    state: tuple[Any, ...]  # of the weight that it was made from


class PackedLinears:
    """The linear layers of a model compute with packed weights, inside ``with``.

    Outside the model is as it was. A weight that has changed since (by an optimizer, by loading, by
    a move to another type or device) is used as it is, not as it was packed.
    """

    def __init__(self, model: nn.Module) -> None:
        """Pack the weights, if they are on the CPU, of a type that oneDNN has, and below 2 GiB.

        Args:
            model: The model, which is left as it is.
        """
        layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
        small = sum(layer.weight.nbytes for layer in layers) <= _MOST_BYTES
        self._layers = _pack(layers) if small else []

    def __enter__(self) -> None:
        for layer, packed in self._layers:
            layer.__dict__[_KEY] = packed
            layer.__class__ = _PackedLinear

    def __exit__(self, *error: object) -> None:
        for layer, _ in self._layers:
            layer.__class__ = nn.Linear
            layer.__dict__.pop(_KEY, None)


class _PackedLinear(nn.Linear):
    """A linear layer, while its weights are packed."""

    def forward(self, input: Tensor) -> Tensor:
        found: _Packed | None = self.__dict__.get(_KEY)
        weight = self.weight
        if found is None or found.state != _state(weight) or input.dtype != weight.dtype:
            return super().forward(input)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            input, found.packed, self.bias, "none", [], ""
        )
        return result


def _pack(layers: list[nn.Linear]) -> list[tuple[nn.Linear, _Packed]]:
    found = []
    try:
        for layer in layers:
            weight = layer.weight.detach()
            if weight.device.type != "cpu" or not weight.is_contiguous():
                return []
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
            found.append((layer, _Packed(packed, _state(layer.weight))))
        if found:  # whether the processor can compute with this type
            rows = torch.zeros(2, weight.shape[1], dtype=weight.dtype)
            torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
    except (AttributeError, NotImplementedError, RuntimeError):
        return []  # this build of torch, or this type, is not for oneDNN
    return found


def _state(weight: Tensor) -> tuple[Any, ...]:
    """What changes when the weight does."""
    return weight.data_ptr(), weight._version, weight.dtype

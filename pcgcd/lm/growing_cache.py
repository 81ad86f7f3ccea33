"""A key-value cache of transformers that has room to grow."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from pcgcd.basics.packages import package

_ROOM = 64


def with_room(past: Any) -> Any:
    """The cache, whose layers no longer copy everything at each step.

    Layers that grow by concatenation get room for more tokens; others stay as they are.
    """
    plain = package("transformers.cache_utils", "TransformersLM").DynamicLayer
    for layer in getattr(past, "layers", ()):
        if type(layer) is plain:
            layer.__class__ = growing_layer()
    return past


@cache
def growing_layer() -> type:
    """The class of layers with room, which is known only once transformers is imported."""
    plain: Any = package("transformers.cache_utils", "TransformersLM").DynamicLayer

    class GrowingLayer(plain):  # type: ignore[misc]  # the class is known only at run time
        """Keys and values are the beginnings of buffers with room behind them."""

        keys: Tensor
        values: Tensor
        _buffers: tuple[Tensor | None, Tensor | None] = (None, None)

        def update(
            self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
        ) -> tuple[Tensor, Tensor]:
            if not self.is_initialized:
                return super().update(key_states, value_states, *args, **kwargs)  # type: ignore[no-any-return]
            keys, values = self._buffers
            self.keys, keys = _append(self.keys, key_states, keys)
            self.values, values = _append(self.values, value_states, values)
            self._buffers = keys, values
            return self.keys, self.values

    return GrowingLayer


def _append(old: Tensor, new: Tensor, buffer: Tensor | None) -> tuple[Tensor, Tensor]:
    """Both along the last axis but one, and the buffer that they are the beginning of."""
    start, stop = old.shape[-2], old.shape[-2] + new.shape[-2]
    # Rows that were chosen anew are in a place of their own.
    if (
        buffer is None
        or buffer.data_ptr() != old.data_ptr()
        or buffer.shape[0] != old.shape[0]
        or buffer.shape[-2] < stop
    ):
        shape = (*old.shape[:-2], stop + max(_ROOM, stop // 2), old.shape[-1])
        buffer = old.new_empty(shape)
        buffer[..., :start, :] = old
    buffer[..., start:stop, :] = new
    return buffer[..., :stop, :], buffer

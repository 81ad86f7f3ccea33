"""What all rows of a key-value cache begin with, kept once and read once.

Particles continue one prompt. With a copy of its keys and values for each of them, attention reads
as many copies at each step, which for long prompts costs more than the weights. Here the queries of
all rows are multiplied with one copy, and each row's own with what came after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pcgcd.basics.packages import package
from pcgcd.lm.growing_cache import growing_layer

_NAME = "pcgcd_shared_prefix"
_KEY = "_pcgcd_prefix"


@dataclass
class _Prefix:
    keys: Tensor  # (1, key-value heads, tokens, width)
    values: Tensor
    claimed: bool = True  # whether the attention has seen it since the last update


def can_share(model: Any, past: Any) -> bool:
    """Whether the one row of a cache can become the beginning of several.

    On the CPU in float32, with a model that finds its attention by name, and layers that keep
    everything.
    """
    return (
        getattr(model.config, "_attn_implementation", None) == "sdpa"
        and getattr(model, "_supports_attention_backend", False)
        and {type(layer) for layer in past.layers} == {growing_layer()}
        and {(layer.keys.device.type, layer.keys.dtype) for layer in past.layers}
        == {("cpu", torch.float32)}
    )


def share(past: Any, rows: int) -> None:
    """Make ``rows`` rows of a cache that has one; what it holds becomes their common beginning."""
    for layer in past.layers:
        layer.__class__ = _shared_layer()
        layer.prefix = _Prefix(layer.keys, layer.values)
        layer.keys = layer.keys[..., :0, :].expand(rows, -1, -1, -1)
        layer.values = layer.values[..., :0, :].expand(rows, -1, -1, -1)


def is_shared(past: Any) -> bool:
    """Whether the rows of a cache have a common beginning."""
    return any(isinstance(layer, _shared_layer()) for layer in getattr(past, "layers", ()))


def was_ignored(past: Any) -> bool:
    """Whether some layer has not looked at the common beginning: then its result is wrong."""
    return any(not layer.prefix.claimed for layer in past.layers)


def unshare(past: Any, new: int) -> None:
    """Give each row a copy of the common beginning, and forget the last ``new`` tokens."""
    for layer in past.layers:
        prefix, stop = layer.prefix, layer.keys.shape[-2] - new
        layer.__class__ = growing_layer()
        layer.keys = _joined(prefix.keys, layer.keys[..., :stop, :])
        layer.values = _joined(prefix.values, layer.values[..., :stop, :])


@contextmanager
def attention_to_prefixes(model: Any) -> Iterator[None]:
    """Let a model's attention look at common beginnings, inside ``with``."""
    _register()
    model.config._attn_implementation = _NAME
    try:
        yield
    finally:
        model.config._attn_implementation = "sdpa"


@cache
def _shared_layer() -> type:
    plain: Any = growing_layer()

    class SharedLayer(plain):  # type: ignore[misc]  # the class is known only at run time
        """Keys and values are those after the common beginning."""

        prefix: _Prefix

        def update(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
            keys, values = super().update(*args, **kwargs)
            self.prefix.claimed = False
            setattr(keys, _KEY, self.prefix)
            return keys, values

        def get_seq_length(self, *args: Any) -> int:
            return int(self.prefix.keys.shape[-2] + self.keys.shape[-2])

    return SharedLayer


@cache
def _register() -> None:
    transformers = package("transformers", "TransformersLM")
    masks = package("transformers.masking_utils", "TransformersLM")
    transformers.AttentionInterface.register(_NAME, _attention)
    transformers.AttentionMaskInterface.register(_NAME, masks.sdpa_mask)


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Transformers' ``sdpa``, which here also sees a common beginning."""
    prefix: _Prefix | None = getattr(key, _KEY, None)
    if prefix is not None:
        prefix.claimed = True
        plain = not options.get("dropout") and options.get("position_bias") is None
        if query.shape[-2] == 1 and mask is None and plain:
            return _one_token(query, key, value, prefix, options.get("scaling")), None
        key, value = _joined(prefix.keys, key), _joined(prefix.values, value)
    sdpa: Any = package("transformers.integrations.sdpa_attention", "TransformersLM")
    found: tuple[Tensor, None] = sdpa.sdpa_attention_forward(
        module, query, key, value, mask, **options
    )
    return found


def _one_token(
    query: Tensor, key: Tensor, value: Tensor, prefix: _Prefix, scaling: float | None
) -> Tensor:
    """Attention of one token in each of k rows, (k, 1, heads, width)."""
    rows, heads, _, width = query.shape
    kinds, common = prefix.keys.shape[1], prefix.keys.shape[-2]
    scaled = query * (width**-0.5 if scaling is None else scaling)
    own = scaled.view(rows, kinds, heads // kinds, width)
    together = own.transpose(0, 1).reshape(kinds, -1, width)  # (kinds, rows x group, width)
    first = (together @ prefix.keys[0].mT).view(kinds, rows, -1, common).transpose(0, 1)
    weights = torch.cat([first, own @ key.mT], dim=-1).softmax(-1)
    seen = weights[..., :common].transpose(0, 1).reshape(kinds, -1, common) @ prefix.values[0]
    result = seen.view(kinds, rows, heads // kinds, -1).transpose(0, 1)
    return (result + weights[..., common:] @ value).reshape(rows, 1, heads, -1)


def _joined(prefix: Tensor, own: Tensor) -> Tensor:
    return torch.cat([prefix.expand(own.shape[0], -1, -1, -1), own], dim=-2)

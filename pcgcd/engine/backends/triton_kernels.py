"""The three kernels in triton; imported only where triton is there."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def class_sums(
    rows: tl.tensor,
    order: tl.tensor,
    first: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    block: tl.constexpr,
) -> None:
    """One program sums a block of hidden states over the tokens of one class, in float64."""
    c = tl.program_id(0)
    z = tl.program_id(1) * block + tl.arange(0, block)
    inside = z < width
    total = tl.zeros((block,), dtype=tl.float64)
    for i in range(tl.load(first + c), tl.load(first + c + 1)):
        token = tl.load(order + i)
        total += tl.load(rows + token * width + z, mask=inside, other=0.0).to(tl.float64)
    tl.store(out + c * width + z, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def accumulate(
    left: tl.tensor, right: tl.tensor, left_index: tl.tensor, right_index: tl.tensor,
    weight: tl.tensor, first: tl.tensor, out: tl.tensor, width: tl.tensor, block: tl.constexpr,
) -> None:  # fmt: skip
    """One program sums a block of hidden states over the edges of one group."""
    g = tl.program_id(0)
    z = tl.program_id(1) * block + tl.arange(0, block)
    inside = z < width
    total = tl.zeros((block,), dtype=tl.float32)
    for e in range(tl.load(first + g), tl.load(first + g + 1)):
        a = tl.load(left + tl.load(left_index + e) * width + z, mask=inside, other=0.0)
        b = tl.load(right + tl.load(right_index + e) * width + z, mask=inside, other=0.0)
        total += tl.load(weight + e) * a.to(tl.float32) * b.to(tl.float32)
    tl.store(out + g * width + z, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def dots(
    rows: tl.tensor,
    tokens: tl.tensor,
    messages: tl.tensor,
    groups: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    block: tl.constexpr,
) -> None:
    """One program multiplies one token's row with one message."""
    i = tl.program_id(0)
    row = rows + tl.load(tokens + i) * width
    message = messages + tl.load(groups + i) * width
    total = tl.zeros((block,), dtype=tl.float32)
    for low in range(0, width, block):
        z = low + tl.arange(0, block)
        inside = z < width
        a = tl.load(row + z, mask=inside, other=0.0).to(tl.float32)
        total += a * tl.load(message + z, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + i, tl.sum(total, axis=0))

"""Emission matrices in few bytes, and what that costs.

An emission is nearly all of a model. Rows are normalised when they are read, so a row may be stored
up to a factor. Zeros are kept exactly, and nothing else becomes zero.

    float16   sqrt p, each row scaled to fill the range of the type
    bfloat16  p itself: the type has the range of float32
    int8      256 levels, 0 for zeros; of log p between the extremes of its row or of its token, or
              of sqrt p; whichever errs least
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import normalised
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm.model import HiddenMarkovModel

_LEVELS = 255
_HALF_RANGE = 2.0**15
_SMALLEST_HALF = 2.0**-24
_PIECE = 1 << 22
_SAMPLED_ROWS = 256
_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
}


class Encoded(NamedTuple):
    """A stored emission."""

    dtype: str  # how it was asked for: float64, float32, float16, bfloat16 or int8
    encoding: str  # what the numbers mean
    tensors: dict[str, Tensor]  # the numbers, and scales if there are any, by name


@dataclass(frozen=True)
class StorageError:
    """What a way of storing an emission costs."""

    dtype: str  # how it is stored
    encoding: str  # what the numbers mean
    num_bytes: int  # of the emission
    # The largest error of a log-probability, in nats, over all that are not zero.
    max_log_error: float
    mean_log_error: float  # their mean
    # KL divergence of the stored rows from the true ones, in nats, the mean over rows.
    mean_kl: float
    max_kl: float  # the largest over rows


def dtype_name(dtype: torch.dtype | str | None, default: torch.dtype) -> str:
    """Return the name of a type that emissions can be stored in."""
    name = str(default if dtype is None else dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise InvalidParameterError(
            f"an emission can be stored as {', '.join(_DTYPES)}, but {name} was asked for"
        )
    return name


def _row_pieces(matrix: Tensor) -> Iterator[slice]:
    step = max(1, _PIECE // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        yield slice(start, min(start + step, matrix.shape[0]))


def encode(emission: Tensor, dtype: str) -> Encoded:
    """Store an emission (H, V) of probabilities."""
    emission = emission.detach()
    if dtype == "int8":
        return _best_of_int8(emission)
    if dtype == "float16":
        return Encoded(dtype, "sqrt", {"emission": _filled(emission, torch.float16, _half)})
    return Encoded(dtype, "p", {"emission": emission.to(_DTYPES[dtype])})


def _filled(
    emission: Tensor, dtype: torch.dtype, change: Callable[[Tensor, slice], Tensor]
) -> Tensor:
    result = torch.empty(emission.shape, dtype=dtype, device=emission.device)
    for rows in _row_pieces(emission):
        result[rows] = change(emission[rows].float(), rows)
    return result


def _half(part: Tensor, rows: slice) -> Tensor:
    root = part.sqrt()
    root = root * (_HALF_RANGE / root.amax(-1, keepdim=True))
    return torch.where(part > 0, root.clamp(min=_SMALLEST_HALF), 0.0)


def _best_of_int8(emission: Tensor) -> Encoded:
    """Try the three encodings on a sample of rows, and use the one with the least divergence."""
    stride = max(1, emission.shape[0] // _SAMPLED_ROWS)
    sample = emission[::stride]
    column_range = _log_range(emission)

    def divergence(name: str) -> float:
        return _errors(sample, _int8(sample, name, column_range)).mean_kl

    best = min(("log by row", "log by token", "sqrt"), key=divergence)
    return _int8(emission, best, column_range)


def _log_range(emission: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest logarithm of each column, zeros left out, (V,) each."""
    lowest = torch.full((emission.shape[1],), torch.inf, device=emission.device)
    highest = -lowest
    for rows in _row_pieces(emission):
        log_part = emission[rows].float().log()
        highest = torch.maximum(highest, log_part.amax(0))
        log_part.masked_fill_(log_part == -torch.inf, torch.inf)
        lowest = torch.minimum(lowest, log_part.amin(0))
    return torch.where(lowest < torch.inf, lowest, 0.0), torch.where(
        highest > -torch.inf, highest, 0.0
    )


def _int8(emission: Tensor, encoding: str, column_range: tuple[Tensor, Tensor]) -> Encoded:
    lowest, highest = column_range
    token_steps = _step(lowest, highest)
    row_steps = torch.empty(emission.shape[0], device=emission.device)

    def levels(part: Tensor, rows: slice) -> Tensor:
        if encoding == "sqrt":
            root = part.sqrt()
            return root * (_LEVELS / root.amax(-1, keepdim=True))
        log_part = part.log()
        if encoding == "log by token":
            return (log_part - lowest) / token_steps + 1
        low = torch.where(part > 0, log_part, torch.inf).amin(-1, keepdim=True)
        step = _step(low, log_part.amax(-1, keepdim=True))
        row_steps[rows] = step[:, 0]
        return (log_part - low) / step + 1

    def rounded(part: Tensor, rows: slice) -> Tensor:
        found = levels(part, rows).round_().clamp_(1, _LEVELS)
        return torch.where(part > 0, found, 0.0).to(torch.uint8)

    stored = {"emission": _filled(emission, torch.uint8, rounded)}
    if encoding == "log by token":
        stored |= {"lowest": lowest, "step": token_steps}
    elif encoding == "log by row":
        stored |= {"step": row_steps}
    return Encoded("int8", encoding, stored)


def _step(lowest: Tensor, highest: Tensor) -> Tensor:
    return ((highest - lowest) / (_LEVELS - 1)).clamp(min=1e-12)


def decode(encoded: Encoded, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the emission (H, V), its rows normalised."""
    stored = encoded.tensors["emission"]
    result = torch.empty(stored.shape, dtype=dtype, device=stored.device)
    for rows in _row_pieces(stored):
        part = _weights(encoded, rows, torch.float64 if dtype == torch.float64 else torch.float32)
        sums = part.sum(-1, keepdim=True, dtype=torch.float64)
        if not bool((sums > 0).all()) or not bool(torch.isfinite(sums).all()):
            raise CheckpointError(
                "a stored emission has rows that are empty or not finite; the file is damaged"
            )
        result[rows] = part / sums.to(part.dtype)
    return result


def _weights(encoded: Encoded, rows: slice, dtype: torch.dtype) -> Tensor:
    """Rows of the emission up to a factor."""
    part = encoded.tensors["emission"][rows].to(dtype)
    if encoded.encoding == "p":
        return part
    if encoded.encoding == "sqrt":
        return (part / _LEVELS).square() if encoded.dtype == "int8" else (part / _HALF_RANGE) ** 2
    step = encoded.tensors["step"].to(dtype)
    if encoded.encoding == "log by token":
        log_part = encoded.tensors["lowest"].to(dtype) + (part - 1) * step
    elif encoded.encoding == "log by row":
        log_part = (part - _LEVELS) * step[rows].unsqueeze(-1)
    else:
        raise CheckpointError(f"the emission is stored in an unknown way, {encoded.encoding!r}")
    return torch.where(part > 0, log_part.exp(), 0.0)


def _errors(emission: Tensor, encoded: Encoded) -> StorageError:
    largest, total, entries = 0.0, 0.0, 0
    divergences = []
    for rows in _row_pieces(emission):
        part = normalised(emission[rows].double())
        back = normalised(_weights(encoded, rows, torch.float64))
        positive = part > 0
        difference = torch.where(positive, part.log() - back.log(), 0.0)
        largest = max(largest, float(difference.abs().max()))
        total += float(difference.abs().sum())
        entries += int(positive.sum())
        divergences.append((part * difference).sum(-1))
    kl = torch.cat(divergences)
    return StorageError(
        dtype=encoded.dtype,
        encoding=encoded.encoding,
        num_bytes=sum(tensor.nbytes for tensor in encoded.tensors.values()),
        max_log_error=largest,
        mean_log_error=total / max(1, entries),
        mean_kl=max(0.0, float(kl.mean())),
        max_kl=max(0.0, float(kl.max())),
    )


def storage_error(hmm: HiddenMarkovModel, dtype: torch.dtype | str) -> StorageError:
    """What it costs to store a model's emission as ``dtype``.

    >>> from pcgcd import HMM
    >>> hmm = HMM.random(4, 100, generator=torch.Generator().manual_seed(0))
    >>> storage_error(hmm, "float32").max_log_error < 1e-6
    True
    >>> storage_error(hmm, "int8").mean_kl < 1e-3
    True
    """
    with torch.no_grad():
        emission = hmm.emission.detach()
        return _errors(emission, encode(emission, dtype_name(dtype, emission.dtype)))


def as_stored(hmm: HiddenMarkovModel, dtype: torch.dtype | str) -> HiddenMarkovModel:
    """Return the model as it is read back after its emission was stored as ``dtype``."""
    own = hmm.emission.dtype
    emission = decode(encode(hmm.emission, dtype_name(dtype, own)), own)
    return hmm.with_emission(emission, hmm.copying)

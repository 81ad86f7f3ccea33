"""Sequences to learn from: in memory or mapped from files, in one piece or in shards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Data: TypeAlias = "Tensor | Array | Sequence[Tensor | Array]"

_SAMPLED_ROWS = 64


class Sequences:
    """Sequences of one length, read by number.

    Shards are read where a batch needs them, so arrays mapped from files
    (``numpy.load(..., mmap_mode="r")``) are never in memory as a whole.
    """

    def __init__(self, data: Data, vocab_size: int, device: torch.device) -> None:
        shards = [data] if isinstance(data, Tensor | np.ndarray) else list(data)
        if not shards or any(shard.ndim != 2 or shard.shape[1] < 1 for shard in shards):
            raise InvalidParameterError(
                "data must be an integer array (number, length), or a list of such arrays, but has "
                f"shape {[tuple(shard.shape) for shard in shards[:5]]}"
            )
        lengths = sorted({int(shard.shape[1]) for shard in shards})
        if len(lengths) > 1:
            raise InvalidParameterError(
                f"all shards must have sequences of one length, but they have {lengths}; pad them "
                "with EOS"
            )
        self.length, self.vocab_size, self.device = lengths[0], vocab_size, device
        self._shards = shards
        self._starts = np.cumsum([0, *(len(shard) for shard in shards)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def rows(self, numbers: Tensor) -> Tensor:
        """Return the sequences with these numbers, (k, n)."""
        wanted = numbers.numpy()
        if len(self._shards) == 1:
            result = self._taken(self._shards[0], wanted)
        else:
            result = torch.empty(len(wanted), self.length, dtype=torch.long)
            shard_of = np.searchsorted(self._starts, wanted, side="right") - 1
            for shard in np.unique(shard_of):
                chosen = np.flatnonzero(shard_of == shard)
                local = wanted[chosen] - self._starts[shard]
                result[torch.from_numpy(chosen)] = self._taken(self._shards[shard], local).long()
        return checked_batch(result, self.vocab_size, self.device)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All sequences in order."""
        for start in range(0, len(self), size):
            yield self.rows(torch.arange(start, min(start + size, len(self))))

    def fingerprint(self) -> str:
        """Hash the shape and a sample of rows, to distinguish one set of data from another."""
        digest = hashlib.sha256(f"{len(self)} {self.length}".encode())
        if len(self):
            numbers = np.unique(np.linspace(0, len(self) - 1, _SAMPLED_ROWS).astype(np.int64))
            digest.update(self.rows(torch.from_numpy(numbers)).cpu().numpy().tobytes())
        return digest.hexdigest()

    @staticmethod
    def _taken(shard: Tensor | Array, numbers: Array) -> Tensor:
        if isinstance(shard, Tensor):
            return shard[torch.from_numpy(numbers).to(shard.device)]
        return torch.from_numpy(np.ascontiguousarray(shard[numbers]).astype(np.int64, copy=False))


def lengths_of(batch: Tensor, ending: tuple[int, ...]) -> Tensor | None:
    """How long each sequence is with its first EOS, (batch,), if it ends with one of these tokens.

    What comes before the last run of EOS is never cut, so an EOS in the middle still shows.
    """
    if not ending:
        return None
    length = batch.shape[1]
    last = batch[:, -1:]
    differs = batch != last
    text = torch.where(differs.any(1), length - differs.flip(1).int().argmax(1), 0)
    ended = torch.isin(last[:, 0], torch.tensor(ending, device=batch.device))
    return torch.where(ended, (text + 1).clamp(max=length), length)


def num_tokens(tokens: Tensor, eos_ids: tuple[int, ...]) -> Tensor:
    """Return the tokens of each row up to and including its first EOS, (N,)."""
    lengths = lengths_of(tokens.long(), eos_ids)
    return torch.full((len(tokens),), tokens.shape[1]) if lengths is None else lengths


def inside(batch: Tensor, lengths: Tensor | None) -> Tensor:
    """Which positions of a batch belong to sequences of these lengths, (batch, n)."""
    if lengths is None:
        return torch.ones_like(batch, dtype=torch.bool)
    return torch.arange(batch.shape[1], device=batch.device) < lengths.unsqueeze(1)


def checked_batch(batch: Tensor | Array, vocab_size: int, device: torch.device) -> Tensor:
    """Check the shape and the tokens of a batch; return it as integers on a device."""
    result = torch.as_tensor(batch)
    if result.dim() != 2 or result.shape[1] < 1 or result.is_floating_point():
        raise InvalidParameterError(
            "sequences must be integers (number, length), but have shape "
            f"{tuple(result.shape)} and type {result.dtype}"
        )
    result = result.to(device=device, dtype=torch.long)
    if result.numel():
        lowest, highest = (int(end) for end in result.aminmax())
        if lowest < -1 or highest >= vocab_size:
            wrong = lowest if lowest < -1 else highest
            raise VocabularyMismatchError(
                f"tokens must lie in 0..{vocab_size - 1} (or be -1, not observed), but {wrong} was "
                "found; are the sequences from another vocabulary?"
            )
    return result

"""Tensors in files: safetensors. Never pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pcgcd.basics.files import write_whole
from pcgcd.errors import CheckpointError

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_PIECE = 1 << 26
_ALIGNMENT = 8


def _bytes_of(tensor: Tensor) -> Iterator[memoryview]:
    """The bytes of a tensor in row-major order, without a copy of all of it."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    for start in range(0, len(flat), _PIECE):
        yield flat[start : start + _PIECE].data


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash (sha256, hexadecimal) of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {_NAMES[tensor.dtype]} {list(tensor.shape)} ".encode())
        for piece in _bytes_of(tensor):
            digest.update(piece)
    return digest.hexdigest()


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file as a whole or not at all, without a copy of the values."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    values = chain.from_iterable(map(_bytes_of, tensors.values()))
    write_whole(path, chain([len(text).to_bytes(8, "little"), text], values))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a safetensors file, mapped from it, and its metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError, MemoryError) as error:
        raise CheckpointError(
            f"{path.name} cannot be read as a safetensors file ({error}); it is truncated, or of "
            "another kind: save or download it again"
        ) from error

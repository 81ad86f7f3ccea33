"""The three kernels of the engine, for each kind of device.

All give the same results: ``torch`` on any device is the reference, ``numba`` is for CPUs and
``triton`` for CUDA. The device chooses.
"""

from __future__ import annotations

from typing import Literal

import torch

from pcgcd.engine.backends.base import Backend, EdgeSums, ScoreTask, Tiles
from pcgcd.errors import InvalidParameterError

__all__ = ["Backend", "BackendName", "EdgeSums", "ScoreTask", "Tiles", "choose_backend"]

BackendName = Literal["torch", "numba", "triton"]


def choose_backend(
    device: torch.device, dtype: torch.dtype, name: BackendName | None = None
) -> Backend:
    """Return the kernels for a device and a type of messages; imported only when they are chosen.

    >>> choose_backend(torch.device("cpu"), torch.float64)
    TorchBackend()
    """
    if name is None:
        if dtype == torch.float64:
            name = "torch"
        else:
            name = {"cpu": "numba", "cuda": "triton"}.get(device.type, "torch")  # type: ignore[assignment]
    if name == "torch":
        from pcgcd.engine.backends.torch_backend import TorchBackend

        return TorchBackend()
    if name == "numba":
        from pcgcd.engine.backends.numba_backend import NumbaBackend

        _check(name, device.type == "cpu" and dtype == torch.float32, device, dtype)
        return NumbaBackend()
    if name == "triton":
        from pcgcd.engine.backends.triton_backend import TritonBackend

        _check(name, dtype == torch.float32, device, dtype)
        return TritonBackend()
    raise InvalidParameterError(
        f"the backend must be 'torch', 'numba' or 'triton', but it is {name!r}; leave it out to "
        "choose by device"
    )


def _check(name: str, fits: bool, device: torch.device, dtype: torch.dtype) -> None:
    if not fits:
        raise InvalidParameterError(
            f"the {name} backend does not compute in {dtype} on {device}; leave backend out, or "
            "use backend='torch'"
        )

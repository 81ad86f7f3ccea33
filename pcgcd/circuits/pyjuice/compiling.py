"""Running an exported circuit with the kernels of pyjuice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pcgcd.circuits.pyjuice.library import bottom_up, load_pyjuice
from pcgcd.circuits.pyjuice.writing import PyjuiceExport
from pcgcd.errors import InvalidParameterError

__all__ = ["compile_pyjuice"]


def compile_pyjuice(export: PyjuiceExport, device: torch.device | str = "cuda") -> Any:
    """The compiled pyjuice circuit of an export, on a CUDA device.

    Its log-likelihoods are ``circuit.log_value(x) - export.log_partition``, in float32. To train
    it and keep what is impossible impossible, pass ``keep_zero_params=True`` to its
    ``mini_batch_em``; ``from_pyjuice(pc.root_ns)`` after ``pc.update_parameters()`` reads it back.

    Raises:
        InvalidParameterError: There is no such CUDA device; pyjuice has no other kernels.
        MissingDependencyError: pyjuice is not installed.
    """
    target = torch.device(device)
    if target.type != "cuda" or not torch.cuda.is_available():
        found = (
            "there is none here" if target.type == "cuda" else f"device={str(device)!r} was asked"
        )
        raise InvalidParameterError(
            f"pyjuice compiles for CUDA devices only, but {found}; on a CPU, query the circuit "
            "itself, e.g. circuit.log_value(x)"
        )
    index = torch.cuda.current_device() if target.index is None else target.index
    juice = load_pyjuice()
    with _deep_recursion(export.root):
        compiled = juice.compile(export.root, device=index, verbose=False)
    return compiled.to(torch.device("cuda", index))


@contextmanager
def _deep_recursion(root: Any) -> Iterator[None]:
    """The compiler of pyjuice recurses over the graph, as deep as the graph is."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 1000 + 2 * len(bottom_up(root))))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)

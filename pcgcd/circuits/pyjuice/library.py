"""pyjuice itself, imported late, and its compiler, which runs exported circuits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from pcgcd.basics.packages import package
from pcgcd.circuits.circuit import bottom_up
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits.pyjuice.writing import PyjuiceExport


def load_pyjuice() -> Any:
    """Return the pyjuice module. Importing it takes seconds, so nothing else here does."""
    return package("pyjuice", "the bridge to pyjuice (on Linux, where triton has wheels)")


def nodes_of(root: Any) -> tuple[Any, ...]:
    """All nodes, children first. The iterator of pyjuice recurses, and deep chains are deep."""
    return bottom_up(root, lambda node: node.chs)


def compile_pyjuice(export: PyjuiceExport, device: torch.device | str = "cuda") -> Any:
    """Return the compiled pyjuice circuit of an export, on a CUDA device.

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
    before = sys.getrecursionlimit()
    # The compiler of pyjuice recurses over the graph, as deep as the graph is.
    sys.setrecursionlimit(max(before, 1000 + 2 * len(nodes_of(export.root))))
    try:
        compiled = juice.compile(export.root, device=index, verbose=False)
    finally:
        sys.setrecursionlimit(before)
    return compiled.to(torch.device("cuda", index))

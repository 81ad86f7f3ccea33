"""pyjuice on a CPU: its triton kernels run in the triton interpreter.

Run as a process of its own, ``TRITON_INTERPRET=1 python -m pytest -n 0 tests/interpreter``: triton
reads the variable when it is imported, and the interpreter then serves the whole process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]


class _CpuCalledCuda(str):
    """The input layers of pyjuice run their kernels only on a device of type "cuda"."""

    type = "cuda"
    index = None


@pytest.fixture(scope="session")
def juice() -> Iterator[Any]:
    """pyjuice, without the three functions of CUDA's mathematics library that it calls."""
    pyjuice = pytest.importorskip("pyjuice")
    import triton.language as tl
    from triton.language.extra.cuda import libdevice

    with (
        mock.patch.object(libdevice, "log1p", lambda x: tl.log(1.0 + x)),
        mock.patch.object(libdevice, "ceil", lambda x: tl.ceil(x)),
        mock.patch.object(libdevice, "pow", lambda x, y: tl.exp(y * tl.log(x))),
    ):
        yield pyjuice


@pytest.fixture
def compiled(juice: Any) -> Callable[[Any], Any]:
    """``juice.compile`` that believes in a CUDA device while it runs."""

    def compile_on_cpu(root: Any) -> Any:
        with (
            mock.patch("torch.cuda.current_device", return_value=0),
            mock.patch("torch.cuda.device", return_value=contextlib.nullcontext()),
            mock.patch.object(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor),
        ):
            pc = juice.compile(root, verbose=False, disable_gpu_compilation=True)
        for layer in pc.input_layer_group:
            layer.device = _CpuCalledCuda("cpu")
        return pc

    return compile_on_cpu

"""The triton kernels are compiled to machine code for real GPUs, none of which is needed for it.

The interpreter runs kernels that the compiler refuses, so running them there is not enough.
"""

from __future__ import annotations

import ast
import inspect
import os

import pytest

triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter takes the place of the compiler", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from pcgcd.engine.backends import triton_backend, triton_kernels  # noqa: E402

# The types of arguments that TritonBackend passes; R is the type of the emissions.
SIGNATURES = {
    "class_sums": {"rows": "*R", "order": "*i64", "first": "*i64", "out": "*fp64", "width": "i32"},
    "accumulate": {
        "left": "*fp32", "right": "*R", "left_index": "*i64", "right_index": "*i64",
        "weight": "*fp32", "first": "*i64", "out": "*fp32", "width": "i32",
    },
    "dots": {
        "rows": "*R", "tokens": "*i64", "messages": "*fp32", "groups": "*i64", "out": "*fp32",
        "width": "i32",
    },
}  # fmt: skip


def test_every_kernel_is_compiled_here() -> None:
    tree = ast.parse(inspect.getsource(triton_kernels))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == set(SIGNATURES)


@pytest.mark.parametrize("emissions", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", list(SIGNATURES))
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile(capability: int, name: str, emissions: str) -> None:
    types = {key: kind.replace("R", emissions) for key, kind in SIGNATURES[name].items()}
    source = ASTSource(
        fn=getattr(triton_kernels, name),
        signature={**types, "block": "constexpr"},
        constexprs={"block": triton_backend._BLOCK},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert f".target sm_{capability}" in compiled.asm["ptx"]
    assert compiled.asm["cubin"].startswith(b"\x7fELF")

"""Loops give the same results compiled and as plain Python, which small work may use."""

from __future__ import annotations

import importlib
import io
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pcgcd
from pcgcd.automata import Vocabulary, compile_expression, kernels, lift
from pcgcd.automata import expressions as ex
from pcgcd.automata.kernels import jit
from pcgcd.automata.masks.bits import unpack
from pcgcd.constraints import json_schema, regex

ARRAYS = ("source", "target", "label", "initial_mask", "accepting_mask")


def all_kernels() -> Iterator[jit.Kernel]:
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, jit.Kernel):
                yield value


@pytest.fixture
def without_cache(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if nothing had been compiled yet; the names of what plain Python did."""
    used: list[str] = []
    run = jit._Clock.run

    def noting(function: object, arguments: tuple[object, ...]) -> object:
        used.append(str(getattr(function, "__name__", "")))
        return run(function, arguments)  # type: ignore[arg-type]

    for kernel in all_kernels():
        monkeypatch.setattr(kernel, "_is_ready", False)
    monkeypatch.setattr(jit, "_is_stored", lambda *_: False)
    monkeypatch.setattr(jit, "PLAIN_SECONDS", 1e9)
    monkeypatch.setattr(jit._Clock, "run", noting)
    return used


EXPRESSIONS = {
    "json": json_schema(
        {"properties": {"a": {"type": "string"}, "b": {"enum": [1, "x"]}}, "maxProperties": 2},
        free_depth=0,
        open_objects=True,
    ).expression,
    "choices": regex("(a|b)*a(a|b){3}|[^a]{2,4}").expression,
    "both": regex("[ab]*a[ab]*").expression & ~regex("a*b").expression,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_plain_python_builds_the_same_automata(name: str, without_cache: list[str]) -> None:
    expression = EXPRESSIONS[name]
    tokens = [*(bytes([b]) for b in range(256)), b"ab", b'{"', b'a": ', "é".encode(), None]
    vocabulary = Vocabulary.from_bytes(tokens, eos_ids=len(tokens) - 1)
    # Another limit, so that nothing is taken from what was compiled before.
    plain = compile_expression(expression, state_limit=100_001)
    plain_tokens = lift(plain, vocabulary)
    assert {"determinize", "quotient", "join", "_walk_states", "build_trie"} <= set(without_cache)
    for kernel in all_kernels():
        kernel._is_ready = True
    compiled = compile_expression(expression, state_limit=100_002)
    compiled_tokens = lift(compiled, Vocabulary.from_bytes(tokens, eos_ids=len(tokens) - 1))
    for left, right in ((plain, compiled), (plain_tokens, compiled_tokens)):
        for array in ARRAYS:
            np.testing.assert_array_equal(getattr(left, array), getattr(right, array))
        np.testing.assert_array_equal(left.labels.token_class, right.labels.token_class)


def test_large_work_and_work_after_some_seconds_is_compiled(
    without_cache: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pcgcd.automata.kernels.edges import group

    keys = np.arange(200_000) % 7
    order, offsets = group(keys, 7)
    assert without_cache == []
    np.testing.assert_array_equal(keys[order], np.sort(keys))
    assert offsets[-1] == len(keys)
    monkeypatch.setattr(group, "_is_ready", False)
    monkeypatch.setattr(jit._Clock, "spent", jit.PLAIN_SECONDS)
    group(keys[:10], 7)
    assert without_cache == []
    monkeypatch.setattr(group, "_is_ready", False)
    monkeypatch.setattr(jit._Clock, "spent", 0.0)
    group(keys[:10], 7)
    assert without_cache == ["group"]


def test_one_line_on_a_terminal_says_what_happens(
    without_cache: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(jit, "_ANNOUNCED", [])
    for number in range(3):
        compile_expression(ex.literal("a") | ex.literal("bc"), state_limit=77_000 + number)
    line, *more = terminal.getvalue().splitlines()
    assert line.startswith("pcgcd: ")
    assert "pcgcd warm-up" in line
    assert not more


def test_a_first_small_constraint_compiles_no_construction(tmp_path: Path) -> None:
    code = (
        "from pcgcd.constraints import json_schema\n"
        "from pcgcd.automata import Vocabulary\n"
        "schema = {'type': 'object', 'properties': {'a': {'type': 'integer'}},\n"
        "          'additionalProperties': False}\n"
        "tokens = [*(bytes([b]) for b in range(256)), None]\n"
        "fa = json_schema(schema).compile(Vocabulary.from_bytes(tokens, eos_ids=256))\n"
        "print(fa.accepts([*b'{\"a\": 1}']))\n"
    )
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}
    environment["PYTHONPATH"] = str(Path(pcgcd.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stdout.strip() == "True"
    assert result.stderr == ""
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_first_mask_waits_for_no_compiler(without_cache: list[str]) -> None:
    name = {"type": "string", "maxLength": 60}
    constraint = json_schema(
        {
            "type": "object",
            "properties": {"name": name},
            "required": ["name"],
            "additionalProperties": False,
        }
    )
    tokens = [*(bytes([b]) for b in range(256)), b'{"', b"ame", None]
    vocabulary = Vocabulary.from_bytes(tokens, eos_ids=len(tokens) - 1)
    masks = constraint.masks(vocabulary)
    allowed = unpack(masks.mask(masks.start(), 30), len(tokens))
    assert set(np.flatnonzero(allowed)) == {ord("{"), 256}
    assert "write_narrow" in without_cache
    compiled = [kernel.__name__ for kernel in all_kernels() if kernel._is_ready]
    assert not compiled

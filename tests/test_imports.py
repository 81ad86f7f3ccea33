"""Imports point down only: a lower part of the library knows nothing of a higher one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pcgcd

ROOT = Path(pcgcd.__file__).parent

# From the bottom up; what stands in one row does not import each other.
LEVELS = [
    ["errors"],
    ["basics"],
    ["circuits"],
    ["automata", "hmm"],
    ["constraints", "engine"],
    ["lm"],
    ["decoding"],
    ["integrations"],
    ["testing", "viz"],
    ["learning"],
    ["demo", "experiments"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}


def part(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
            if node.module == "pcgcd":
                names = [f"pcgcd.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("pcgcd.")}
    return parts


def test_every_part_has_a_level() -> None:
    found = {part(path) for path in ROOT.rglob("*.py")} - {"__init__"}
    assert found <= set(LEVEL), f"give {found - set(LEVEL)} a place in LEVELS"


def test_imports_point_down_only() -> None:
    for path in ROOT.rglob("*.py"):
        own = part(path)
        if own == "__init__":
            continue
        for other in imported_parts(path) - {own}:
            if other not in LEVEL:  # a name of the package itself, such as HMM
                other = _home(other)
            assert LEVEL[other] < LEVEL[own], f"{path.relative_to(ROOT)} imports {other}"


# What SMC is made of: it knows language models, proposals, potentials and prefix states, nothing of
# the automata, engines and HMMs behind them.
THIN = (
    "smc",
    "beam",
    "population",
    "portfolio",
    "next_step",
    "proposals",
    "potentials",
    "resampling",
    "randomness",
)
KNOWN = (
    "pcgcd.basics.",
    "pcgcd.decoding.",
    "pcgcd.lm",
    "pcgcd.errors",
    "pcgcd.engine.state",
    "pcgcd.engine.candidates",
)


@pytest.mark.parametrize("name", THIN)
def test_smc_is_thin(name: str) -> None:
    path = ROOT / "decoding" / f"{name}.py"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pcgcd"):
            module = str(node.module)
            assert module.startswith(KNOWN), f"decoding/{name}.py imports {module}"
            if module.startswith("pcgcd.decoding."):
                assert module.removeprefix("pcgcd.decoding.") in (*THIN, "contracts", "transforms")


def _home(name: str) -> str:
    """The part that a name exported by the package comes from."""
    value = getattr(pcgcd, name)
    if isinstance(value, str):  # __version__
        return "errors"
    return str(value.__module__).split(".")[1]


def test_importing_the_package_is_light() -> None:
    """What takes seconds to import is imported when it is needed; so is it for ``--help``."""
    heavy = ("pyjuice", "matplotlib", "networkx", "numba", "transformers", "torch", "numpy", "rich")
    help_ = "import contextlib, io, pcgcd.cli\nwith contextlib.redirect_stdout(io.StringIO()):\n"
    help_ += "    with contextlib.suppress(SystemExit):\n        pcgcd.cli.main(['--help'])"
    for code in ("import pcgcd", help_):
        code += f"\nimport sys; print([m for m in {heavy} if m in sys.modules])"
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert result.stdout.strip() == "[]"


def test_every_public_name_is_found_and_listed() -> None:
    assert set(pcgcd.__all__) <= set(dir(pcgcd))
    for name in pcgcd.__all__:
        assert getattr(pcgcd, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = pcgcd.nothing


def test_a_circuit_finds_its_engine_by_itself() -> None:
    """Names are imported when they are asked for, and the engine when a circuit first needs it."""
    code = (
        "import torch\n"
        "from pcgcd import HMM, FiniteAutomaton\n"
        "hmm = HMM.random(2, 2, generator=torch.Generator().manual_seed(0))\n"
        "fa = FiniteAutomaton.from_edges(\n"
        "    num_states=1, vocab_size=2, initial=0, accepting={0}, edges=[(0, 0, {0, 1})]\n"
        ")\n"
        "print((hmm * fa).start([3]).num_rows)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "1"

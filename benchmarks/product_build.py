"""How long does it take to build ``hmm * fa``, and how much memory does it need?

The claim: at H = 1024, V = 50,000, S = 500, E = 2,000 the product, its operators and 32 unrolled
steps take less than 50 ms and less than 50 MB beyond the operands. The peer, cirkit, multiplies
circuits too; both are measured on the same growing small sizes.

    python benchmarks/run.py --only product_build
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import (
    RESULTS,
    THREADS,
    extra_memory,
    in_fresh_process,
    machine,
    rounded,
    timed,
    write_with_figure,
)
from rich import box
from rich.table import Table

import pcgcd
from pcgcd import HMM, FiniteAutomaton

NAME = "product_build"
LIMIT_MS, LIMIT_MB = 50.0, 50.0
CONFIGURATIONS = ("tied", "untied, folded")


class Size(NamedTuple):
    """The size of a product.

    Steps n, hidden states H, tokens V, states S, edges E, the number of distinct token sets, and
    the number of classes of tokens that these sets tell apart.
    """

    length: int
    hidden: int
    vocab: int
    states: int
    edges: int
    labels: int
    classes: int


CLAIM = Size(length=32, hidden=1024, vocab=50_000, states=500, edges=2_000, labels=200, classes=210)
# Token sets that have nothing to do with each other: no grammar is like that, and little is shared.
WORST = CLAIM._replace(classes=CLAIM.vocab)
GROWING = (
    Size(8, 8, 100, 6, 16, 8, 10),
    Size(8, 16, 200, 12, 32, 12, 16),
    Size(16, 16, 500, 24, 64, 16, 20),
    Size(16, 32, 1_000, 24, 64, 16, 20),
    Size(32, 32, 2_000, 48, 128, 24, 30),
    Size(32, 64, 2_000, 48, 128, 24, 30),
)


# -- the operands -----------------------------------------------------------------------------


def random_hmm(size: Size) -> HMM:
    generator = torch.Generator().manual_seed(0)

    def rows(*shape: int) -> torch.Tensor:
        weights = torch.rand(shape, generator=generator)
        return weights.div_(weights.sum(-1, keepdim=True))

    return HMM(rows(size.hidden), rows(size.hidden, size.hidden), rows(size.hidden, size.vocab))


def token_sets(size: Size, rng: np.random.Generator) -> list[np.ndarray]:
    """Distinct sets of tokens, like the labels of a lifted grammar.

    Each is a union of classes of tokens. A few classes hold much of the vocabulary, and so do the
    sets with one of these; most sets are small.
    """
    weights = 1.0 / (1 + np.arange(size.classes)) ** 1.3
    token_class = rng.choice(size.classes, size.vocab, p=weights / weights.sum())
    token_class[: size.classes] = np.arange(size.classes)  # none is empty
    many = max(2, size.classes // 2)
    found: dict[bytes, np.ndarray] = {}
    while len(found) < size.labels:
        large = len(found) % 10 == 9
        count = int(rng.integers(many, size.classes) if large else rng.integers(1, 4))
        first = 0 if large else size.classes // 10
        chosen = rng.choice(np.arange(first, size.classes), count, replace=False)
        members = np.flatnonzero(np.isin(token_class, chosen))
        found.setdefault(members.tobytes(), members)
    return list(found.values())


def random_automaton(size: Size) -> FiniteAutomaton:
    """A connected automaton: every state can be reached and can reach the accepting one."""
    rng = np.random.default_rng(0)
    sets = token_sets(size, rng)
    chain = [(state, state + 1) for state in range(size.states - 1)]
    last = size.states - 1
    pairs = dict.fromkeys([*chain, (last, last)])
    while len(pairs) < size.edges:
        source = int(rng.integers(size.states))
        near = source + int(rng.integers(-20, 21))
        pairs[source, near % size.states] = None
    labels = rng.integers(size.labels, size=len(pairs))
    return FiniteAutomaton.from_edges(
        num_states=size.states,
        vocab_size=size.vocab,
        initial=0,
        accepting={last},
        edges=[(*pair, sets[label]) for pair, label in zip(pairs, labels)],
    )


def fresh_operands(hmm: HMM, fa: FiniteAutomaton) -> tuple[HMM, FiniteAutomaton]:
    """The same operands as new objects, which have not computed anything yet."""
    copied = FiniteAutomaton(
        fa.num_states, fa.source, fa.target, fa.label, fa.labels, fa.initial_mask, fa.accepting_mask
    )
    return HMM(hmm.initial, hmm.transition, hmm.emission, validate=False), copied


def build(operands: tuple[HMM, FiniteAutomaton], length: int) -> Any:
    """The product, its operators and its unrolled graph."""
    hmm, fa = operands
    product = hmm * fa
    _ = product.operators
    product.unroll(length)
    return product


# -- tensors that a product holds -------------------------------------------------------------


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors that can be reached from an object through its attributes and containers."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, tuple | list | set | frozenset):
            stack += item
        elif type(item).__module__.startswith("pcgcd"):
            stack += vars(item).values() if hasattr(item, "__dict__") else ()
            stack += (getattr(item, name, None) for name in getattr(item, "__slots__", ()))


def new_tensor_bytes(product: Any, operands: list[torch.Tensor]) -> int:
    """The bytes of all storages that a product reaches and that are not the operands' own."""
    own = {tensor.untyped_storage().data_ptr() for tensor in operands}
    found = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in tensors(product)
    }
    return sum(size for pointer, size in found.items() if pointer not in own)


# -- workers, each in a process of its own ----------------------------------------------------


def measure_ours(size: Size, repeats: int, with_value: bool) -> dict[str, Any]:
    torch.set_num_threads(THREADS)
    hmm, fa = fresh_operands(random_hmm(size), random_automaton(size))
    own = [hmm.initial, hmm.transition, hmm.emission]
    first: dict[str, Any] = {}

    def first_build() -> Any:
        products = []
        first.update(timed(lambda _: products.append(build((hmm, fa), size.length)), 1))
        return products[0]

    product, build_memory = extra_memory(first_build)
    result: dict[str, Any] = {
        "automaton": repr(fa),
        "token_classes": fa.labels.num_classes,
        "graph": repr(product.unroll(size.length)),
        "operands_mb": sum(tensor.nbytes for tensor in own) / 1e6,
        "new_tensors_mb": new_tensor_bytes(product, own) / 1e6,
        "first_build": first,
        "build_memory": build_memory,
        "build": timed(
            lambda given: build(given, size.length), repeats, lambda: fresh_operands(hmm, fa)
        ),
    }
    if with_value:
        x = accepted_string(fa, size.length)
        with torch.no_grad():
            value, value_memory = extra_memory(lambda: product.log_value(x))
            result["value"] = timed(lambda _: product.log_value(x), max(2, repeats // 4))
        result |= {"value_memory": value_memory, "log_value": float(value[0])}
    return result


def accepted_string(fa: FiniteAutomaton, length: int) -> torch.Tensor:
    """A string of the automaton, so that the value that is compared is not zero; (1, n)."""
    return fa.sample(1, length, generator=torch.Generator().manual_seed(0))


def write_matrices(size: Size, path: Path) -> None:
    """The same two chains as plain matrices, for the peer."""
    hmm, fa = random_hmm(size), random_automaton(size)
    arrays = {}
    for side, circuit in (("hmm", hmm), ("fa", fa)):
        initial, transition, emission, final = circuit.operators
        arrays |= {
            f"{side}_initial": initial.to_dense()[0].numpy(),
            f"{side}_transition": transition.to_dense().numpy(),
            f"{side}_emission": emission.to_dense().numpy(),
            f"{side}_final": final.to_dense().diagonal().numpy(),
        }
    x = accepted_string(fa, size.length).numpy()
    np.savez(path, **arrays, length=np.array(size.length), x=x)


# -- the benchmark ----------------------------------------------------------------------------


def peer_version(python: str) -> str | None:
    """The version of cirkit in the peer's environment; None where it is not installed."""
    try:
        return str(in_fresh_process("peer_version.py", ["libcirkit"], python)["version"])
    except (RuntimeError, OSError):
        return None


def ours(size: Size, repeats: int, with_value: bool) -> dict[str, Any]:
    given = json.dumps([list(size), repeats, with_value])
    return in_fresh_process("product_build.py", ["--worker", given])


def best_process(measure: Callable[[], dict[str, Any]], processes: int) -> dict[str, Any]:
    """Measure in several fresh processes and keep the fastest; the others' times stay listed.

    The peer's plan of computation, and so its speed, differs from process to process.
    """
    found = [measure() for _ in range(processes)]
    best = min(found, key=lambda measured: median_cpu(measured, "value"))
    return {**best, "value_cpu_ms_by_process": [median_cpu(one, "value") for one in found]}


def compared(size: Size, repeats: int, processes: int, python: str) -> dict[str, Any]:
    """Both libraries at one size, in turn."""
    row: dict[str, Any] = {
        "size": size._asdict(),
        "pcgcd": best_process(lambda: ours(size, repeats, True), processes),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrices.npz"
        write_matrices(size, path)

        def peer(name: str) -> dict[str, Any]:
            return in_fresh_process("cirkit_product.py", [str(path), str(repeats), name], python)

        row["cirkit"] = [
            best_process(lambda name=name: peer(name), processes) for name in CONFIGURATIONS
        ]
    for measured in row["cirkit"]:
        difference = abs(measured["log_value"] - row["pcgcd"]["log_value"])
        if not difference < 1e-3 * abs(row["pcgcd"]["log_value"]):
            raise RuntimeError(
                f"the two libraries disagree at {size}: {row['pcgcd']['log_value']} and "
                f"{measured['log_value']}"
            )
    row["ratios"] = ratios(row)
    return row


def median_cpu(measured: dict[str, Any], query: str) -> float:
    return float(measured[query]["cpu_ms"]["median"])


def peak(measured: dict[str, Any], query: str) -> float:
    return float(measured[f"{query}_memory"]["peak_mb"])


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """cirkit over pcgcd, for each number against the peer's better configuration."""
    return {
        f"{query}_{name}": min(read(measured, query) for measured in row["cirkit"])
        / read(row["pcgcd"], query)
        for query in ("build", "value")
        for name, read in (("cpu", median_cpu), ("memory", peak))
    }


def main(quick: bool = False, peer_python: str | None = None) -> dict[str, Any]:
    """Measure everything; a quick run is smaller in all respects and proves nothing."""
    peer = peer_version(peer_python or sys.executable)
    repeats, processes = (5, 1) if quick else (24, 3)
    command = f"python benchmarks/run.py --only {NAME}" + (" --quick" if quick else "")
    if peer_python:
        command += " --peer-python <a Python with libcirkit>"
    claims = [
        size._replace(hidden=128, vocab=5_000, classes=min(size.classes, 5_000)) if quick else size
        for size in (CLAIM, WORST)
    ]
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": command,
        "machine": machine(),
        "versions": {"pcgcd": pcgcd.__version__, "torch": torch.__version__, "libcirkit": peer},
        "limits": {"ms": LIMIT_MS, "mb": LIMIT_MB},
        "claim": [{"size": size._asdict(), **ours(size, repeats, False)} for size in claims],
    }
    sizes = GROWING[:3] if quick else GROWING
    if peer is None:
        results["peer"] = "cirkit is not installed (pip install libcirkit), so it was skipped"
        results["growing"] = [
            {"size": size._asdict(), "pcgcd": ours(size, repeats, True)} for size in sizes
        ]
    else:
        results["peer"] = f"cirkit (libcirkit {peer}), lse-sum semiring, torch backend"
        results["growing"] = [
            compared(size, repeats, processes, peer_python or sys.executable) for size in sizes
        ]
    return rounded(results)


CLAIM_ROWS: tuple[tuple[str, float | None, Callable[[dict[str, Any]], float]], ...] = (
    ("wall ms, best", LIMIT_MS, lambda claim: claim["build"]["wall_ms"]["best"]),
    ("wall ms, median", LIMIT_MS, lambda claim: claim["build"]["wall_ms"]["median"]),
    ("CPU ms, best", LIMIT_MS, lambda claim: claim["build"]["cpu_ms"]["best"]),
    ("CPU ms, median", LIMIT_MS, lambda claim: claim["build"]["cpu_ms"]["median"]),
    ("wall ms, first in a process", LIMIT_MS, lambda c: c["first_build"]["wall_ms"]["best"]),
    ("peak extra resident MB", LIMIT_MB, lambda claim: claim["build_memory"]["peak_mb"]),
    ("new tensors MB", LIMIT_MB, lambda claim: claim["new_tensors_mb"]),
    ("the HMM's own tensors MB", None, lambda claim: claim["operands_mb"]),
)


def tables(results: dict[str, Any]) -> list[Table | str]:
    """What is printed."""
    size = results["claim"][0]["size"]
    head = Table(
        title=f"hmm * fa, its operators and {size['length']} steps\nH = {size['hidden']:,}, "
        f"V = {size['vocab']:,}, S = {size['states']:,}, E = {size['edges']:,}, "
        f"{size['labels']} token sets"
    )
    head.add_column("")
    for claim in results["claim"]:
        head.add_column(f"{claim['token_classes']:,} classes", justify="right")
    head.add_column("limit", justify="right")
    for name, limit, read in CLAIM_ROWS:
        cells = (f"{read(claim):.2f}" for claim in results["claim"])
        head.add_row(name, *cells, f"{limit:g}" if limit else "")
    growth = Table(
        title="pcgcd / cirkit (the better of two configurations for each number)\n"
        "median CPU ms; peak extra MB; the value is that of one string",
        box=box.SIMPLE_HEAD,
    )
    growth.add_column("n, H, V, E", no_wrap=True)
    for column in ("build ms", "×", "value ms", "×", "value MB", "×"):
        growth.add_column(column, justify="right", no_wrap=True)
    for row in results["growing"]:
        growth.add_row(*growth_cells(row))
    return [head, growth, str(results["peer"])]


def short(number: float) -> str:
    return f"{number:.1f}" if number < 10 else f"{number:.0f}"


def growth_cells(row: dict[str, Any]) -> list[str]:
    size = row["size"]
    cells = [", ".join(str(size[key]) for key in ("length", "hidden", "vocab", "edges"))]
    for query, name, read in (
        ("build", "cpu", median_cpu),
        ("value", "cpu", median_cpu),
        ("value", "memory", peak),
    ):
        own = short(read(row["pcgcd"], query))
        if "cirkit" in row:
            other = short(min(read(measured, query) for measured in row["cirkit"]))
            cells += [f"{own} / {other}", short(row["ratios"][f"{query}_{name}"])]
        else:
            cells += [own, ""]
    return cells


def save(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """The numbers and their figure."""
    from product_build_figure import figure

    return write_with_figure(results, figure(results), folder / NAME)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A worker of this benchmark; see run.py.")
    parser.add_argument("--worker", required=True)
    numbers, repeats, with_value = json.loads(parser.parse_args().worker)
    print(json.dumps(measure_ours(Size(*numbers), repeats, with_value)))

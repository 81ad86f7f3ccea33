"""Circuits in folders: what is read is what was written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch

from pcgcd import HMM, FiniteAutomaton, MonarchHMM
from pcgcd.circuits import CircuitLike, mixture
from pcgcd.engine import load_circuit, save_circuit
from pcgcd.errors import CheckpointError, InvalidParameterError


def hmm(seed: int) -> HMM:
    return HMM.random(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def automaton(weights: list[float] | None = None) -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=2, vocab_size=3, initial=0, accepting={1},
        edges=[(0, 0, {0}), (0, 1, {1, 2}), (1, 1, {0})], weights=weights,
    )  # fmt: skip


CIRCUITS: dict[str, CircuitLike] = {
    "automaton": automaton(),
    "weighted automaton": automaton([0.5, 2.0, 1.5]),
    "hmm": hmm(0),
    "product": hmm(0) * automaton(),
    "product of several": hmm(0) * automaton() * automaton([0.5, 2.0, 1.5]),
    "mixture": mixture([hmm(0), hmm(1)], [0.3, 0.7]),
    "mixture times automaton": mixture([hmm(0), hmm(1)], [0.3, 0.7]) * automaton(),
    "hmm of one length": hmm(0).unroll(4),
    "product of one length": (hmm(0) * automaton()).unroll(4),
}


@pytest.mark.parametrize("name", list(CIRCUITS))
def test_every_value_is_the_same(name: str, tmp_path: Path) -> None:
    circuit = CIRCUITS[name]
    found = load_circuit(save_circuit(circuit, tmp_path / "circuit"))
    words = torch.tensor(list(itertools.product(range(3), repeat=4)))
    # The rows of an HMM are normalised again when they are read.
    torch.testing.assert_close(found.log_value(words), circuit.log_value(words), rtol=0, atol=1e-14)
    assert not list(tmp_path.rglob("*.pkl"))
    assert (tmp_path / "circuit" / "circuit.json").exists()
    assert type(found) is type(circuit)


def test_a_part_that_occurs_twice_is_written_once(tmp_path: Path) -> None:
    fa, model = automaton(), hmm(0)
    folder = save_circuit(mixture([model * fa, hmm(1) * fa], [0.5, 0.5]), tmp_path / "c")
    assert len(list(folder.glob("automaton-*"))) == 1
    assert len(list(folder.glob("hmm-*"))) == 2


def test_monarch_models_keep_their_kind(tmp_path: Path) -> None:
    model = MonarchHMM.random(4, 3, generator=torch.Generator().manual_seed(0))
    found = load_circuit(save_circuit(model * automaton(), tmp_path / "c"))
    assert type(found.factors[0]) is MonarchHMM


def test_what_cannot_be_saved_or_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="made of automata and HMMs"):
        save_circuit(hmm(0).unroll(3) * automaton(), tmp_path / "unrolled")
    assert not (tmp_path / "unrolled").exists()
    folder = save_circuit(automaton(), tmp_path / "c")
    with pytest.raises(CheckpointError, match="does not exist"):
        save_circuit(automaton(), folder)
    with pytest.raises(CheckpointError, match="no circuit"):
        load_circuit(tmp_path / "nowhere")
    tree = json.loads((folder / "circuit.json").read_text())
    (folder / "circuit.json").write_text(json.dumps({**tree, "version": 99}))
    with pytest.raises(CheckpointError, match="update this library"):
        load_circuit(folder)
    (folder / "circuit.json").write_text(json.dumps(tree))
    [weights] = folder.glob("automaton-*")
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(CheckpointError):
        load_circuit(folder)


def test_parts_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = save_circuit(automaton(), tmp_path / "c")
    tree = json.loads((folder / "circuit.json").read_text())
    tree["circuit"] = {"automaton": "../c/../../secret.safetensors"}
    (folder / "circuit.json").write_text(json.dumps(tree))
    with pytest.raises(CheckpointError, match=r"secret\.safetensors"):
        load_circuit(folder)

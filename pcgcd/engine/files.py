"""Circuits in folders: automata, HMMs, their products and mixtures. JSON and safetensors."""

from __future__ import annotations

import json
import os
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.cache import ARRAYS, consistent
from pcgcd.automata.labels import Labels
from pcgcd.basics.files import whole_folder, write_text
from pcgcd.circuits import ChainMixture, Circuit, CircuitLike, circuit_product, mixture
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm import HiddenMarkovModel, load_hmm
from pcgcd.hmm.files.tensor_files import read_tensors, write_tensors

_FORMAT, _VERSION = "pcgcd circuit", 1
_TREE = "circuit.json"


def save_circuit(circuit: CircuitLike, folder: str | os.PathLike[str]) -> Path:
    """Write a circuit to a new folder, which appears complete or not at all.

    What can be written is what is made of automata (with weights too) and HMMs by ``*`` and ``+``,
    for every length or unrolled to one; equal parts are written once. Nothing is pickled.

    Args:
        circuit: Such as ``hmm * fa``, or an automaton alone.
        folder: Where to; it must not exist, or be empty.

    Returns:
        The folder.

    Raises:
        InvalidParameterError: A part is of another kind.
        CheckpointError: The folder cannot be written.
    """
    parts: dict[int, tuple[str, Any]] = {}
    tree = _described(circuit, parts)
    try:
        with whole_folder(Path(folder)) as place:
            for name, part in parts.values():
                if isinstance(part, FiniteAutomaton):
                    _write_automaton(part, place / name)
                else:
                    part.save_pretrained(place / name)
            text = {"format": _FORMAT, "version": _VERSION, "circuit": tree}
            write_text(place / _TREE, json.dumps(text, indent=1) + "\n")
    except OSError as error:
        raise CheckpointError(
            f"the circuit cannot be written to {folder}: {error}; name a folder that does not exist"
        ) from error
    return Path(folder)


def load_circuit(folder: str | os.PathLike[str]) -> Any:
    """Read a circuit that :func:`save_circuit` wrote.

    Raises:
        CheckpointError: There is none, or it is damaged or from a newer version.
    """
    place = Path(folder)
    try:
        found = json.loads((place / _TREE).read_text(encoding="utf-8"))
        if found["format"] != _FORMAT or found["version"] > _VERSION:
            raise ValueError(f"format {found['format']!r}, version {found['version']!r}")
        return _read(found["circuit"], place, {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"there is no circuit in {place} that can be read ({error!r}); save it again, or "
            "update this library if it is newer"
        ) from error


def _described(circuit: CircuitLike, parts: dict[int, tuple[str, Any]]) -> dict[str, Any]:
    """How the circuit is made of parts; these are collected with their names."""
    if isinstance(circuit, FiniteAutomaton | HiddenMarkovModel):
        kind = "automaton" if isinstance(circuit, FiniteAutomaton) else "hmm"
        ending = ".safetensors" if kind == "automaton" else ""
        name, _ = parts.setdefault(id(circuit), (f"{kind}-{len(parts)}{ending}", circuit))
        return {kind: name}
    if isinstance(circuit, ChainMixture):
        mixed = [_described(operand, parts) for operand in circuit.operands]
        return {"mixture": mixed, "weights": list(circuit.weights)}
    if isinstance(circuit, Circuit) and circuit.family is not None:
        return {"unrolled": [_described(circuit.family, parts)], "length": circuit.num_variables}
    if len(circuit.factors) > 1 and not isinstance(circuit, Circuit):
        return {"product": [_described(factor, parts) for factor in circuit.factors]}
    raise InvalidParameterError(
        "a circuit can be saved if it is made of automata and HMMs by * and +, and then perhaps "
        f"unrolled, but this has a {type(circuit).__name__} of another origin; save its parts, and "
        "put them together when they are read"
    )


def _read(tree: dict[str, Any], place: Path, known: dict[str, Any]) -> Any:
    kind = next(iter(tree))
    if kind in ("automaton", "hmm"):
        name = Path(tree[kind]).name  # never outside the folder
        if name not in known:
            path = place / name
            known[name] = _read_automaton(path) if kind == "automaton" else load_hmm(path)
        return known[name]
    inner = [_read(part, place, known) for part in tree[kind]]
    if kind == "unrolled":
        return inner[0].unroll(tree["length"])
    return mixture(inner, tree["weights"]) if kind == "mixture" else reduce(circuit_product, inner)


def _write_automaton(fa: FiniteAutomaton, path: Path) -> None:
    owner = {name: fa.labels if "class" in name else fa for name in ARRAYS}
    arrays = {name: np.array(getattr(owner[name], name)) for name in ARRAYS}
    if fa.weight is not None:
        arrays["weight"] = np.array(fa.weight, dtype=np.float64)
    write_tensors(path, {name: torch.from_numpy(array) for name, array in arrays.items()})


def _read_automaton(path: Path) -> FiniteAutomaton:
    tensors, _ = read_tensors(path)
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    weight = arrays.pop("weight", None)
    if set(arrays) != set(ARRAYS) or not consistent(arrays, len(arrays["token_class"])):
        raise ValueError(f"{path.name} holds no automaton")
    if weight is not None and (len(weight) != len(arrays["source"]) or not (weight > 0).all()):
        raise ValueError(f"{path.name} holds no weights of an automaton")
    for array in arrays.values():
        array.flags.writeable = False
    labels = Labels(arrays.pop("label_class"), arrays.pop("token_class"))
    states = len(arrays["initial_mask"])
    return FiniteAutomaton(num_states=states, labels=labels, weight=weight, **arrays)

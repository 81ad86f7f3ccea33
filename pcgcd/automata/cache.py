"""Compiled token automata on disk."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.labels import Labels
from pcgcd.automata.weights import language_only
from pcgcd.basics.files import whole_file

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_FORMAT = "pcgcd token automaton 1"
ARRAYS = {
    "source": np.dtype(np.int64),
    "target": np.dtype(np.int64),
    "label": np.dtype(np.int64),
    "label_class": np.dtype(np.bool_),
    "token_class": np.dtype(np.int64),
    "initial_mask": np.dtype(np.bool_),
    "accepting_mask": np.dtype(np.bool_),
}
# What reading a damaged archive may raise.
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class AutomatonCache:
    """A folder of token automata, one file for each pair of byte automaton and vocabulary.

    Files appear complete or not at all, so several processes may share a folder. A file that cannot
    be read, for whatever reason, is built again.

    Attributes:
        folder: Where the files are; made when the first one is written.
    """

    folder: Path

    def key(self, automaton: FiniteAutomaton, vocabulary: Vocabulary) -> str:
        """What the result depends on, as a hash (sha256, hexadecimal)."""
        digest = hashlib.sha256(_FORMAT.encode())
        digest.update(vocabulary.fingerprint.encode())
        for name, array in _arrays(automaton).items():
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def path(self, automaton: FiniteAutomaton, vocabulary: Vocabulary) -> Path:
        """The file for a byte automaton and a vocabulary."""
        return self.folder / f"{self.key(automaton, vocabulary)}.npz"

    def get(
        self,
        automaton: FiniteAutomaton,
        vocabulary: Vocabulary,
        build: Callable[[FiniteAutomaton, Vocabulary], FiniteAutomaton],
    ) -> FiniteAutomaton:
        """The stored token automaton; built, and stored, if there is none that can be read.

        A folder that cannot be written to costs time only.
        """
        path = self.path(automaton, vocabulary)
        stored = load(path, vocabulary.logits_size)
        if stored is not None:
            return stored
        built = build(automaton, vocabulary)
        with suppress(OSError):
            save(built, path)
        return built


def save(automaton: FiniteAutomaton, path: Path) -> None:
    """Write a file, as a whole or not at all."""
    with whole_file(path) as file:
        np.savez(file, allow_pickle=False, **_arrays(automaton))


def load(path: Path, vocab_size: int) -> FiniteAutomaton | None:
    """The automaton in a file, or None if there is none or it is damaged."""
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            if archive.testzip() is not None:
                return None
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ARRAYS}
    except _DAMAGE:
        return None
    if not consistent(arrays, vocab_size):
        return None
    for array in arrays.values():
        array.flags.writeable = False
    labels = Labels(arrays.pop("label_class"), arrays.pop("token_class"))
    return FiniteAutomaton(num_states=len(arrays["initial_mask"]), labels=labels, **arrays)


def _arrays(automaton: FiniteAutomaton) -> dict[str, Array]:
    language_only("a stored automaton", automaton)
    owner = {name: automaton.labels if "class" in name else automaton for name in ARRAYS}
    return {name: np.ascontiguousarray(getattr(owner[name], name)) for name in ARRAYS}


def consistent(arrays: dict[str, Array], vocab_size: int) -> bool:
    """Return whether the arrays make an automaton over a vocabulary of that size."""
    for name, dtype in ARRAYS.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1 + (name == "label_class"):
            return False
    num_labels, num_classes = arrays["label_class"].shape
    num_states, num_edges = len(arrays["initial_mask"]), len(arrays["source"])
    indices = [  # each with its length, and one more than the greatest entry it may have
        ("source", num_edges, num_states),
        ("target", num_edges, num_states),
        ("label", num_edges, num_labels),
        ("token_class", vocab_size, num_classes),
    ]
    return num_states == len(arrays["accepting_mask"]) > 0 and all(
        len(arrays[name]) == length and ((arrays[name] >= 0) & (arrays[name] < limit)).all()
        for name, length, limit in indices
    )

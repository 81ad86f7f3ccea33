"""A language model and data so small that every experiment can be run on them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from pcgcd import HMM, Vocabulary
from pcgcd.experiments.harness.options import Options
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import TableLM

SAMPLES = Path(__file__).parent / "samples"
_WORDS = [b"SELECT ", b" FROM ", b"pet", b"name", b'"arguments": {', b"true", b" dog", b"ing"]


def tiny_vocabulary() -> Vocabulary:
    """All bytes, a few words, and the end."""
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)] + _WORDS
    return Vocabulary.from_bytes([*tokens, None], eos_ids=len(tokens))


def tiny_options(folder: Path, **given: Any) -> Options:
    """Options with a random model that looks one token back, and a random HMM."""
    vocabulary = tiny_vocabulary()
    generator = torch.Generator().manual_seed(0)
    hmm = HMM.random(3, vocabulary.logits_size, generator=generator, dtype=torch.float64)
    return Options(
        data=folder,
        lm=TableLM.random(vocabulary, seed=1, order=1),
        hmms=given.pop("hmms", {"tiny": absorbing(hmm, vocabulary.eos_ids)}),
        chat=False,
        **given,
    )


def sample_data(folder: Path) -> Path:
    """A copy of the samples with a database."""
    data = folder / "data"
    shutil.copytree(SAMPLES, data)
    database = data / "spider" / "database" / "pets" / "pets.sqlite"
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE pet (name TEXT, age INTEGER)")
        rows = [("Rex", 4), ("Ada", 2), ("Tom", 4)]
        connection.executemany("INSERT INTO pet VALUES (?, ?)", rows)
        connection.commit()
    return data

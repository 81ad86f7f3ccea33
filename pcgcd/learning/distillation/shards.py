"""Samples on disk: shards of a fixed number of rows, and a manifest that says what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.files import remove_leftovers, write_text
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm.files.tensor_files import read_tensors, write_tensors
from pcgcd.learning.resuming import check_same
from pcgcd.learning.sequences import num_tokens

_FORMAT = "pcgcd samples 1"
_MANIFEST = "manifest.json"
# Few prompts are not worth holding out: below this many, samples are.
_FEW_PROMPTS = 20


@dataclass(frozen=True)
class Manifest:
    """What decides the samples of a folder, and how many there are."""

    model: str  # a name of the language model and a hash of its weights
    vocabulary: str  # the fingerprint of its vocabulary
    vocab_size: int  # the width V of its logits
    eos_ids: tuple[int, ...]  # the tokens that end a text
    prompts: str  # the hash of the prompts
    num_prompts: int  # how many prompts there are
    seed: int  # the seed
    length: int  # the number of tokens n of each sample
    shard_size: int  # the number of samples in each shard
    group: int  # how many samples in a row answer one prompt
    engine: str  # what generated them
    samples: int  # how many samples were asked for

    def rows_of(self, shard: int) -> range:
        """Return the numbers of the samples of a shard."""
        start = shard * self.shard_size
        return range(start, min(start + self.shard_size, self.samples))

    @property
    def num_shards(self) -> int:
        """How many shards hold all samples."""
        return -(-self.samples // self.shard_size)

    def prompt_of(self, sample: int) -> int:
        """Return the number of the prompt that a sample answers: they are cycled."""
        return sample // self.group % self.num_prompts


class Shard(NamedTuple):
    """Some samples."""

    tokens: Tensor  # (rows, n) int32, padded with EOS behind the first EOS
    log_probs: Tensor  # log p_lm of each up to and including its first EOS, (rows,) float32
    constrained: Tensor  # whether each was drawn under a constraint, (rows,) bool


class ShardFolder:
    """The files of one sampling run: ``manifest.json`` and ``shard-00000.safetensors``, ..."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    def open(self) -> None:
        """Check that the folder is for these samples, or begin it."""
        path = self.folder / _MANIFEST
        if path.exists():
            here = asdict(self.manifest)
            del here["samples"]
            there = asdict(_read_manifest(self.folder))
            check_same(there, here, self.folder, "samples of another kind")
            if there["samples"] == self.manifest.samples:
                return  # others may be at work in this folder
        write_text(path, json.dumps({"format": _FORMAT, **asdict(self.manifest)}, indent=2) + "\n")

    def path_of(self, shard: int) -> Path:
        """Return the file of a shard."""
        return self.folder / f"shard-{shard:05d}.safetensors"

    def has(self, shard: int) -> bool:
        """Return whether a shard is there with all its rows."""
        if not self.path_of(shard).exists():
            return False
        return len(self.read(shard).tokens) >= len(self.manifest.rows_of(shard))

    def write(self, number: int, shard: Shard) -> None:
        """Write a shard, all of it or nothing."""
        path = self.path_of(number)
        remove_leftovers(path)
        constrained = shard.constrained.to(torch.uint8)
        tensors = {**shard._asdict(), "constrained": constrained}
        write_tensors(path, tensors, {"samples": _key(self.manifest)})

    def read(self, number: int) -> Shard:
        """Read a shard, mapped from its file."""
        path = self.path_of(number)
        if not path.exists():
            raise CheckpointError(
                f"{path.name} is missing from the samples in {self.folder}: sampling was "
                "interrupted; run the same command again, and it goes on"
            )
        tensors, metadata = read_tensors(path)
        try:
            shard = Shard(
                tensors["tokens"], tensors["log_probs"], tensors["constrained"].to(torch.bool)
            )
        except KeyError as error:
            raise CheckpointError(f"{path.name} does not hold samples: no {error}") from error
        rows = len(shard.tokens)
        if (
            metadata.get("samples") != _key(self.manifest)
            or shard.tokens.shape != (rows, self.manifest.length)
            or len(shard.log_probs) != rows
            or len(shard.constrained) != rows
        ):
            raise CheckpointError(
                f"{path.name} belongs to other samples than {_MANIFEST} says; delete it"
            )
        return shard


def _key(manifest: Manifest) -> str:
    """What a shard depends on: everything but how many samples there are."""
    return json.dumps({**asdict(manifest), "samples": None})


def _read_manifest(folder: Path) -> Manifest:
    path = folder / _MANIFEST
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != _FORMAT:
            raise ValueError("an unknown format")
        manifest = Manifest(**{**data, "eos_ids": tuple(data["eos_ids"])})
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{folder} holds no samples: {_MANIFEST} is missing or damaged ({error})"
        ) from error
    return manifest


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Samples of a language model.

    Attributes:
        manifest: What they are.
        shards: They themselves, mapped from files.
        numbers: The number of each: 0, 1, 2, ... unless shards are missing in between.
    """

    manifest: Manifest
    shards: tuple[Shard, ...]
    numbers: Tensor

    @classmethod
    def load(cls, folder: str | Path, *, partial: bool = False) -> SampleSet:
        """Return the samples of a folder.

        Args:
            folder: The folder.
            partial: Take the complete shards of a run that has not ended.

        Raises:
            CheckpointError: There are none, or some are missing or damaged.
        """
        path = Path(folder)
        manifest = _read_manifest(path)
        files = ShardFolder(path, manifest)
        numbers: Sequence[int] = range(manifest.num_shards)
        if partial:
            numbers = [number for number in numbers if files.has(number)]
        shards = []
        for number in numbers:
            shard, rows = files.read(number), manifest.rows_of(number)
            if len(shard.tokens) < len(rows):
                raise CheckpointError(
                    f"{files.path_of(number).name} has {len(shard.tokens)} samples, but "
                    f"{len(rows)} are needed: run the same command again, and it goes on"
                )
            shards.append(Shard(*(part[: len(rows)] for part in shard)))
        if not shards:
            raise CheckpointError(f"{path} holds no complete shard yet")
        if partial:
            manifest = replace(manifest, samples=sum(len(shard.tokens) for shard in shards))
        rows_there = [row for number in numbers for row in files.manifest.rows_of(number)]
        return cls(manifest, tuple(shards), torch.tensor(rows_there))

    @property
    def tokens(self) -> Tensor:
        """All of them, (N, n) int32."""
        return torch.cat([shard.tokens for shard in self.shards])

    @property
    def log_probs(self) -> Tensor:
        """The logarithm of p_lm of each, (N,)."""
        return torch.cat([shard.log_probs for shard in self.shards])

    @property
    def constrained(self) -> Tensor:
        """Whether each was drawn under a constraint, (N,)."""
        return torch.cat([shard.constrained for shard in self.shards])

    @property
    def prompts(self) -> Tensor:
        """The number of the prompt of each, (N,)."""
        return self.numbers // self.manifest.group % self.manifest.num_prompts

    def __len__(self) -> int:
        return sum(len(shard.tokens) for shard in self.shards)

    @property
    def num_tokens(self) -> Tensor:
        """The tokens of each up to and including its first EOS, (N,)."""
        return num_tokens(self.tokens, self.manifest.eos_ids)

    def nats_per_token(self, rows: Tensor | None = None) -> float:
        """Mean -log p_lm for each token: the model's entropy, if the samples are its own."""
        chosen = torch.arange(len(self)) if rows is None else rows
        total = float(self.num_tokens[chosen].sum())
        return -float(self.log_probs[chosen].double().sum()) / max(1.0, total)

    def split(self, held_out: float = 0.1) -> tuple[Tensor, Tensor]:
        """Return the numbers of the samples to learn from, and of those held out.

        Samples of one prompt stay together; if there are fewer than 20 prompts, samples are held
        out one by one. The same samples give the same split.

        Args:
            held_out: The fraction of prompts, or of samples, to hold out.
        """
        if not 0 <= held_out < 1:
            raise InvalidParameterError(f"held_out must lie in [0, 1), but is {held_out:g}")
        prompts = self.prompts
        names = prompts.unique()
        if len(names) < _FEW_PROMPTS:
            prompts = names = torch.arange(len(self))
        generator = torch.Generator().manual_seed(self.manifest.seed)
        count = round(held_out * len(names))
        chosen = names[torch.randperm(len(names), generator=generator)[:count]]
        mask = torch.isin(prompts, chosen)
        return (~mask).nonzero().flatten(), mask.nonzero().flatten()

    def facts(self) -> Mapping[str, Any]:
        """Return the manifest as plain data."""
        return {**asdict(self.manifest), "eos_ids": list(self.manifest.eos_ids)}

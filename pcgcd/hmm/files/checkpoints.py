"""Models in folders: ``model.safetensors`` and ``config.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from pcgcd.basics.files import whole_folder, write_text
from pcgcd.basics.packages import package
from pcgcd.errors import CheckpointError, InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm.copying import Copying
from pcgcd.hmm.files.formats import read_foreign
from pcgcd.hmm.files.storage import Encoded, decode, dtype_name, encode
from pcgcd.hmm.files.tensor_files import checksum, read_tensors, write_tensors
from pcgcd.hmm.hmm import HMM, MonarchHMM
from pcgcd.hmm.model import HiddenMarkovModel

_FORMAT, _VERSION = "pcgcd hmm", 1
_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_KINDS: dict[str, type[HiddenMarkovModel]] = {"dense": HMM, "monarch": MonarchHMM}
_SCALE = "emission."
_COPYING = ("rates", "weights")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


class VocabularyLike(Protocol):
    """What is asked of a :class:`pcgcd.Vocabulary`."""

    @property
    def fingerprint(self) -> str:
        """A hash of the vocabulary."""

    @property
    def logits_size(self) -> int:
        """The width of the logits."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a text."""


@dataclass(frozen=True)
class CheckpointInfo:
    """What a folder says about its model."""

    kind: str  # "dense" or "monarch"
    num_hidden: int  # H
    vocab_size: int  # V
    dtype: str  # the floating type of the parameters
    emission_dtype: str  # how the emission is stored
    vocabulary: str | None  # the fingerprint of the vocabulary, if it is known
    eos_ids: tuple[int, ...]  # the tokens that end a text, as far as known
    facts: Mapping[str, Any] = field(default_factory=dict)  # how the model was made


def save_hmm(
    hmm: HiddenMarkovModel,
    folder: str | os.PathLike[str],
    *,
    emission_dtype: torch.dtype | str | None = None,
    vocabulary: VocabularyLike | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model to a folder, which appears complete or not at all.

    Args:
        hmm: The model.
        folder: Where to. If it exists, its model is replaced and its other files are kept.
        emission_dtype: float32, float16, bfloat16 or int8, see :func:`storage_error`; by default
            the type that it has.
        vocabulary: What the tokens stand for; reading with another one then is an error.
        facts: Anything about how the model was made that JSON can hold.

    Returns:
        The folder.
    """
    if vocabulary is not None and vocabulary.logits_size != hmm.vocab_size:
        raise VocabularyMismatchError(
            f"the model emits {hmm.vocab_size} tokens, but the vocabulary has "
            f"{vocabulary.logits_size}; are they for one language model?"
        )
    kind = next((name for name, kind in _KINDS.items() if isinstance(hmm, kind)), None)
    if kind is None:
        raise InvalidParameterError(
            f"only an HMM or a MonarchHMM can be saved, but this is a {type(hmm).__name__}"
        )
    encoded = encode(hmm.emission, dtype_name(emission_dtype, hmm.emission.dtype))
    scales = dict(encoded.tensors)
    tensors = {"initial": hmm.initial, **dict(zip(hmm.factor_names, hmm.transition_factors))}
    tensors["emission"] = scales.pop("emission")
    tensors |= {_SCALE + name: scale for name, scale in scales.items()}
    if hmm.copying is not None:
        tensors |= {f"copying.{name}": getattr(hmm.copying, name) for name in _COPYING}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    config = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": kind,
        "num_hidden": hmm.num_hidden,
        "vocab_size": hmm.vocab_size,
        "dtype": str(hmm.emission.dtype).removeprefix("torch."),
        "emission": {"dtype": encoded.dtype, "encoding": encoded.encoding},
        "vocabulary": None if vocabulary is None else vocabulary.fingerprint,
        "eos_ids": [] if vocabulary is None else sorted(map(int, vocabulary.eos_ids)),
        "facts": dict(facts or {}),
        "checksum": checksum(tensors),
    }
    try:
        text = json.dumps(config, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"facts must be what JSON can hold: {error}") from error
    return _write(Path(folder), tensors, text)


def _write(folder: Path, tensors: dict[str, Tensor], config: str) -> Path:
    # Until both files are there, the checksums differ, and nobody reads a mixture.
    with nullcontext(folder) if folder.exists() else whole_folder(folder) as place:
        metadata = {"format": "pt", "checksum": json.loads(config)["checksum"]}
        write_tensors(place / _WEIGHTS, tensors, metadata)
        write_text(place / _CONFIG, config)
    return folder


def load_hmm(
    source: str | os.PathLike[str],
    *,
    vocabulary: VocabularyLike | str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    verify: bool = True,
) -> HiddenMarkovModel:
    """Read a model: ours, Ctrl-G's or a Monarch one, recognised by the names of its tensors.

    Args:
        source: A folder, a safetensors file, or the id of a repository on the Hugging Face hub.
        vocabulary: The vocabulary that the model must be for, or its fingerprint.
        dtype: The floating type of the parameters; by default the one they were saved with,
            float32 for other formats.
        device: Where to.
        verify: Compare the checksum of our own format.

    Raises:
        CheckpointError: There is no model, or it is truncated, foreign or inconsistent.
        VocabularyMismatchError: It is for another vocabulary.
    """
    weights, config = _files(source)
    if config.get("format") == _FORMAT:
        info = _info(config)
        _check_vocabulary(info.vocabulary, info.vocab_size, vocabulary)
        tensors, metadata = read_tensors(weights)
        hmm = _read_own(tensors, metadata, info, config, dtype, verify)
    else:
        tensors, _ = read_tensors(weights)
        hmm = read_foreign(tensors, config, dtype or torch.float32)
        _check_vocabulary(None, hmm.vocab_size, vocabulary)
    return hmm if device is None else hmm.to(device)


def read_info(source: str | os.PathLike[str]) -> CheckpointInfo:
    """What a folder in our format says about its model, without reading the model."""
    return _info(_files(source)[1])


def _info(config: Mapping[str, Any]) -> CheckpointInfo:
    try:
        if config["format"] != _FORMAT or config["kind"] not in _KINDS:
            raise ValueError(f"format {config['format']!r}, kind {config.get('kind')!r}")
        if config["version"] > _VERSION:
            raise CheckpointError(
                f"the model is in version {config['version']} of the format, but this library "
                f"reads up to version {_VERSION}; update it"
            )
        return CheckpointInfo(
            kind=config["kind"],
            num_hidden=int(config["num_hidden"]),
            vocab_size=int(config["vocab_size"]),
            dtype=dtype_name(config["dtype"], torch.float32),
            emission_dtype=dtype_name(config["emission"]["dtype"], torch.float32),
            vocabulary=config["vocabulary"],
            eos_ids=tuple(map(int, config["eos_ids"])),
            facts=config["facts"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{_CONFIG} does not describe a model in our format ({error!r}); it is damaged, or of "
            "another kind"
        ) from error


def _read_own(
    tensors: dict[str, Tensor],
    metadata: Mapping[str, str],
    info: CheckpointInfo,
    config: Mapping[str, Any],
    dtype: torch.dtype | None,
    verify: bool,
) -> HiddenMarkovModel:
    expected = config.get("checksum")
    if metadata.get("checksum") != expected or (verify and checksum(tensors) != expected):
        raise CheckpointError(
            f"{_WEIGHTS} and {_CONFIG} are not of one model, or bytes have changed (the checksums "
            "differ): saving was interrupted, or the file is damaged; save or download it again"
        )
    own = dtype or getattr(torch, info.dtype)
    names = [name for name in tensors if name.startswith(_SCALE)]
    scales = {name.removeprefix(_SCALE): tensors[name] for name in names}
    try:
        stored = {"emission": tensors["emission"], **scales}
        encoded = Encoded(info.emission_dtype, config["emission"]["encoding"], stored)
        emission = decode(encoded, own)
        kind = _KINDS[info.kind]
        factors = [tensors[name].to(own, copy=True) for name in kind.factor_names]
        copying = None
        if f"copying.{_COPYING[0]}" in tensors:
            copying = Copying(*(tensors[f"copying.{name}"].to(own, copy=True) for name in _COPYING))
        initial = tensors["initial"].to(own, copy=True)
        hmm = kind(initial, *factors, emission, copying=copying)
    except (KeyError, IndexError, RuntimeError, InvalidParameterError) as error:
        raise CheckpointError(f"the stored tensors do not make a model: {error}") from error
    if (hmm.num_hidden, hmm.vocab_size) != (info.num_hidden, info.vocab_size):
        raise CheckpointError(
            f"{_CONFIG} says {info.num_hidden} hidden states and {info.vocab_size} tokens, but the "
            f"tensors have {hmm.num_hidden} and {hmm.vocab_size}"
        )
    return hmm


def _check_vocabulary(
    known: str | None, vocab_size: int, wanted: VocabularyLike | str | None
) -> None:
    if wanted is None:
        return
    fingerprint = wanted if isinstance(wanted, str) else wanted.fingerprint
    if not isinstance(wanted, str) and wanted.logits_size != vocab_size:
        raise VocabularyMismatchError(
            f"the model emits {vocab_size} tokens, but the vocabulary has {wanted.logits_size}; "
            "use a model that was distilled for this language model"
        )
    if known is not None and known != fingerprint:
        raise VocabularyMismatchError(
            f"the model was made for the vocabulary {known[:12]}…, but is asked for with "
            f"{fingerprint[:12]}…: the same ids stand for other tokens"
        )


def _files(source: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    """The file of the tensors, and what is in the config beside it."""
    path = Path(source)
    if not path.exists():
        path = _from_hub(str(source))
    weights = path if path.is_file() else path / _WEIGHTS
    if not weights.exists():
        found = sorted(path.glob("*.safetensors"))
        if len(found) != 1:
            advice = f"expected {_WEIGHTS}"
            if any(list(path.glob(pattern)) for pattern in _PICKLES):
                advice = "its weights are pickled, which can run code when read: convert them to "
                advice += "safetensors"
            raise CheckpointError(f"there is no model in the folder {path.name!r}; {advice}")
        weights = found[0]
    if weights.suffix != ".safetensors":
        raise CheckpointError(
            f"models are read from safetensors files only, but {weights.name} is none; pickles can "
            "run code when read: convert it"
        )
    config = weights.parent / _CONFIG
    if not config.exists():
        return weights, {}
    try:
        read = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{_CONFIG} cannot be read ({error}); it is damaged") from error
    if not isinstance(read, dict):
        raise CheckpointError(f"{_CONFIG} must hold an object, but holds {type(read).__name__}")
    return weights, read


def _from_hub(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise CheckpointError(
            f"there is no folder or file {name!r}, and it is no id of the form owner/name either"
        )
    hub = package("huggingface_hub", f"{name!r} is no folder here; reading it from the hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=[_CONFIG, "*.safetensors"]))
    except Exception as error:  # the hub's client raises errors of many libraries
        raise CheckpointError(
            f"{name!r} is no folder here, and could not be had from the hub ({error})"
        ) from error

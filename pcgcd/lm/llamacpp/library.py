"""llama.cpp itself: the library, and a model that it has loaded."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from pcgcd.basics.files import whole_folder
from pcgcd.basics.packages import package
from pcgcd.errors import CheckpointError, InvalidParameterError

# The numbers that GGUF gives to the types of weights that a file can be converted to.
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}
# Attributes of tokens: those that are no text.
_UNKNOWN, _UNUSED, _CONTROL = 1, 2, 8


def library() -> Any:
    """The module ``llama_cpp``, ready for use.

    Raises:
        MissingDependencyError: It is not installed.
    """
    module = package("llama_cpp", "LlamaCpp", "use TransformersLM")
    log = logging.getLogger("llama-cpp-python")
    if log.level == logging.NOTSET:  # then it would print every detail of loading
        log.setLevel(logging.CRITICAL)
    module.llama_backend_init()
    return module


class LoadedModel:
    """A GGUF file in memory, and its tokenizer. Freed when nothing refers to it any more."""

    def __init__(self, path: Path, gpu_layers: int | None) -> None:
        """Load the file.

        Raises:
            CheckpointError: There is no such file, or it holds no model that generates text.
        """
        self.lib = lib = library()
        self.path = path
        if not path.is_file():
            raise CheckpointError(f"there is no file {path}; give the path of a GGUF file")
        options = lib.llama_model_default_params()
        if gpu_layers is not None:
            options.n_gpu_layers = gpu_layers
        self.pointer = lib.llama_model_load_from_file(str(path).encode(), options)
        if not self.pointer:
            raise CheckpointError(
                f"llama.cpp cannot read {path}; it may be truncated, no GGUF file, or of an "
                "architecture that this version of llama-cpp-python does not know"
            )
        weakref.finalize(self, lib.llama_model_free, self.pointer).atexit = False
        if lib.llama_model_has_encoder(self.pointer) or not lib.llama_model_has_decoder(
            self.pointer
        ):
            raise CheckpointError(
                f"{path} holds a model with an encoder, not a causal language model; give another"
            )
        self.vocab = lib.llama_model_get_vocab(self.pointer)
        self.num_tokens = int(lib.llama_vocab_n_tokens(self.vocab))
        self.max_length = int(lib.llama_model_n_ctx_train(self.pointer))
        # A running state cannot be cut back to a prefix.
        self.is_recurrent = bool(
            lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer)
        )

    def metadata(self, key: str) -> str | None:
        """What the file says about a key, as text; None if nothing."""
        name = key.encode()
        size = self.lib.llama_model_meta_val_str(
            self.pointer, name, ctypes.create_string_buffer(1), 1
        )
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        self.lib.llama_model_meta_val_str(self.pointer, name, buffer, size + 1)
        return buffer.value.decode("utf-8", "replace")

    # -- the tokenizer ------------------------------------------------------------------------

    def token_bytes(self) -> list[bytes | None]:
        """The bytes of each token; None for those that are no text."""
        no_text = _UNKNOWN | _UNUSED | _CONTROL
        return [
            None
            if self.lib.llama_vocab_get_attr(self.vocab, token) & no_text
            else self._piece(token)
            for token in range(self.num_tokens)
        ]

    def end_ids(self) -> list[int]:
        """The tokens that end a text or a turn of a chat; those of infilling are no ends."""
        lib, vocab = self.lib, self.vocab
        infilling = {
            getattr(lib, f"llama_vocab_fim_{part}")(vocab)
            for part in ("pre", "suf", "mid", "pad", "rep", "sep")
        }
        return [
            token
            for token in range(self.num_tokens)
            if lib.llama_vocab_is_eog(vocab, token) and token not in infilling
        ]

    def first_id(self) -> int | None:
        """The token that begins a text."""
        found = int(self.lib.llama_vocab_bos(self.vocab))
        return found if found >= 0 else None

    def text_of(self, token: int | None) -> str:
        """How a token, special ones included, is written in a chat template."""
        if token is None or token < 0:
            return ""
        return str(self.lib.llama_vocab_get_text(self.vocab, token).decode("utf-8", "replace"))

    def tokenize(self, text: str, *, add_special: bool) -> list[int]:
        """The tokens of a text, in which special tokens are recognised."""
        data = text.encode()
        size = len(data) + 2
        while True:
            found = (ctypes.c_int32 * size)()
            count = self.lib.llama_tokenize(
                self.vocab, data, len(data), found, size, add_special, True
            )
            if count >= 0:
                return list(found[:count])
            size = -count

    def _piece(self, token: int) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = self.lib.llama_token_to_piece(self.vocab, token, buffer, size, 0, False)
            if count >= 0:
                return bytes(buffer.raw[:count])
            size = -count


def converted(path: Path, dtype: str, cache: Path) -> Path:
    """The file with its weights in another type, made once and kept in a folder.

    Raises:
        InvalidParameterError: The type is unknown.
        CheckpointError: The file cannot be read, or the folder cannot be written.
    """
    if dtype not in FILE_TYPES:
        raise InvalidParameterError(
            f"dtype must be None (as stored) or one of {', '.join(FILE_TYPES)}, but {dtype!r} was "
            "given"
        )
    lib = library()
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}; give the path of a GGUF file")
    stat = path.stat()
    mark = f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()
    folder = cache / "gguf" / f"{path.stem}-{hashlib.sha256(mark).hexdigest()[:12]}-{dtype}"
    target = folder / path.name
    if not target.is_file():
        try:
            with whole_folder(folder) as temporary:
                _convert(lib, path, temporary / path.name, FILE_TYPES[dtype])
        except OSError as error:
            if not target.is_file():  # nobody else was faster
                raise CheckpointError(
                    f"{path} cannot be converted to {dtype}: {error}; use the file as it is stored "
                    "(dtype=None), or name another folder in the environment variable PCGCD_CACHE"
                ) from error
    return target


def _convert(lib: Any, source: Path, target: Path, file_type: int) -> None:
    options = lib.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize, options.nthread = file_type, True, 1
    if lib.llama_model_quantize(str(source).encode(), str(target).encode(), options) != 0:
        raise CheckpointError(
            f"llama.cpp cannot convert {source}; it may be truncated, or no GGUF file"
        )


def as_array(pointer: Any, count: int) -> np.ndarray[Any, Any]:
    """A view of memory that llama.cpp owns."""
    return np.ctypeslib.as_array(pointer, shape=(count,))

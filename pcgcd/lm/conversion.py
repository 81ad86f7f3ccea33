"""Language models stored as GGUF, converted once into a folder that transformers reads.

The tensors are dequantised to float32 one by one; the configuration and the tokenizer are made from
the file's own description. Supported is what the default model needs: the Llama architecture, and
byte-level BPE.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.files import whole_folder
from pcgcd.basics.packages import package
from pcgcd.errors import CheckpointError

_LOGGER = logging.getLogger(__name__)
_CONTENTS = "pcgcd_contents.json"
_STALE_AFTER = 3600.0  # seconds; a conversion takes less than a minute
_PLAIN, _CONTROL, _USER_DEFINED = 1, 3, 4  # types of tokens

_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOKENIZER = "tokenizer.ggml.model"
_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
# The pre-tokenizers that are known, by their name in the file: does one split off every digit?
_SINGLE_DIGITS = {"smollm": True, "gpt-2": False, "default": False}


def convert_gguf(source: Path, folder: Path) -> Path:
    """Write the model of a GGUF file into a folder, all of it or nothing.

    A folder that is there and complete is left as it is; one that is not is replaced.

    Args:
        source: The GGUF file.
        folder: Where ``AutoModelForCausalLM`` and ``AutoTokenizer`` will read it.

    Returns:
        The folder.

    Raises:
        CheckpointError: The file is truncated, is no GGUF, or holds another kind of model; or the
            folder cannot be written.
        MissingDependencyError: The packages ``gguf`` or ``transformers`` are not installed.
    """
    if is_complete(folder):
        return folder
    description, tensors = _read(source)
    _LOGGER.info("converting %s into %s, once", source.name, folder)
    with _written_at_once(folder) as temporary:
        _write_weights(description, tensors, temporary)
        tied = all(tensor.name != "output.weight" for tensor in tensors)
        _write_config(description, tied, temporary)
        _write_tokenizer(description, temporary)
    return folder


def is_complete(folder: Path) -> bool:
    """Return whether a converted model is there, with every file in its full size."""
    try:
        sizes = json.loads((folder / _CONTENTS).read_text())
        return bool(sizes) and all(
            (folder / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def _written_at_once(folder: Path) -> Iterator[Path]:
    """A temporary folder beside the given one, which it becomes when the block ends well."""
    try:
        _remove_stale(folder)
        with whole_folder(folder) as temporary:
            yield temporary
            sizes = {path.name: path.stat().st_size for path in temporary.iterdir()}
            (temporary / _CONTENTS).write_text(json.dumps(sizes, indent=1))
            if folder.exists() and not is_complete(folder):
                broken = temporary / "broken"
                folder.rename(broken)
                shutil.rmtree(broken)
    except OSError as error:
        if is_complete(folder):  # somebody else was faster
            return
        raise CheckpointError(
            f"the converted model cannot be written to {folder}: {error}; free some space there, "
            "or name another folder in the environment variable PCGCD_CACHE"
        ) from error


def _remove_stale(folder: Path) -> None:
    """What a process that was killed half way has left behind."""
    for path in folder.parent.glob(f".{folder.name}-*"):
        if path.is_dir() and time.time() - path.stat().st_mtime > _STALE_AFTER:
            shutil.rmtree(path, ignore_errors=True)


# -- reading ----------------------------------------------------------------------------------


class _Description(dict[str, Any]):
    """The key-value part of the file."""

    source: Path

    def __missing__(self, key: str) -> Any:
        raise CheckpointError(f"{self.source} says nothing about {key}; use another GGUF file")


def _read(source: Path) -> tuple[_Description, list[Any]]:
    gguf = package("gguf", f"reading {source.name}")
    package("transformers", "converting a model")
    try:
        reader = gguf.GGUFReader(source)
        description = _Description((k, field.contents()) for k, field in reader.fields.items())
        description.source = source
        expected = description["GGUF.tensor_count"]
        ends = [int(t.data_offset) + int(t.n_bytes) for t in reader.tensors]
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise CheckpointError(
            f"{source} cannot be read as GGUF ({error}); it may be truncated: install it again"
        ) from error
    if len(ends) != expected or max(ends, default=0) > source.stat().st_size:
        raise CheckpointError(
            f"{source} should hold {expected} tensors up to byte {max(ends, default=0):,}, but has "
            f"{source.stat().st_size:,} bytes; it is truncated: install it again"
        )
    architecture, tokens = description.get("general.architecture"), description.get(_TOKENIZER)
    if architecture != "llama" or tokens != "gpt2":
        raise CheckpointError(
            f"{source} holds a {architecture!r} model with a {tokens!r} tokenizer, but only "
            "'llama' with 'gpt2' (byte-level BPE) can be converted; load it with transformers"
        )
    return description, list(reader.tensors)


# -- the three parts --------------------------------------------------------------------------


def _write_weights(description: _Description, tensors: list[Any], folder: Path) -> None:
    dequantize = package("gguf.quants", "reading GGUF").dequantize
    save_file = package("safetensors.torch", "converting a model").save_file
    heads = description["llama.attention.head_count"]
    key_heads = description.get("llama.attention.head_count_kv", heads)
    weights: dict[str, Tensor] = {}
    for tensor in tensors:
        name = _name(tensor.name, description.source)
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if "q_proj" in name or "k_proj" in name:
            # From rotary pairs that stand side by side (GGUF) to pairs half a head apart.
            pairs = values.reshape(
                heads if "q_proj" in name else key_heads, -1, 2, *values.shape[1:]
            )
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        weights[name] = torch.from_numpy(np.ascontiguousarray(values))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _name(name: str, source: Path) -> str:
    """The name of a tensor in transformers."""
    match = _LAYER_TENSOR.fullmatch(name)
    if match and match[2] in _LAYER_NAMES:
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.{match[3]}"
    if name not in _NAMES:
        raise CheckpointError(
            f"{source} has a tensor {name!r} that a Llama model does not have; load it with "
            "transformers"
        )
    return _NAMES[name]


def _write_config(description: _Description, tied: bool, folder: Path) -> None:
    transformers = package("transformers", "converting a model")
    heads = description["llama.attention.head_count"]
    ids = {
        f"{role}_token_id": description.get(f"tokenizer.ggml.{name}_token_id")
        for role, name in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
    }
    theta = description.get("llama.rope.freq_base", 10_000.0)
    config = transformers.LlamaConfig(
        vocab_size=len(description["tokenizer.ggml.tokens"]),
        hidden_size=description["llama.embedding_length"],
        intermediate_size=description["llama.feed_forward_length"],
        num_hidden_layers=description["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=description.get("llama.attention.head_count_kv", heads),
        max_position_embeddings=description["llama.context_length"],
        rms_norm_eps=description["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        **ids,
    )
    # transformers 4 reads the base of the positions elsewhere; either version may load the folder.
    config.rope_theta = theta
    config.save_pretrained(folder)
    transformers.GenerationConfig(**ids).save_pretrained(folder)


def _write_tokenizer(description: _Description, folder: Path) -> None:
    tk = package("tokenizers", "converting a tokenizer")
    transformers = package("transformers", "converting a tokenizer")
    kind = description.get("tokenizer.ggml.pre", "default")
    if kind not in _SINGLE_DIGITS:
        raise CheckpointError(
            f"{description.source} splits texts by the rules {kind!r}, but only "
            f"{', '.join(map(repr, _SINGLE_DIGITS))} are known; load it with transformers"
        )
    words: list[str] = description["tokenizer.ggml.tokens"]
    kinds: list[int] = description.get("tokenizer.ggml.token_type", [_PLAIN] * len(words))
    merges = [tuple(merge.split(" ", 1)) for merge in description["tokenizer.ggml.merges"]]
    tokenizer = tk.Tokenizer(tk.models.BPE({word: i for i, word in enumerate(words)}, merges))
    split = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if _SINGLE_DIGITS[kind]:
        digits = tk.pre_tokenizers.Digits(individual_digits=True)
        split = tk.pre_tokenizers.Sequence([digits, split])
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = tk.decoders.ByteLevel()
    for added, add in (
        (_CONTROL, tokenizer.add_special_tokens),
        (_USER_DEFINED, tokenizer.add_tokens),
    ):
        own = [word for word, k in zip(words, kinds) if k == added]
        add([tk.AddedToken(word, special=added == _CONTROL, normalized=False) for word in own])

    def word(name: str) -> str | None:
        index = description.get(f"tokenizer.ggml.{name}_token_id")
        return None if index is None else words[index]

    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=word("bos"),
        eos_token=word("eos"),
        unk_token=word("unknown"),
        pad_token=word("padding"),
        model_max_length=description["llama.context_length"],
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = description.get("tokenizer.chat_template")
    fast.save_pretrained(folder)

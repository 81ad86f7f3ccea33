"""The exact bytes of every token, read from a tokenizer's own definition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pcgcd.errors import InvalidParameterError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
_SPACE = "\u2581"


def read_tokenizer(tokenizer: Any) -> list[bytes | None]:
    """The bytes of each token id; None for special tokens and ids that are not in use.

    Args:
        tokenizer: From transformers, tokenizers, sentencepiece, tiktoken or mistral-common.

    Raises:
        InvalidParameterError: The tokenizer is of another kind, or its tokens stand for different
            bytes in different places.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        backend = getattr(tokenizer, "_tokenizer", tokenizer)
    if hasattr(backend, "to_str") and hasattr(backend, "decoder"):
        special = set(getattr(tokenizer, "all_special_ids", ()))
        return _from_definition(json.loads(backend.to_str()), special)
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return _from_ranks(tokenizer)
    if hasattr(tokenizer, "id_to_byte_piece") and hasattr(tokenizer, "n_words"):
        return [tokenizer.id_to_byte_piece(i) or None for i in range(tokenizer.n_words)]
    pieces = getattr(tokenizer, "sp_model", tokenizer)
    if hasattr(pieces, "id_to_piece") and hasattr(pieces, "is_byte"):
        return _with_additions(_from_pieces(pieces), tokenizer)
    if hasattr(tokenizer, "byte_decoder") and hasattr(tokenizer, "get_vocab"):
        special = set(getattr(tokenizer, "all_special_ids", ()))
        words = {i: word for word, i in tokenizer.get_vocab().items()}
        tokens = _listed({i: _byte_level(w) for i, w in words.items() if i not in special})
        return _with_additions(tokens, tokenizer)
    raise InvalidParameterError(
        f"cannot read the tokens of {type(tokenizer).__name__}; give a tokenizer of transformers, "
        f"tokenizers, sentencepiece or tiktoken, the vocabulary of a language model "
        f"(lm.vocabulary), or use Vocabulary.from_bytes"
    )


def eos_ids_of(tokenizer: Any, generation_config: Any = None) -> tuple[int, ...]:
    """The end-of-sequence ids that a tokenizer and a generation config name, in order."""
    found: set[int] = set()
    names = ("eos_token_id", "eot_token", "eos_id")
    values = [getattr(tokenizer, name, None) for name in names]
    if isinstance(generation_config, Mapping):
        values.append(generation_config.get("eos_token_id"))
    else:
        values.append(getattr(generation_config, "eos_token_id", None))
    for value in (value() if callable(value) else value for value in values):
        members = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        found.update(i for i in members if isinstance(i, int) and i >= 0)
    return tuple(sorted(found))


# -- the definition in JSON of the tokenizers library ------------------------------------------


def _from_definition(definition: dict[str, Any], special: set[int]) -> list[bytes | None]:
    model = definition["model"]
    vocab = model["vocab"]
    entries = vocab.items() if isinstance(vocab, dict) else [(e[0], i) for i, e in enumerate(vocab)]
    unknown = {model.get("unk_token"), model.get("unk_id")} - {None}
    no_text = special | {i for word, i in entries if word in unknown or i in unknown}
    decoders = _flat(definition.get("decoder"), "decoders")
    before = decoders or _flat(definition.get("pre_tokenizer"), "pretokenizers")
    byte_level = "ByteLevel" in {part["type"] for part in before}
    tokens: dict[int, bytes | None] = {}
    for word, i in entries:
        tokens[i] = _byte_level(word) if byte_level else _decoded(word, decoders)
    for added in definition.get("added_tokens") or ():
        i, word = added["id"], added["content"]
        if added.get("special"):
            no_text.add(i)
        else:
            tokens[i] = word.encode() if byte_level else _decoded(word, decoders)
    return _listed(tokens | dict.fromkeys(no_text))


def _flat(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """A component, or the members of a sequence of components."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [inner for member in part[name] for inner in _flat(member, name)]
    return [part]


def _decoded(word: str, decoders: list[dict[str, Any]]) -> bytes:
    """What a token stands for in the middle of a text, by the tokenizer's chain of decoders."""
    if not decoders:
        raise InvalidParameterError(
            "this tokenizer has no decoder, so its tokens are joined by spaces and have no bytes "
            "of their own; give it one (ByteLevel, Metaspace, ByteFallback), or use "
            "Vocabulary.from_bytes"
        )
    for decoder in decoders:
        kind = decoder["type"]
        if kind == "ByteFallback":
            if match := _BYTE_TOKEN.match(word):
                return bytes([int(match[1], 16)])
        elif kind == "Metaspace":
            word = word.replace(decoder.get("replacement", _SPACE), " ")
        elif kind == "Replace" and "String" in decoder["pattern"]:
            word = word.replace(decoder["pattern"]["String"], decoder["content"])
        elif kind == "Fuse" or (kind == "Strip" and decoder.get("content") == " "):
            # Both concern whole texts: the space in front of the first word.
            continue
        else:
            raise InvalidParameterError(
                f"the tokenizer's decoder {kind} gives tokens different bytes in different places; "
                f"use Vocabulary.from_bytes if you know what they stand for"
            )
    return word.encode("utf-8", "surrogatepass")


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins for the 256 bytes in byte-level BPE.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, for the
    characters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    stand_in = {chr(byte): byte for byte in sorted(printable)}
    return stand_in | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(word: str) -> bytes:
    """The bytes of a byte-level token; a word with other characters stands for itself."""
    try:
        return bytes([_ALPHABET[character] for character in word])
    except KeyError:
        return word.encode("utf-8", "surrogatepass")


# -- other libraries ---------------------------------------------------------------------------


def _from_ranks(encoding: Any) -> list[bytes | None]:
    """An Encoding of tiktoken."""
    special = set(getattr(encoding, "_special_tokens", {}).values())
    tokens: dict[int, bytes | None] = {encoding.n_vocab - 1: None}
    for i in set(range(encoding.n_vocab)) - special:
        with suppress(KeyError):
            tokens[i] = encoding.decode_single_token_bytes(i)
    return _listed(tokens)


def _from_pieces(pieces: Any) -> list[bytes | None]:
    """A SentencePieceProcessor."""
    tokens: list[bytes | None] = []
    for i in range(pieces.get_piece_size()):
        piece = pieces.id_to_piece(i)
        match = _BYTE_TOKEN.match(piece) if pieces.is_byte(i) else None
        if match:
            tokens.append(bytes([int(match[1], 16)]))
        elif pieces.is_control(i) or pieces.is_unknown(i) or pieces.is_unused(i):
            tokens.append(None)
        else:
            tokens.append(piece.replace(_SPACE, " ").encode())
    return tokens


def _with_additions(tokens: list[bytes | None], tokenizer: Any) -> list[bytes | None]:
    """Tokens with what a tokenizer of transformers added to its model."""
    listed = dict(enumerate(tokens))
    for i, added in getattr(tokenizer, "added_tokens_decoder", {}).items():
        listed[i] = None if added.special else str(added.content).encode()
    return _listed(listed)


def _listed(tokens: dict[int, bytes | None]) -> list[bytes | None]:
    return [tokens.get(i) for i in range(max(tokens, default=-1) + 1)]

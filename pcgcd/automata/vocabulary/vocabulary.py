"""The tokens of a language model, as the bytes that they stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pcgcd.automata.vocabulary.template_store import TemplateStore
from pcgcd.automata.vocabulary.token_bytes import eos_ids_of, read_tokenizer
from pcgcd.automata.vocabulary.trie import Trie
from pcgcd.basics.numbers import is_whole_number
from pcgcd.circuits.tables import table_html
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """What each token id stands for. Two vocabularies are equal if their fingerprints are.

    Attributes:
        token_bytes: The exact bytes of each token; None for ids that are no text (special tokens,
            ids that are not in use).
        eos_ids: The tokens that end a text, at least one. They are never text themselves.
        logits_size: The width V of the language model's logits. Where it is larger than the
            vocabulary, the ids in between are never allowed.

    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3)
    >>> vocabulary.decode([0, 1, 2, 3])
    b'abab'
    >>> sorted(vocabulary.tokenizations(b"ab"))
    [(0, 1), (2,)]
    """

    token_bytes: tuple[bytes | None, ...]
    eos_ids: tuple[int, ...]
    logits_size: int

    def __post_init__(self) -> None:
        if not self.token_bytes:
            raise InvalidParameterError("a vocabulary needs at least one token, but has none")
        for index, text in enumerate(self.token_bytes):
            if text is not None and type(text) is not bytes:
                raise InvalidParameterError(
                    f"each token must be bytes, or None where it is no text, but token {index} is "
                    f"{text!r}; encode strings as UTF-8 first"
                )
        if not self.eos_ids:
            raise InvalidParameterError(
                "a vocabulary needs at least one end-of-sequence token: give eos_ids"
            )
        wrong = [i for i in self.eos_ids if not 0 <= i < self.size]
        if wrong:
            raise VocabularyMismatchError(
                f"end-of-sequence ids must lie in 0..{self.size - 1}, but {wrong[:5]} were given"
            )
        if self.logits_size < self.size:
            raise VocabularyMismatchError(
                f"the logits must be at least as wide as the vocabulary, but logits_size is "
                f"{self.logits_size} and there are {self.size} token ids; is this the tokenizer "
                f"of that model?"
            )

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def from_bytes(
        cls,
        token_bytes: Iterable[bytes | None],
        eos_ids: int | Iterable[int],
        *,
        logits_size: int | None = None,
    ) -> Vocabulary:
        """A vocabulary from the bytes of each token.

        Args:
            token_bytes: The bytes of token 0, 1, ...; None for ids that are no text.
            eos_ids: The token, or the tokens, that end a text.
            logits_size: The width of the logits, if wider.
        """
        if not isinstance(token_bytes, Iterable):
            raise InvalidParameterError(
                f"the tokens must be a list of bytes, but {type(token_bytes).__name__} was given"
            )
        tokens = tuple(token_bytes)
        size = len(tokens) if logits_size is None else logits_size
        if not is_whole_number(size):
            raise InvalidParameterError(
                f"logits_size must be a whole number, but {type(size).__name__} was given"
            )
        return cls(tokens, _ids(eos_ids), int(size))

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        eos_ids: int | Iterable[int] | None = None,
        logits_size: int | None = None,
        generation_config: Any = None,
    ) -> Vocabulary:
        """The vocabulary of a tokenizer.

        How tokens spell bytes (the byte alphabet of GPT-2, SentencePiece with byte fallback,
        ranks of bytes) is read from the tokenizer's own definition, never guessed from its name.

        Args:
            tokenizer: A tokenizer of transformers, of tokenizers, a SentencePieceProcessor, or an
                Encoding of tiktoken.
            eos_ids: The tokens that end a text; by default what the tokenizer, and the generation
                config if one is given, say.
            logits_size: The width of the language model's logits (``model.config.vocab_size``), if
                wider than the vocabulary.
            generation_config: Where else to look for end-of-sequence ids (``eos_token_id``).

        Raises:
            InvalidParameterError: No exact bytes can be given to its tokens, or no
                end-of-sequence token is known.
        """
        tokens = read_tokenizer(tokenizer)
        ends = eos_ids_of(tokenizer, generation_config) if eos_ids is None else _ids(eos_ids)
        if not ends:
            raise InvalidParameterError(
                f"{type(tokenizer).__name__} names no end-of-sequence token; give eos_ids"
            )
        return cls.from_bytes(tokens, ends, logits_size=logits_size)

    # -- what is in it ------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of token ids."""
        return len(self.token_bytes)

    @cached_property
    def fingerprint(self) -> str:
        """A hash (sha256, hexadecimal) of everything that a compiled constraint depends on."""
        lengths = [-1 if text is None else len(text) for text in self.token_bytes]
        digest = hashlib.sha256(b"pcgcd vocabulary 1")
        header = [self.size, self.logits_size, len(self.eos_ids), *self.eos_ids]
        digest.update(np.array(header, dtype="<i8").tobytes())
        digest.update(np.array(lengths, dtype="<i8").tobytes())
        digest.update(b"".join(text for text in self.token_bytes if text))
        return digest.hexdigest()

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all tokens that are text: not empty, not special, not EOS."""
        ends = set(self.eos_ids)
        ids = [i for i, text in enumerate(self.token_bytes) if text and i not in ends]
        return Trie.from_tokens([self.token_bytes[i] or b"" for i in ids], ids)

    @cached_property
    def templates(self) -> TemplateStore:
        """Walks over the trie that liftings share."""
        return TemplateStore()

    @cached_property
    def ids_of(self) -> dict[bytes, tuple[int, ...]]:
        """The ids that spell each byte string."""
        result: dict[bytes, list[int]] = {}
        for index in sorted(self.trie.token.tolist()):
            result.setdefault(self.token_bytes[index] or b"", []).append(index)
        return {text: tuple(ids) for text, ids in result.items()}

    @cached_property
    def used_bytes(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which bytes occur in some token, (256,)."""
        words = self.trie.nodes.below[0].astype("<u8")
        return np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)

    @cached_property
    def single_bytes(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which bytes are tokens by themselves, (256,)."""
        alone = {self.token_bytes[i] for i in self.trie.token.tolist()}
        return np.array([bytes([byte]) in alone for byte in range(256)])

    @property
    def spells_every_byte(self) -> bool:
        """Whether each of the 256 bytes is a token, so that any text can be spelled."""
        return bool(self.single_bytes.all())

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes that the tokens spell; those that are no text spell nothing."""
        ends = set(self.eos_ids)
        return b"".join(
            self.token_bytes[i] or b"" for i in map(self._checked, ids) if i not in ends
        )

    def tokenizations(self, text: bytes | str) -> Iterator[tuple[int, ...]]:
        """Every sequence of tokens that spells the text. There are exponentially many."""
        data = text.encode() if isinstance(text, str) else bytes(text)

        def rest(start: int) -> Iterator[tuple[int, ...]]:
            if start == len(data):
                yield ()
            for stop in range(start + 1, min(len(data), start + self.trie.max_depth) + 1):
                for token in self.ids_of.get(data[start:stop], ()):
                    for tail in rest(stop):
                        yield (token, *tail)

        return rest(0)

    def greedy(self, text: bytes | str) -> tuple[int, ...]:
        """A sequence of tokens that spells the text: the longest token first, from the left.

        Raises:
            VocabularyMismatchError: At some place no token fits.
        """
        data = text.encode() if isinstance(text, str) else bytes(text)
        result: list[int] = []
        start = 0
        while start < len(data):
            for stop in range(min(len(data), start + self.trie.max_depth), start, -1):
                ids = self.ids_of.get(data[start:stop])
                if ids:
                    result.append(ids[0])
                    start = stop
                    break
            else:
                raise VocabularyMismatchError(
                    f"no token of the vocabulary starts {data[start : start + 8]!r} (byte {start} "
                    f"of the text); the vocabulary cannot spell every text"
                )
        return tuple(result)

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.logits_size:
            raise VocabularyMismatchError(
                f"token ids must lie in 0..{self.logits_size - 1}, but {token} was given"
            )
        return int(token) if token < self.size else self.eos_ids[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _repr_html_(self) -> str:
        """Sizes, ends, and a few tokens."""
        longest = max(self.ids_of, key=len, default=b"")
        middle = self.trie.token[:: max(1, len(self.trie.token) // 8)].tolist()[:8]
        rows = [
            ("token ids", f"{self.size:,}"),
            ("of them text", f"{len(self.trie.token):,}"),
            ("width of the logits", f"{self.logits_size:,}"),
            ("end of sequence", ", ".join(map(str, self.eos_ids))),
            ("spells every byte", "yes" if self.spells_every_byte else "no"),
            ("longest token", f"{longest[:40]!r} ({len(longest)} bytes)"),
            ("some tokens", "  ".join(f"{i}: {self.token_bytes[i]!r:.24}" for i in middle)),
        ]
        return table_html("Vocabulary", (), rows)

    def __repr__(self) -> str:
        return (
            f"Vocabulary({self.size} tokens, {len(self.trie.token)} of them text, "
            f"EOS {', '.join(map(str, self.eos_ids))}, logits {self.logits_size})"
        )


def _ids(ids: int | Iterable[int]) -> tuple[int, ...]:
    values: Sequence[int] = list(ids) if isinstance(ids, Iterable) else [ids]
    for value in values:
        if not is_whole_number(value):
            raise InvalidParameterError(
                f"token ids must be whole numbers, but {value!r:.60} was given"
            )
    return tuple(sorted({int(value) for value in values}))

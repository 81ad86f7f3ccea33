"""The three engines beside us, each behind the same few methods (see engines_worker.Engine).

Runs in the peers' environment; each engine is imported when it is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np


def encoder(definition: str, tokens: list[bytes | None]) -> Callable[[str], list[int]]:
    """How a text is usually cut into tokens: a definition for tokenizers, or tiktoken's pattern."""
    if definition.startswith("{"):
        from tokenizers import Tokenizer

        made = Tokenizer.from_str(definition)
        return lambda text: made.encode(text).ids
    from tiktoken import Encoding

    ranks = {text: i for i, text in enumerate(tokens) if text}
    encoding = Encoding("ranks", pat_str=definition, mergeable_ranks=ranks, special_tokens={})
    return encoding.encode_ordinary


class _Bits:
    """A packed mask of one row, and how to read it."""

    def __init__(self, vocab_size: int, batch: int = 1) -> None:
        self.words = np.zeros((batch, (vocab_size + 31) // 32), dtype=np.int32)

    def allows(self, token: int) -> bool:
        return bool(int(self.words[0, token >> 5]) >> (token & 31) & 1)


class XGrammar:
    """One thread, no cache of whole grammars, since every schema is new."""

    def __init__(
        self, tokens: list[bytes | None], eos: int, whitespace: str, definition: str
    ) -> None:
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.library, self.torch = xgrammar, torch
        words = [text or b"" for text in tokens]
        self.info = xgrammar.TokenizerInfo(
            words, xgrammar.VocabType.RAW, vocab_size=len(words), stop_token_ids=[eos]
        )
        self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        self.options: dict[str, Any] = (
            {"any_whitespace": False, "separators": (",", ":")}
            if whitespace == "compact"
            else {"any_whitespace": True}
        )
        self.bits = _Bits(len(words))
        self.mask_tensor = torch.from_numpy(self.bits.words)
        self.version = metadata.version("xgrammar")

    def compile(self, schema: dict[str, Any]) -> Any:
        return self.compiler.compile_json_schema(json.dumps(schema), **self.options)

    def compile_within(self, schema: dict[str, Any], budget: int) -> Any:
        """With XGrammar's own limit of tokens for the whole text; one more token ends it."""
        grammar = self.library.Grammar
        text = str(grammar.from_json_schema(json.dumps(schema), **self.options))
        limited = re.sub("^root ::=", f"root[max_tokens={budget - 1}] ::=", text, flags=re.M)
        if limited == text:
            raise ValueError("the grammar of this schema has no rule root")
        return self.compiler.compile_grammar(grammar.from_ebnf(limited))

    def matcher(self, compiled: Any) -> Any:
        return self.library.GrammarMatcher(compiled)

    def mask(self, matcher: Any, remaining: int) -> None:
        matcher.fill_next_token_bitmask(self.mask_tensor)

    def allows(self, token: int) -> bool:
        return self.bits.allows(token)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.accept_token(token)

    def own_bytes(self, compiled: Any) -> int | None:
        return int(compiled.memory_size_bytes)

    def prepare_batch(self, matchers: list[Any]) -> Any:
        rows = np.zeros((len(matchers), self.bits.words.shape[1]), dtype=np.int32)
        batch = self.library.BatchGrammarMatcher(max_threads=1)
        return batch, matchers, self.torch.from_numpy(rows)

    def mask_batch(self, prepared: Any, remaining: int) -> None:
        batch, matchers, tensor = prepared
        batch.batch_fill_next_token_bitmask(matchers, tensor)


class LLGuidance:
    """Lazy: a grammar is an automaton that is made while it is walked."""

    def __init__(
        self, tokens: list[bytes | None], eos: int, whitespace: str, definition: str
    ) -> None:
        import llguidance

        class Words:
            """Where the next bytes are certain, this engine allows their usual tokens only."""

            eos_token_id, bos_token_id = eos, None

            def __init__(self) -> None:
                self.tokens = [text or f"<|{i}|>".encode() for i, text in enumerate(tokens)]
                self.special_token_ids = [i for i, text in enumerate(tokens) if text is None]
                self.encode = encoder(definition, tokens)

            def __call__(self, text: str) -> list[int]:
                if not isinstance(text, str):
                    raise TypeError("this tokenizer encodes strings")
                return self.encode(text)

        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Words()))
        self.options = {"whitespace_flexible": whitespace != "compact"}
        self.bits = _Bits(len(tokens))
        self.executor: Any = None
        self.version = metadata.version("llguidance")

    def compile(self, schema: dict[str, Any]) -> Any:
        grammar = self.library.LLMatcher.grammar_from_json_schema(schema, overrides=self.options)
        matcher = self.library.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def matcher(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def mask(self, matcher: Any, remaining: int) -> None:
        words = self.bits.words
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)

    def allows(self, token: int) -> bool:
        return self.bits.allows(token)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.consume_token(token)

    def own_bytes(self, compiled: Any) -> int | None:
        return None

    def prepare_batch(self, matchers: list[Any]) -> Any:
        rows = np.zeros((len(matchers), self.bits.words.shape[1]), dtype=np.int32)
        executor = self.library.LLExecutor(num_threads=1)
        return executor, [(matcher, row) for row, matcher in enumerate(matchers)], rows

    def mask_batch(self, prepared: Any, remaining: int) -> None:
        executor, pairs, rows = prepared
        executor.unsafe_compute_mask_ptr(pairs, rows.ctypes.data, 4 * rows.shape[1], len(rows))


class Outlines:
    """A table of all states and tokens, from the regular expression of the schema."""

    def __init__(
        self, tokens: list[bytes | None], eos: int, whitespace: str, definition: str
    ) -> None:
        import outlines_core

        self.library = outlines_core
        numbers: dict[bytes, list[int]] = {}
        for i, text in enumerate(tokens):
            if text:
                numbers.setdefault(text, []).append(i)
        self.vocabulary = outlines_core.Vocabulary(eos, numbers)
        self.options = {"whitespace_pattern": "" if whitespace == "compact" else r"[ \n\t\r]*"}
        self.bits = _Bits(len(tokens))
        self.version = metadata.version("outlines_core")

    def compile(self, schema: dict[str, Any]) -> Any:
        pattern = self.library.json_schema.build_regex_from_schema(
            json.dumps(schema), **self.options
        )
        return self.library.Index(pattern, self.vocabulary)

    def matcher(self, compiled: Any) -> Any:
        return self.library.Guide(compiled)

    def mask(self, matcher: Any, remaining: int) -> None:
        words = self.bits.words
        matcher.write_mask_into(words.ctypes.data, words.size, words.itemsize)

    def allows(self, token: int) -> bool:
        return self.bits.allows(token)

    def advance(self, matcher: Any, token: int) -> None:
        matcher.advance(token, return_tokens=False)

    def own_bytes(self, compiled: Any) -> int | None:
        return None

    def transitions(self, compiled: Any) -> int:
        return sum(len(row) for row in compiled.get_transitions().values())


ENGINES = {"xgrammar": XGrammar, "llguidance": LLGuidance, "outlines-core": Outlines}

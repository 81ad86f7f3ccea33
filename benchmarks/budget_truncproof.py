"""TruncProof (arXiv 2605.13076) behind the methods that budget_worker.py asks for.

It knows a grammar of JSON and the budget, but no schema: what it writes is JSON that is complete
in time, valid or not. PyPI does not have it; install a checkout of Yosshi999/TruncProof with
``pip install --no-deps`` beside ``lark==1.2.2 interegular==0.3.3 transformers==4.51.3 scipy``.

The constraint is built when the worker starts, once for all schemas (half a minute for 49,152
tokens), in a temporary folder: its own cache is named after the class of the tokenizer, not after
the tokens, and would mistake one model for another.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from engines_peers import _Bits

# RFC 8259, with the sign in the digits. A number is up to three terminals, since the lexer does not
# go back behind one that it has read: what a point or an e begins must be a terminal of its own.
_GRAMMAR = r"""
start: value
value: "false" | "null" | "true" | object | array | number | TEXT
object: LEFT_BRACE members? RIGHT_BRACE
members: pair (COMMA pair)*
pair: TEXT COLON value
array: LEFT_BRACKET items? RIGHT_BRACKET
items: value (COMMA value)*
number: DIGITS FRACTION? EXPONENT?

LEFT_BRACE: /<space>\{<space>/
RIGHT_BRACE: /<space>\}<space>/
LEFT_BRACKET: /<space>\[<space>/
RIGHT_BRACKET: /<space>\]<space>/
COLON: /<space>:<space>/
COMMA: /<space>,<space>/
DIGITS: /-?(0|[1-9][0-9]*)/
FRACTION: /\.[0-9]+/
EXPONENT: /[eE][-+]?[0-9]+/
TEXT: /"(\\([bfnrt"\/\\]|u[0-9a-fA-F]{4})|[^\x00-\x1f"\\])*"/
"""


def grammar(whitespace: str) -> str:
    """JSON as an LL(1) grammar of lark, without a space between tokens or with any."""
    return _GRAMMAR.replace("<space>", "" if whitespace == "compact" else r"[ \t\n\r]*")


class _Words:
    """What TruncProof asks of a tokenizer; a token that is not text decodes to a name."""

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self.tokens = tokens

    def get_vocab(self) -> dict[str, int]:
        return {str(i): i for i in range(len(self.tokens))}

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        found = ((i, self.tokens[i]) for i in ids)
        return b"".join(
            (b"" if skip_special_tokens else b"<|%d|>" % i) if text is None else text
            for i, text in found
        ).decode("utf-8", "replace")

    def convert_ids_to_tokens(self, token: int) -> str:
        """Return no mark of SentencePiece: the bytes have the space itself."""
        return ""


class _Text(NamedTuple):
    budget: int
    ids: list[int]


class TruncProof:
    """Allow a token if the cheapest end after it fits, as its ``GrammarLogitsProcessor`` does."""

    def __init__(
        self, tokens: list[bytes | None], eos: int, whitespace: str, definition: str
    ) -> None:
        from truncproof.logits import GrammarConstraint

        self.words = _Words(tokens)
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
            os.chdir(folder)  # where it writes its cache; what it prints is not an answer
            try:
                self.constraint: Any = GrammarConstraint(grammar(whitespace), "", self.words, [eos])
            finally:
                os.chdir(here)
        self.bits = _Bits(len(tokens))
        self.version = metadata.version("truncproof")

    def compile_within(self, schema: Any, budget: int) -> int:
        """The budget is all that it takes of a task."""
        return budget

    def matcher(self, compiled: int) -> _Text:
        return _Text(compiled, [])

    def mask(self, matcher: _Text, remaining: int) -> None:
        """Write the mask; the budget, not ``remaining``, says how many tokens are left.

        A token's cost counts the token and those that complete the text after it, but not the one
        that ends it: a text may fill the budget. To end a complete text costs one token.
        """
        text = self.words.decode(matcher.ids, skip_special_tokens=True)
        _, costs = self.constraint.get_vocab_mask_from_text(text)
        packed = np.packbits(costs <= matcher.budget - len(matcher.ids), bitorder="little")
        self.bits.words.view(np.uint8)[0, : packed.size] = packed

    def advance(self, matcher: _Text, token: int) -> None:
        matcher.ids.append(token)

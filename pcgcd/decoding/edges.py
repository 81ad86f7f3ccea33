"""The edge between a prompt and the text that continues it.

A tokenizer splits the whole of both, and seldom exactly at the edge: behind "The capital of France
is " it would write " Paris" as one token, but a prompt that ends in the space has used it up, and
the model has hardly ever seen a word without one. So the prompt is taken back to where no token of
the vocabulary can span the edge, and the constraint begins with the bytes that were taken back.
Every tokenization of these bytes and the text counts, as everywhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcgcd.automata.masks.bits import listed
from pcgcd.basics.keeping import kept_with
from pcgcd.errors import PcgcdError

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary
    from pcgcd.constraints import Constraint

_KEPT = 64  # constraints with a beginning; they are forgotten when there are more


@dataclass(frozen=True)
class Edge:
    """The place where a prompt ends and a text begins.

    Attributes:
        prompt: The tokens that are kept of the prompt.
        taken: The text of those that were taken back.
        num_taken: How many these are.
    """

    prompt: tuple[int, ...]
    taken: str = ""
    num_taken: int = 0

    def behind(self, text: bytes) -> bytes:
        """Return what follows the edge in a text that begins with what was taken back."""
        start = self.taken.encode()
        return text[len(start) :] if text.startswith(start) else b""

    def before(self, constraint: Constraint) -> Constraint:
        """Return the constraint, begun with what was taken back."""
        if not self.taken:
            return constraint
        known: dict[str, Constraint] = kept_with(constraint, "_begun", dict)
        if self.taken not in known:
            if len(known) >= _KEPT:
                known.clear()
            known[self.taken] = self.taken + constraint
        return known[self.taken]


def edge_of(
    text: str, prompt: tuple[int, ...], constraint: Constraint, vocabulary: Vocabulary
) -> Edge:
    """Take back the tokens of a prompt that a token could join with the text which follows.

    >>> from pcgcd.automata import Vocabulary
    >>> from pcgcd.constraints import choice
    >>> vocabulary = Vocabulary.from_bytes([b"is", b" ", b" Paris", b"Paris", None], eos_ids=4)
    >>> edge_of("is ", (0, 1), choice(["Paris"]), vocabulary)
    Edge(prompt=(0,), taken=' ', num_taken=1)
    >>> edge_of("is", (0,), choice(["Paris"]), vocabulary).num_taken
    0

    Args:
        text: The prompt.
        prompt: Its tokens.
        constraint: What must follow.
        vocabulary: The tokens of the language model.
    """
    try:
        begins = _first_bytes(constraint, vocabulary)
    except PcgcdError:  # it is told where the constraint itself is used
        return Edge(prompt)
    words: list[bytes] = kept_with(vocabulary, "_sorted", lambda: sorted(vocabulary.ids_of))
    longest = kept_with(vocabulary, "_longest", lambda: max(map(len, words), default=0))
    whole, edge, is_spanned = text.encode(), Edge(prompt), False
    for place in range(len(prompt) - 1, 0, -1):
        taken = vocabulary.decode(prompt[place:])
        is_text = prompt[place] < vocabulary.size and bool(vocabulary.token_bytes[prompt[place]])
        if not is_text or not whole.endswith(taken) or len(taken) >= longest:
            break
        is_spanned = is_spanned or any(_is_beginning(taken + begin, words) for begin in begins)
        with suppress(UnicodeDecodeError):  # the middle of a character: further back
            if is_spanned:
                edge = Edge(prompt[:place], taken.decode(), len(prompt) - place)
                is_spanned = False
    return edge


def _first_bytes(constraint: Constraint, vocabulary: Vocabulary) -> set[bytes]:
    """Return the bytes that a text of a constraint can begin with, listed once."""
    found: dict[Vocabulary, set[bytes]] = kept_with(constraint, "_first_bytes", dict)
    if vocabulary in found:
        return found[vocabulary]
    masks = constraint.masks(vocabulary)
    tokens, _ = listed(masks.mask(masks.start())[None], masks.vocab_size)
    known = (
        vocabulary.token_bytes[token] for token in tokens[0].tolist() if token < vocabulary.size
    )
    found[vocabulary] = {text[:1] for text in known if text}
    return found[vocabulary]


def _is_beginning(text: bytes, words: list[bytes]) -> bool:
    """Return whether one of some sorted words begins with a text."""
    place = bisect_left(words, text)
    return place < len(words) and words[place].startswith(text)

"""Growing prefixes that llama.cpp keeps, and prompts that are remembered from run to run."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from pcgcd.lm.base import SharedSession, check_length
from pcgcd.lm.llamacpp.context import Context, Feed, check_rows

_KEPT_BYTES = 1 << 28  # of prompts
_FEW = 8  # prompts of one run that are worth remembering


class Kept(NamedTuple):
    """What is known after a prompt."""

    state: bytes
    streams: int  # of the context that it was saved in
    row: Tensor  # log-probabilities, (V,)


class Prompts:
    """The prompts of the last runs with their key-value caches, up to a number of bytes."""

    def __init__(self, *, whole: bool) -> None:
        """``whole``: whether a prompt is of use only if all of it begins the new one."""
        self._whole = whole
        self._kept: OrderedDict[tuple[int, ...], Kept] = OrderedDict()

    def find(self, prompt: tuple[int, ...], streams: int) -> tuple[int, Kept | None]:
        """The number of tokens that are known already, and where from."""
        best: tuple[int, Kept | None] = (0, None)
        for known, kept in self._kept.items():
            same = (a == b for a, b in zip(known, prompt))
            length = sum(1 for _ in takewhile(bool, same))
            if length == len(prompt) < len(known):  # the row after the last token is not known
                length -= 1
            usable = kept.streams == streams and (length == len(known) or not self._whole)
            if usable and length > best[0]:
                best = (length, kept)
        return best

    def remember(self, prompt: tuple[int, ...], kept: Kept) -> None:
        """Keep one more, and forget the oldest."""
        self._kept[prompt] = kept
        self._kept.move_to_end(prompt)
        while sum(len(k.state) + k.row.nbytes for k in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)


class Session(SharedSession):
    """One numbered sequence of a context for each different prefix."""

    def __init__(
        self,
        prompts: list[tuple[int, ...]],
        width: int,
        known: Prompts,
        take: Callable[[int, list[int]], Context],
        give_back: Callable[[Context], None],
    ) -> None:
        """One row per prompt.

        Args:
            prompts: The tokens of each row.
            width: The width of the rows of :meth:`log_probs`.
            known: The prompts that are remembered.
            take: An empty context for a number of rows, and the lengths of the prompts.
            give_back: Takes the context when the session is gone.
        """
        super().__init__(prompts, width)
        self._known, self._take, self._give_back = known, take, give_back
        self._release: Callable[[], object] = lambda: None
        self._sequences: list[int] = []
        self._prefixes: list[tuple[int, ...]] = []

    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        context = self._new_context(prompts)
        rows: list[Tensor | None] = [None] * len(prompts)
        feeds = []
        for sequence, prompt in enumerate(prompts):
            length, kept = self._known.find(prompt, context.size.streams)
            if kept is None or not context.restore(kept.state, sequence):
                length = 0
            elif length == len(prompt):
                rows[sequence] = kept.row
                continue
            else:
                context.cut(sequence, length)
            feeds.append(Feed(sequence, length, prompt[length:]))
        for feed, row in zip(feeds, context.read(feeds).log_softmax(-1)):
            rows[feed.sequence] = row
            if len(prompts) <= _FEW:
                kept = Kept(context.saved(feed.sequence), context.size.streams, row.clone())
                self._known.remember(prompts[feed.sequence], kept)
        return torch.stack([row for row in rows if row is not None])

    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        prefixes = [self._prefixes[parent] + tail for parent, tail in zip(parents, tokens)]
        check_length(max(map(len, prefixes)), self._context.max_length)
        check_rows(self._context.lib, len(prefixes))
        if len(prefixes) > self._context.size.rows:
            context = self._new_context(prefixes)
            return context.read([Feed(i, 0, p) for i, p in enumerate(prefixes)]).log_softmax(-1)
        context = self._context
        kept = {self._sequences[parent] for parent in parents}
        for sequence in set(self._sequences) - kept:
            context.drop(sequence)
        free = (s for s in range(context.size.rows) if s not in kept)
        sequences: list[int] = []
        taken: set[int] = set()
        for source in (self._sequences[parent] for parent in parents):
            sequence = next(free) if source in taken else source
            if sequence != source:
                context.copy(source, sequence)
            taken.add(source)
            sequences.append(sequence)
        self._sequences, self._prefixes = sequences, prefixes
        feeds = [
            Feed(sequence, len(prefix) - len(tail), tail)
            for sequence, prefix, tail in zip(sequences, prefixes, tokens)
        ]
        return context.read(feeds).log_softmax(-1)

    def _new_context(self, prefixes: list[tuple[int, ...]]) -> Context:
        """An empty context that is large enough, in the place of the one before."""
        self._release()
        self._context = self._take(self.num_rows, [len(prefix) for prefix in prefixes])
        self._release = release = weakref.finalize(self, self._give_back, self._context)
        release.atexit = False
        self._sequences, self._prefixes = list(range(len(prefixes))), prefixes
        return self._context

"""Sequences that llama.cpp has read, with their key-value caches."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError, PcgcdError
from pcgcd.lm.llamacpp.library import LoadedModel, as_array

# Up to here all sequences share one pool of cells, so that a fork costs nothing. The attention of a
# row looks at the whole pool, so that for more sequences each has cells of its own.
SHARED_UP_TO = 32
_BATCH = 2048  # tokens that are handed over at once
_ROOM = 64  # tokens that each sequence can grow by before the cells are counted again
_LEAST = 256  # cells: llama.cpp itself makes fewer than 256, or fewer than sequences, more
_FULL = 1  # what llama_decode returns when it finds no free cells


class Feed(NamedTuple):
    """More tokens for a sequence that has ``start`` tokens already."""

    sequence: int
    start: int
    tokens: Sequence[int]


class Size(NamedTuple):
    """How much a context can keep.

    Attributes:
        shared: Whether all sequences share one pool of cells.
        rows: The number of sequences.
        cells: The number of tokens: of all together if shared, else of each.
    """

    shared: bool
    rows: int
    cells: int

    @classmethod
    def needed(cls, rows: int, lengths: Sequence[int], most: int) -> Size:
        """Enough for that many rows that begin with prompts of these lengths, and room to grow."""
        shared = rows <= SHARED_UP_TO
        length = sum(lengths) + _ROOM * rows if shared else max(lengths, default=0) + _ROOM
        return cls(shared, most if shared else _rounded(rows), max(_LEAST, _rounded(length)))

    @property
    def streams(self) -> int:
        """The number of pools of cells. What was saved can be restored where it is the same."""
        return 1 if self.shared else self.rows

    def holds(self, other: Size) -> bool:
        """Return whether this is enough where the other one is."""
        return self.shared == other.shared and self.rows >= other.rows and self.cells >= other.cells


def _rounded(number: int) -> int:
    return 1 << (number - 1).bit_length()


class Context:
    """A set of numbered sequences. It makes itself larger when it is full."""

    def __init__(self, model: LoadedModel, size: Size, *, threads: int, exact: bool) -> None:
        """Make room.

        Args:
            model: The model.
            size: How much.
            threads: The number of threads.
            exact: Whether the cache is kept in float32, not float16.
        """
        self.lib, self._model = model.lib, model
        self._threads, self._exact = threads, exact
        self.size = size
        self.width, self.max_length = model.num_tokens, model.max_length
        self._batch = self.lib.llama_batch_init(_BATCH, 0, 1)
        weakref.finalize(self, self.lib.llama_batch_free, self._batch).atexit = False
        self._open()

    def _open(self) -> None:
        lib = self.lib
        options = lib.llama_context_default_params()
        shared, rows, cells = self.size
        options.n_seq_max, options.kv_unified = rows, shared
        options.n_ctx = cells if shared else cells * rows
        options.n_batch = _BATCH
        options.n_threads = options.n_threads_batch = self._threads
        options.swa_full = True
        if self._exact:
            options.type_k = options.type_v = lib.GGML_TYPE_F32
            options.flash_attn_type = 0
        pointer = lib.llama_init_from_model(self._model.pointer, options)
        if not pointer:
            raise PcgcdError(
                f"llama.cpp has no memory for {options.n_ctx} cells of the key-value cache; use "
                "fewer particles, or a shorter budget"
            )
        self._pointer = pointer
        self._memory = lib.llama_get_memory(pointer)
        # The model must outlive its contexts: the finalizer keeps it.
        self._free = weakref.finalize(self, _free, lib, pointer, self._model)
        self._free.atexit = False

    # -- sequences ----------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything."""
        self.lib.llama_memory_clear(self._memory, True)

    def drop(self, sequence: int) -> None:
        """Forget a sequence."""
        self.lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def cut(self, sequence: int, length: int) -> None:
        """Forget all but the first tokens of a sequence."""
        self.lib.llama_memory_seq_rm(self._memory, sequence, length, -1)

    def copy(self, source: int, target: int) -> None:
        """The target, which is empty, becomes a copy."""
        self.lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def saved(self, sequence: int) -> bytes:
        """What is kept of a sequence, to be restored where there are as many streams."""
        size = self.lib.llama_state_seq_get_size(self._pointer, sequence)
        buffer = (ctypes.c_uint8 * size)()
        self.lib.llama_state_seq_get_data(self._pointer, buffer, size, sequence)
        return bytes(buffer)

    def restore(self, state: bytes, sequence: int) -> bool:
        """Put a saved sequence into an empty one; False if it does not fit."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        done = self.lib.llama_state_seq_set_data(self._pointer, buffer, len(state), sequence)
        return bool(done)

    # -- computing ----------------------------------------------------------------------------

    def read(self, feeds: Sequence[Feed]) -> Tensor:
        """Append tokens; the logits after the last token of each sequence, (feeds, V)."""
        rows = np.empty((len(feeds), self.width), dtype=np.float32)
        items = [
            (token, feed.start + i, feed.sequence, row if i == len(feed.tokens) - 1 else -1)
            for row, feed in enumerate(feeds)
            for i, token in enumerate(feed.tokens)
        ]
        # A small context takes fewer tokens at once.
        size = min(_BATCH, int(self.lib.llama_n_batch(self._pointer)))
        for start in range(0, len(items), size):
            part = items[start : start + size]
            self._decode(part)
            for place, (_, _, _, row) in enumerate(part):
                if row >= 0:
                    logits = self.lib.llama_get_logits_ith(self._pointer, place)
                    rows[row] = as_array(logits, self.width)
        return torch.from_numpy(rows)

    def _decode(self, items: list[tuple[int, int, int, int]]) -> None:
        batch, count = self._batch, len(items)
        tokens, places, sequences, rows = zip(*items)
        as_array(batch.token, count)[:] = tokens
        as_array(batch.pos, count)[:] = places
        as_array(batch.n_seq_id, count)[:] = 1
        as_array(batch.logits, count)[:] = np.array(rows) >= 0
        for place, sequence in enumerate(sequences):
            batch.seq_id[place][0] = sequence
        batch.n_tokens = count
        while (code := self.lib.llama_decode(self._pointer, batch)) == _FULL:
            self._resize(self.size._replace(cells=2 * self.size.cells))
        if code != 0:
            raise PcgcdError(f"llama.cpp could not compute a batch of {count} tokens (code {code})")

    def _resize(self, size: Size) -> None:
        """Move everything into a context with more cells."""
        lib, old, free_old = self.lib, self._pointer, self._free
        states: dict[int, bytes] = {}
        if size.shared:  # as a whole, so that what is shared stays shared
            whole = (ctypes.c_uint8 * lib.llama_state_get_size(old))()
            lib.llama_state_get_data(old, whole, len(whole))
        else:
            position = lib.llama_memory_seq_pos_max
            used = [s for s in range(self.size.rows) if position(self._memory, s) >= 0]
            states = {sequence: self.saved(sequence) for sequence in used}
        self.size = size
        self._open()
        if size.shared:
            done = lib.llama_state_set_data(self._pointer, whole, len(whole)) > 0
        else:
            done = all(self.restore(state, sequence) for sequence, state in states.items())
        if not done:
            raise PcgcdError("llama.cpp could not copy its key-value cache into a larger one")
        free_old()


def check_rows(lib: Any, rows: int) -> None:
    """Check that there are at most as many sequences as llama.cpp can keep."""
    most = max_rows(lib)
    if rows > most:
        raise InvalidParameterError(
            f"llama.cpp keeps at most {most} sequences at once, but {rows} were asked for; use at "
            f"most {most} particles, or TransformersLM"
        )


def max_rows(lib: Any) -> int:
    """The number of sequences that llama.cpp can keep at once."""
    return int(lib.llama_max_parallel_sequences())


def _free(lib: Any, pointer: Any, model: LoadedModel) -> None:
    lib.llama_free(pointer)

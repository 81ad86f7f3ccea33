"""A language model in a GGUF file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError
from pcgcd.lm.base import LanguageModel, LMSession, check_length, check_not_empty
from pcgcd.lm.chats import Messages, Tools, placed_tools
from pcgcd.lm.llamacpp.context import SHARED_UP_TO, Context, Feed, Size, check_rows, max_rows
from pcgcd.lm.llamacpp.library import LoadedModel, converted
from pcgcd.lm.llamacpp.session import Prompts, Session

_IDLE = 2  # contexts that are kept for the next run


class LlamaCpp(LanguageModel):
    """Any causal language model in a GGUF file, computed by llama.cpp (``pcgcd[llamacpp]``).

    Rows with equal prefixes are computed once, and prompts are remembered from run to run. At most
    256 different prefixes can be in use at once.

    Attributes:
        path: The file that is computed with.
        dtype: The type of its weights; None if as stored.
        vocabulary: The bytes of each token, and which tokens end a text: all that llama.cpp knows
            to end a text or a turn of a chat, unless others are given.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        dtype: str | None = None,
        threads: int = 1,
        gpu_layers: int | None = None,
        eos_ids: int | Iterable[int] | None = None,
    ) -> None:
        """Load a file.

        Args:
            path: The GGUF file; of a file in several parts, the first.
            dtype: The type of weights to compute with: ``"f32"`` (the key-value cache too, so that
                rows equal those of :class:`TransformersLM` to rounding), ``"bf16"``, ``"f16"`` or
                ``"q8_0"``. The file is converted once, into ``<cache folder>/gguf``. By default as
                stored.
            threads: The number of threads.
            gpu_layers: How many layers to keep on a GPU; by default all, if llama.cpp has been
                built for one.
            eos_ids: The tokens that end a text.

        Raises:
            CheckpointError: The file cannot be read, or holds no causal language model.
            MissingDependencyError: ``llama-cpp-python`` is not installed.
        """
        from pcgcd.lm.default import cache_folder

        if threads < 1:
            raise InvalidParameterError(f"threads must be at least 1, but {threads} was given")
        self.path = Path(path)
        self.dtype = dtype
        self._threads = threads
        stored = self.path if dtype is None else converted(self.path, dtype, cache_folder())
        self._model = LoadedModel(stored, gpu_layers)
        self.max_length = self._model.max_length
        ends = self._model.end_ids() if eos_ids is None else eos_ids
        self.vocabulary = Vocabulary.from_bytes(self._model.token_bytes(), ends)
        self._prompts = Prompts(whole=self._model.is_recurrent)
        self._idle: list[Context] = []

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self.vocabulary.eos_ids

    @property
    def fingerprint(self) -> str:
        """A hash of the beginning and the size of the file, and the type of the weights."""
        with self.path.open("rb") as file:
            digest = hashlib.sha256(file.read(1 << 20))
        digest.update(f"{self.path.stat().st_size} {self.dtype}".encode())
        return digest.hexdigest()[:16]

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return torch.device("cpu")

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """See :class:`LanguageModel`. Computed from scratch."""
        checked = self._checked_prompts(prefixes)
        rows: dict[tuple[int, ...], Tensor] = {}
        different = list(dict.fromkeys(checked))
        for start in range(0, len(different), SHARED_UP_TO):
            part = different[start : start + SHARED_UP_TO]
            context = self._take(len(part), [len(prefix) for prefix in part])
            values = context.read([Feed(i, 0, prefix) for i, prefix in enumerate(part)])
            self._give_back(context)
            rows.update(zip(part, values.log_softmax(-1)))
        return torch.stack([rows[p] for p in checked]) if checked else torch.empty(0, self._width)

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        checked = self._checked_prompts(prompts)
        check_rows(self._model.lib, len(checked))
        return Session(checked, self._width, self._prompts, self._take, self._give_back)

    # -- contexts -----------------------------------------------------------------------------

    def _take(self, rows: int, lengths: Sequence[int]) -> Context:
        """An empty context: one that was in use before if it is large enough."""
        most = max_rows(self._model.lib)
        size = Size.needed(min(rows, most), lengths, most)
        for place, context in enumerate(self._idle):
            if context.size.holds(size):
                return self._idle.pop(place)
        return Context(self._model, size, threads=self._threads, exact=self.dtype == "f32")

    def _give_back(self, context: Context) -> None:
        context.clear()
        self._idle = [context, *self._idle][:_IDLE]

    # -- prompts ------------------------------------------------------------------------------

    @property
    def knows_chats(self) -> bool:
        """Say whether the file has a chat template."""
        return self._model.metadata("tokenizer.chat_template") is not None

    def spell(self, text: str) -> tuple[int, ...] | None:
        return tuple(self._model.tokenize(text, add_special=False))

    def _encode_text(self, text: str) -> tuple[int, ...]:
        ids = self._model.tokenize(text, add_special=True)
        first = self._model.first_id()
        if not ids and first is not None:
            ids = [first]
        return self._checked_prefix(ids)

    def _encode_chat(self, messages: Messages, tools: Tools = ()) -> tuple[int, ...]:
        if self._chat is None:
            raise InvalidParameterError(
                f"{self.path.name} has no chat template, so the messages of a chat mean nothing to "
                "its model; give the prompt as one text"
            )

        def render(chat: Messages, shown: Tools | None) -> str:
            return str(self._chat(messages=chat, tools=shown).prompt)

        text = render(*placed_tools(render, messages, tools))
        return self._checked_prefix(self._model.tokenize(text, add_special=False))

    @cached_property
    def _chat(self) -> Any:
        """What writes messages as text, with the template of the file."""
        template = self._model.metadata("tokenizer.chat_template")
        if template is None:
            return None
        formats = package("llama_cpp.llama_chat_format", "LlamaCpp")
        end = int(self._model.lib.llama_vocab_eos(self._model.vocab))
        return formats.Jinja2ChatFormatter(
            template, self._model.text_of(end), self._model.text_of(self._model.first_id())
        )

    def _checked_prompts(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        checked = super()._checked_prompts(prompts)
        check_not_empty(checked, self.path.name, self._model.first_id())
        for prompt in checked:
            check_length(len(prompt), self._model.max_length)
        return checked

    def __repr__(self) -> str:
        return (
            f"LlamaCpp({self.path.name!r}, {self.dtype or 'as stored'}, {self._threads} "
            f"thread{'s' * (self._threads > 1)}, {self.vocabulary!r})"
        )

"""Causal language models of transformers, with their key-value cache kept between the steps."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.basics.garbage import collected_later
from pcgcd.basics.packages import package
from pcgcd.errors import (
    MissingDependencyError,
    VocabularyMismatchError,
)
from pcgcd.lm.base import (
    LMSession,
    PrefixSession,
    SharedSession,
    check_length,
    check_not_empty,
)
from pcgcd.lm.chats import TokenizerLM
from pcgcd.lm.growing_cache import with_room
from pcgcd.lm.packed_linear import PackedLinears
from pcgcd.lm.shared_prefix import (
    attention_to_prefixes,
    can_share,
    is_shared,
    share,
    unshare,
    was_ignored,
)

_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")
_PLACES = ("cache_dir", "local_files_only", "revision", "subfolder", "token", "trust_remote_code")


class TransformersLM(TokenizerLM):
    """A causal language model of transformers and its tokenizer.

    Rows with equal prefixes are computed once: k particles that start from one prompt cost one row
    until they differ. Prompts of different lengths share a batch.

    Attributes:
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        vocabulary: The bytes of each token, and which tokens end a text.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        device: torch.device | str | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """Hold the two.

        Args:
            model: Any causal language model of transformers, a ``PreTrainedModel``.
            tokenizer: The tokenizer that it was trained with, a ``PreTrainedTokenizerBase``.
            device: Where to compute; by default where the model is.
            vocabulary: By default what the tokenizer and the model's generation config say.
        """
        self.model = model
        self.model.eval()
        if device is not None:
            self.model.to(device)
        self.tokenizer = tokenizer
        width = _logits_size(self.model)
        if vocabulary is None:
            vocabulary = Vocabulary.from_tokenizer(
                tokenizer,
                logits_size=width,
                generation_config=getattr(model, "generation_config", None),
            )
        if vocabulary.logits_size != width:
            raise VocabularyMismatchError(
                f"the model's logits are {width} wide, but the vocabulary says "
                f"{vocabulary.logits_size}; make it with logits_size={width}"
            )
        self.vocabulary = vocabulary
        self._accepts = frozenset(inspect.signature(self.model.forward).parameters)
        text_config = self.model.config.get_text_config()
        found = package("transformers", "TransformersLM").__version__
        _check_layers(getattr(text_config, "layer_types", None) or (), found)
        self.max_length = getattr(text_config, "max_position_embeddings", None)
        self._shares = True  # whether this model's attention has looked at shared prefixes so far

    @classmethod
    @collected_later()
    def from_pretrained(
        cls,
        name: str | PathLike[str],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None,
        **options: Any,
    ) -> TransformersLM:
        """A model and its tokenizer from a folder or from the hub.

        Args:
            name: The folder, or the hub's name.
            device: Where to compute; the CPU by default.
            dtype: The floating type of the weights. By default float32 on the CPU, where narrower
                types are slow, and the stored one elsewhere.
            options: More arguments for ``AutoModelForCausalLM.from_pretrained``. Those that say
                where to look (``revision``, ``local_files_only``, ...) go to the tokenizer too.
        """
        transformers = package("transformers", "TransformersLM")
        on_cpu = device is None or torch.device(device).type == "cpu"
        if dtype is None:
            dtype = torch.float32 if on_cpu else "auto"
        stored = str(name)
        places = {option: options[option] for option in _PLACES if option in options}
        with _without_progress_bars(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(stored, **places)
            load = transformers.AutoModelForCausalLM.from_pretrained
            model = load(stored, dtype=dtype, **options)
        return cls(model, tokenizer, device=device)

    @cached_property
    def _packed(self) -> PackedLinears:
        return PackedLinears(self.model)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return torch.device(self.model.device)

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """See :class:`LanguageModel`. Computed from scratch, prefixes of one length together."""
        checked = self._checked_prompts(prefixes)
        groups: dict[int, dict[tuple[int, ...], None]] = {}
        for prefix in checked:
            groups.setdefault(len(prefix), {})[prefix] = None
        rows: dict[tuple[int, ...], Tensor] = {}
        for group in groups.values():
            values, _ = self.forward(torch.tensor(list(group)), use_cache=False)
            rows.update(zip(group, values))
        empty = torch.empty(0, self._width, device=self.device)
        return torch.stack([rows[prefix] for prefix in checked]) if checked else empty

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        checked = self._checked_prompts(prompts)
        padded = len({len(prompt) for prompt in checked}) > 1
        if "past_key_values" not in self._accepts or (padded and self._is_recurrent):
            return PrefixSession(self.log_probs, checked, self._width)
        return _CachedSession(self, checked)

    def forward(
        self,
        ids: Tensor,
        *,
        padding: Tensor | None = None,
        cache: Any = None,
        past: int = 0,
        use_cache: bool = True,
    ) -> tuple[Tensor, Any]:
        """Run the model on (k, m) new tokens; log-probabilities after the last, and the cache.

        Args:
            ids: The new tokens.
            padding: How many places at the left of each row, cache included, are no tokens, (k,).
            cache: What the model returned for the places before.
            past: The number of places before.
            use_cache: Whether to return a cache.
        """
        length = past + ids.shape[1]
        check_length(length - (0 if padding is None else int(padding.min())), self.max_length)
        inputs: dict[str, Any] = {"input_ids": ids.to(self.device), "use_cache": use_cache}
        if cache is not None:
            inputs["past_key_values"] = cache
        if "logits_to_keep" in self._accepts:
            inputs["logits_to_keep"] = 1
        if padding is not None:
            place = torch.arange(length, device=self.device) - padding[:, None].to(self.device)
            inputs["attention_mask"] = (place >= 0).long()
            if "position_ids" in self._accepts:
                inputs["position_ids"] = place[:, past:].clamp(min=0)
        shared = is_shared(cache)
        looking = attention_to_prefixes(self.model) if shared else nullcontext()
        with torch.inference_mode(), self._packed, looking:
            output = self.model(**inputs)
            values = torch.log_softmax(output.logits[:, -1].float(), dim=-1)
        if shared and was_ignored(cache):
            self._shares = False
            unshare(cache, ids.shape[1])
            return self.forward(ids, padding=padding, cache=cache, past=past)
        if values.shape[-1] != self._width:
            raise VocabularyMismatchError(
                f"the model's logits are {values.shape[-1]} wide, but the vocabulary says "
                f"{self._width}; make it with logits_size={values.shape[-1]}"
            )
        return values, with_room(getattr(output, "past_key_values", None))

    @property
    def _is_recurrent(self) -> bool:
        """Whether some layer carries a running state, which padding could disturb."""
        cache = package("transformers", "TransformersLM").DynamicCache(config=self.model.config)
        return any(_is_recurrent(layer) for layer in cache.layers)

    def _checked_prompts(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        checked = super()._checked_prompts(prompts)
        first = getattr(self.tokenizer, "bos_token_id", None)
        check_not_empty(checked, type(self.model).__name__, first)
        return checked

    def __repr__(self) -> str:
        dtype = str(self.model.dtype).removeprefix("torch.")
        return f"TransformersLM({type(self.model).__name__}, {dtype}, {self.vocabulary!r})"


class _CachedSession(SharedSession):
    """One row of the key-value cache for each different prefix, padded on the left."""

    def __init__(self, lm: TransformersLM, prompts: list[tuple[int, ...]]) -> None:
        super().__init__(prompts, lm.vocabulary.logits_size)
        self._lm = lm
        self._cache: Any = None
        self._padding: list[int] = []
        self._length = 0

    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        length = max(map(len, prompts))
        self._padding = [length - len(prompt) for prompt in prompts]
        # What stands in the padding is never looked at; a token of the row is always a valid id.
        return self._feed([prompt[:1] * n + prompt for prompt, n in zip(prompts, self._padding)])

    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        padding = [self._padding[parent] for parent in parents]
        check_length(self._length + len(tokens[0]) - min(padding), self._lm.max_length)
        if len(self._padding) < len(parents) and self._can_share:
            share(self._cache, len(parents))
            self._padding = padding
        elif parents != list(range(len(self._padding))):
            self._cache.reorder_cache(torch.tensor(parents, device=self._lm.device))
            self._padding = padding
        if not any(_is_recurrent(layer) for layer in self._cache.layers):
            return self._feed(tokens)
        # A running state takes one token at a time.
        return [self._feed([(token,) for token in column]) for column in zip(*tokens)][-1]

    @property
    def _can_share(self) -> bool:
        """Whether all rows begin with what the cache holds, and it can be kept once."""
        alone = len(self._padding) == 1 and not is_shared(self._cache)
        return alone and self._lm._shares and can_share(self._lm.model, self._cache)

    def _feed(self, tokens: Sequence[tuple[int, ...]]) -> Tensor:
        padding = torch.tensor(self._padding) if any(self._padding) else None
        values, self._cache = self._lm.forward(
            torch.tensor(tokens), padding=padding, cache=self._cache, past=self._length
        )
        self._length += len(tokens[0])
        return values


def _is_recurrent(layer: Any) -> bool:
    return hasattr(layer, "conv_states") or hasattr(layer, "recurrent_states")


def _check_layers(kinds: Sequence[str], found: str) -> None:
    """Check that this version of transformers can batch layers of these kinds, and keep them."""
    other = sorted({kind for kind in kinds if kind not in _ATTENTION})
    if other and int(found.partition(".")[0]) < 5:
        raise MissingDependencyError(
            f"a model with layers of the kind {', '.join(other)} needs transformers>=5, but "
            f"transformers {found} is installed; run pip install 'transformers>=5'"
        )


def _logits_size(model: Any) -> int:
    head = model.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if weight is not None:
        return int(weight.shape[0])
    return int(model.config.get_text_config().vocab_size)


@contextmanager
def _without_progress_bars(transformers: Any) -> Iterator[None]:
    """Loading from a disk is quick; a bar for it only disturbs what a program prints."""
    settings = transformers.utils.logging
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()

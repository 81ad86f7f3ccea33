"""What a language model is, and the batch of growing prefixes that is asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.basics.numbers import is_whole_number
from pcgcd.basics.texts import utf8
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

# A text, the messages of a chat, or token ids.
Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]


class LanguageModel(ABC):
    """A distribution of the next token given the tokens so far.

    A new one needs a vocabulary and :meth:`log_probs`. One that can keep what it computed for a
    prefix also overrides :meth:`start`, usually with a :class:`SharedSession`.

    Attributes:
        vocabulary: What the tokens stand for; its ``logits_size`` is the width V of the rows.
        max_length: The number of tokens that the model can read; None if there is no limit.
    """

    vocabulary: Vocabulary
    max_length: int | None = None

    @abstractmethod
    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """``log p(next token | prefix)``, normalised: one row per prefix, (k, V)."""

    @property
    def knows_chats(self) -> bool:
        """Say whether the model reads the messages of a chat."""
        return False

    def encode(self, prompt: Prompt, *, tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """The tokens of a prompt: a text, the messages of a chat, or token ids as they are.

        Args:
            prompt: The prompt.
            tools: Functions that a chat is shown, as OpenAI describes them: in the place that the
                chat template has for them, or else in a system message. A text is then a
                message of the user.

        Raises:
            InvalidParameterError: The prompt is of another kind, or this model knows no chats.
            VocabularyMismatchError: A token id, or a text, is outside the vocabulary.
        """
        given = checked_prompt(prompt)
        if isinstance(given, str) and not tools:
            return self._encode_text(given)
        items: list[Any] = user_message(given) if isinstance(given, str) else given
        if items and isinstance(items[0], Mapping):
            return self._encode_chat(items, tools) if tools else self._encode_chat(items)
        if tools:
            raise InvalidParameterError(
                "tools are shown to a model in a chat, but the prompt is token ids; give a text or "
                "messages"
            )
        return self._checked_prefix(items)

    def spell(self, text: str) -> tuple[int, ...] | None:
        """The tokens that a piece of text has in what the model was trained on, without others.

        None if that is not known: a model that has a tokenizer knows.
        """
        return None

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        """A session with one row per prompt."""
        return PrefixSession(self.log_probs, self._checked_prompts(prompts), self._width)

    # -- for those who write one --------------------------------------------------------------

    def _encode_text(self, text: str) -> tuple[int, ...]:
        """The tokens of a text: without a tokenizer, the longest token first."""
        return self.vocabulary.greedy(text)

    def _encode_chat(
        self, messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[int, ...]:
        raise InvalidParameterError(
            f"{type(self).__name__} has no chat template; give the prompt as one text, or as token "
            "ids"
        )

    @property
    def _width(self) -> int:
        return self.vocabulary.logits_size

    def _checked_prefix(self, prefix: Sequence[Any]) -> tuple[int, ...]:
        return tuple(checked_tokens(prefix, self._width))

    def _checked_prompts(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        items: Sequence[Any] = prompts
        if any(isinstance(item, str | Mapping | int) for item in items):
            raise InvalidParameterError(
                "prompts are a list with the token ids of each row, but texts, messages or single "
                "ids were given; encode each prompt first"
            )
        return [self._checked_prefix(prompt) for prompt in prompts]


class LMSession(ABC):
    """k prefixes that grow together, owned by one run. The rows can be copied and dropped."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """The number of prefixes k."""

    @abstractmethod
    def log_probs(self) -> Tensor:
        """``log p(next token | prefix)`` of each row, (k, V). Not to be changed in place."""

    @abstractmethod
    def advance(self, tokens: Sequence[int] | Tensor) -> None:
        """Append one token to each row."""

    @abstractmethod
    def reindex(self, rows: Sequence[int] | Tensor) -> None:
        """Row i becomes a copy of the old row ``rows[i]``; rows that are not named are dropped."""


class SharedSession(LMSession):
    """A session in which rows with equal prefixes share one slot, so that they cost one row.

    Prefixes that differ stay different, and all grow by one token at a time: so two rows are equal
    iff they were equal before and got the same token. Nothing is computed before
    :meth:`log_probs` asks for it. A subclass says what the slots hold.
    """

    def __init__(self, prompts: Sequence[tuple[int, ...]], width: int) -> None:
        """One row per prompt; ``width`` is the width of the rows of :meth:`log_probs`."""
        slots = {prompt: slot for slot, prompt in enumerate(dict.fromkeys(prompts))}
        self._width = width
        self._slots = [slots[prompt] for prompt in prompts]
        self._started = False
        self._parents = list(range(len(slots)))
        self._unread = list(slots)
        self._values: Tensor | None = None
        self._rows: Tensor | None = None

    @abstractmethod
    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        """Make one slot per prompt; their next-token log-probabilities, (slots, V)."""

    @abstractmethod
    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        """Slot i becomes the old slot ``parents[i]`` and then ``tokens[i]``, equally many each.

        Returns:
            The next-token log-probabilities of the new slots, (slots, V).
        """

    @property
    def num_rows(self) -> int:
        return len(self._slots)

    @property
    def num_distinct(self) -> int:
        """The number of different prefixes: the rows that the model itself computes."""
        return len(set(self._slots))

    def log_probs(self) -> Tensor:
        """See :class:`LMSession`. Computed once for each new set of prefixes."""
        if self._rows is None:
            if self._values is None and self._slots:
                self._drop_unused()
                if self._started:
                    found = self._extend(self._parents, self._unread)
                else:
                    found = self._start(self._unread)
                self._values = checked_log_probs(found, len(self._unread), self._width)
                self._started = True
                self._parents = list(range(len(self._parents)))
                self._unread = [()] * len(self._parents)
            self._rows = self._select()
        return self._rows

    def advance(self, tokens: Sequence[int] | Tensor) -> None:
        chosen = checked_tokens(tokens, self._width, self.num_rows)
        slots: dict[tuple[int, int], int] = {}
        for pair in zip(self._slots, chosen):
            slots.setdefault(pair, len(slots))
        self._slots = [slots[pair] for pair in zip(self._slots, chosen)]
        self._unread = [(*self._unread[slot], token) for slot, token in slots]
        self._parents = [self._parents[slot] for slot, _ in slots]
        self._values = self._rows = None

    def reindex(self, rows: Sequence[int] | Tensor) -> None:
        """See :class:`LMSession`. Nothing is computed again."""
        self._slots = [self._slots[row] for row in checked_rows(rows, self.num_rows)]
        self._rows = None

    def _drop_unused(self) -> None:
        used = sorted(set(self._slots))
        if len(used) < len(self._unread):
            place = {slot: i for i, slot in enumerate(used)}
            self._slots = [place[slot] for slot in self._slots]
            self._unread = [self._unread[slot] for slot in used]
            self._parents = [self._parents[slot] for slot in used]

    def _select(self) -> Tensor:
        if self._values is None:
            return torch.empty(0, self._width)
        if self._slots == list(range(len(self._values))):
            return self._values
        return self._values[torch.tensor(self._slots, dtype=torch.long, device=self._values.device)]


class PrefixSession(SharedSession):
    """A session for a model without memory: whole prefixes, each different one asked once."""

    def __init__(
        self,
        log_probs: Callable[[Sequence[Sequence[int]]], Tensor],
        prompts: Sequence[tuple[int, ...]],
        width: int,
    ) -> None:
        """Ask ``log_probs`` about prefixes that begin with the prompts."""
        super().__init__(prompts, width)
        self._log_probs_of = log_probs
        self._prefixes: list[tuple[int, ...]] = []

    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        self._prefixes = prompts
        return self._log_probs_of(prompts)

    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        self._prefixes = [self._prefixes[p] + tail for p, tail in zip(parents, tokens)]
        return self._log_probs_of(self._prefixes)


def user_message(text: str) -> list[dict[str, Any]]:
    """Return a chat of one message, the user's."""
    return [{"role": "user", "content": text}]


def checked_prompt(prompt: Any) -> str | list[Any]:
    """A prompt of any kind: a text, a list of messages with a role each, or a list of ids.

    Raises:
        InvalidParameterError: It is none of these.
    """
    if isinstance(prompt, str):
        utf8(prompt, "the prompt")
        return prompt
    items = None
    if isinstance(prompt, Tensor | np.ndarray):
        items = prompt.tolist()
    elif not isinstance(prompt, bytes | bytearray | Mapping):
        try:
            items = list(prompt)
        except TypeError:
            items = None
    if not isinstance(items, list):
        hint = "; decode it first" if isinstance(prompt, bytes | bytearray) else ""
        raise InvalidParameterError(
            "a prompt is a text, a list of messages or a list of token ids, but got "
            f"{type(prompt).__name__} {prompt!r:.60}{hint}"
        )
    messages = [dict(item) for item in items if isinstance(item, Mapping)]
    if not messages:
        return items
    for place, item in enumerate(items):
        if not isinstance(item, Mapping) or not isinstance(item.get("role"), str):
            raise InvalidParameterError(
                "each message of a chat is a dict with a role and a content, such as "
                f'{{"role": "user", "content": "Hello"}}, but message {place} is {item!r:.80}'
            )
    return messages


def checked_log_probs(found: Any, count: int, width: int) -> Tensor:
    """What a language model says of ``count`` prefixes: a row of ``width`` numbers for each."""
    if not isinstance(found, Tensor) or not found.is_floating_point():
        kind = f"{found.dtype} tensor" if isinstance(found, Tensor) else type(found).__name__
        raise InvalidParameterError(
            "log_probs of a language model must return a tensor of floats, log p(next token | "
            f"prefix), but returned a {kind}"
        )
    if found.shape != (count, width):
        raise InvalidParameterError(
            f"log_probs of a language model must return a row for each of the {count} prefixes "
            f"with a column for each of the {width} tokens of its vocabulary, shape ({count}, "
            f"{width}), but returned shape {tuple(found.shape)}; where the logits are wider than "
            "the tokenizer, give the vocabulary logits_size"
        )
    return found


def check_not_empty(prompts: Sequence[tuple[int, ...]], model: str, first: int | None) -> None:
    """Check that each prompt has a token; ``first`` is the one that begins a text, if any."""
    if not all(prompts):
        hint = "" if first is None else f", for example [{first}], the beginning of a text"
        raise InvalidParameterError(
            f"{model} needs at least one token to start from, but prompt {prompts.index(())} is "
            f"empty; give it one{hint}"
        )


def check_length(length: int, longest: int | None) -> None:
    """Check that a model can read so many tokens."""
    if longest is not None and length > longest:
        raise InvalidParameterError(
            f"the model reads at most {longest} tokens, but the prompt and what follows it are "
            f"{length}; shorten the prompt, or lower the budget"
        )


def checked_tokens(tokens: Any, width: int, num_rows: int | None = None) -> list[int]:
    """Token ids as whole numbers in 0..width-1, one per row if the number of rows is given."""
    values = _whole_numbers(tokens, "token ids")
    if num_rows is not None and len(values) != num_rows:
        raise InvalidParameterError(
            f"expected one token for each of {num_rows} rows, but got {len(values)}"
        )
    for value in values:
        if not 0 <= value < width:
            raise VocabularyMismatchError(
                f"token ids must lie in 0..{width - 1}, but {value} was given"
            )
    return values


def checked_rows(rows: Any, num_rows: int) -> list[int]:
    """Row numbers in 0..num_rows-1."""
    values = _whole_numbers(rows, "rows")
    for value in values:
        if not 0 <= value < num_rows:
            raise InvalidParameterError(
                f"rows must lie in 0..{num_rows - 1}, but {value} was given"
                if num_rows
                else f"this session has no rows, but row {value} was asked for"
            )
    return values


def _whole_numbers(values: Any, name: str) -> list[int]:
    if isinstance(values, Tensor | np.ndarray):
        if values.ndim != 1:
            raise InvalidParameterError(
                f"{name} must be a list of whole numbers, but their shape is {tuple(values.shape)}"
            )
        values = values.tolist()
    try:
        items = list(values)
    except TypeError:
        raise InvalidParameterError(
            f"{name} must be a list of whole numbers, but {values!r} was given"
        ) from None
    for item in items:
        if not is_whole_number(item):
            raise InvalidParameterError(
                f"{name} must be whole numbers, but {item!r} was given"
                + ("; encode texts first" if isinstance(item, str) else "")
            )
    return [int(item) for item in items]

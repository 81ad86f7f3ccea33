"""Prompts as tokens: texts, and chats that show a model its tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pcgcd.errors import InvalidParameterError
from pcgcd.lm.base import LanguageModel, Prompt, checked_prompt, user_message

Messages: TypeAlias = "list[dict[str, Any]]"
Tools: TypeAlias = "Sequence[Mapping[str, Any]]"


class TokenizerLM(LanguageModel):
    """A language model whose prompts a tokenizer of transformers encodes.

    Attributes:
        tokenizer: The tokenizer.
    """

    tokenizer: Any

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self.vocabulary.eos_ids

    @property
    def knows_chats(self) -> bool:
        """Say whether the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def spell(self, text: str) -> tuple[int, ...] | None:
        if self.tokenizer is None:  # a vocabulary is enough to generate
            return None
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _encode_text(self, text: str) -> tuple[int, ...]:
        return self._checked_prefix(text_ids(self.tokenizer, text))

    def _encode_chat(self, messages: Messages, tools: Tools = ()) -> tuple[int, ...]:
        return self._checked_prefix(chat_ids(self.tokenizer, messages, tools))


def as_asked(lm: LanguageModel, prompt: Prompt, chat: bool | None = None) -> Prompt:
    """Return a prompt as the messages of a chat, if that is what a text means here.

    Args:
        lm: The language model.
        prompt: A text, messages or token ids.
        chat: True makes a text a message of the user, False leaves it as it stands; without it, it
            is a message where the model knows chats, unless it is empty.

    Raises:
        InvalidParameterError: What was asked for does not go with this kind of prompt.
    """
    if isinstance(prompt, str):
        if chat is None:  # what is no subclass of LanguageModel need not say
            chat = bool(prompt) and bool(getattr(lm, "knows_chats", False))
        return user_message(prompt) if chat else prompt
    if chat is None:
        return prompt
    items = checked_prompt(prompt)
    if chat != bool(items and isinstance(items[0], Mapping)):
        kind = "token ids" if chat else "the messages of a chat"
        raise InvalidParameterError(
            f"chat={chat} is about a prompt that is a text, but this one is {kind}; leave it out"
        )
    return prompt


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text by a tokenizer of transformers; of none, the one that begins a text."""
    ids: list[int] = tokenizer(text)["input_ids"]
    first = getattr(tokenizer, "bos_token_id", None)
    return ids if ids or first is None else [first]


def chat_ids(tokenizer: Any, messages: Messages, tools: Tools = ()) -> list[int]:
    """The tokens of a chat, by the chat template of a tokenizer of transformers.

    Raises:
        InvalidParameterError: The tokenizer has no chat template.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise InvalidParameterError(
            "this tokenizer has no chat template, so the messages of a chat mean nothing to "
            "its model; give the prompt as one text"
            + (", describe the tools in it, and leave out tools=" if tools else "")
        )
    template = tokenizer.apply_chat_template

    def render(chat: Messages, shown: Tools | None) -> str:
        return str(template(chat, tools=shown, tokenize=False))

    try:
        messages, shown = placed_tools(render, messages, tools)
        ids: list[int] = template(
            messages, tools=shown, add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except Exception as error:  # each template has errors of its own
        raise InvalidParameterError(
            "the model's chat template cannot write these messages: "
            f"{' '.join(str(error).split()) or type(error).__name__}; change their roles or "
            "contents, or give the prompt as one text with chat=False"
        ) from error
    return ids


def placed_tools(
    render: Callable[[Messages, Tools | None], str], messages: Messages, tools: Tools | None
) -> tuple[Messages, Tools | None]:
    """Where a chat shows its tools: the messages, and the tools for the template's own place.

    A template that has no place for tools writes the same text with and without them; then they go
    into the system message.

    Args:
        render: The chat template: from messages and tools to a text.
        messages: The chat.
        tools: The tools, as OpenAI describes them.
    """
    if not tools:
        return messages, None
    plain = [dict(tool) for tool in tools]
    if render(messages, plain) != render(messages, None):
        return messages, plain
    return with_tools(messages, plain), None


def with_tools(messages: Sequence[Mapping[str, Any]], tools: Tools) -> Messages:
    """A chat whose system message describes tools.

    >>> chat = [{"role": "user", "content": "What time is it?"}]
    >>> print(with_tools(chat, [{"type": "function", "function": {"name": "now"}}])[0]["content"])
    You can call these functions, which are described in JSON:
    {"name": "now"}
    Answer with a call: {"name": <name of a function>, "arguments": <an object>}
    """
    lines = ["You can call these functions, which are described in JSON:"]
    lines += [json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools]
    lines += ['Answer with a call: {"name": <name of a function>, "arguments": <an object>}']
    text = "\n".join(lines)
    chat = [dict(message) for message in messages]
    if chat and chat[0].get("role") == "system":
        chat[0]["content"] = f"{chat[0]['content']}\n\n{text}"
        return chat
    return [{"role": "system", "content": text}, *chat]

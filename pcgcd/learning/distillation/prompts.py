"""What samples are drawn for: prompts, some of them with a constraint on the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcgcd.errors import InvalidParameterError
from pcgcd.lm.chats import as_asked

if TYPE_CHECKING:
    from pcgcd.constraints import Constraint
    from pcgcd.lm import LanguageModel, Prompt

_KEYS = {"prompt", "messages", "constraint"}


@dataclass(frozen=True)
class Source:
    """A prompt to answer.

    Attributes:
        prompt: A text, the messages of a chat, or token ids.
        constraint: What the answers have to be, as plain data: one of ``{"tools": [...]}``,
            ``{"keywords": [...]}``, ``{"json_schema": {...}}``, ``{"regex": "..."}`` or
            ``{"sql": {table: [columns]}}``, further entries being arguments of the constraint of
            that name. None for any answer.
    """

    prompt: Prompt
    constraint: Mapping[str, Any] | None = field(default=None)

    def to_json(self) -> str:
        """Return the same data as one line of a prompts file."""
        given: Any = self.prompt
        chat = not isinstance(given, str) and any(isinstance(item, Mapping) for item in given)
        line: dict[str, Any] = {
            "messages" if chat else "prompt": given if isinstance(given, str) else [*given]
        }
        if self.constraint is not None:
            line["constraint"] = dict(self.constraint)
        return json.dumps(line, ensure_ascii=False, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else list(value)


def sources_of(
    prompts: Iterable[Prompt | Source] | None, lm: LanguageModel | None = None
) -> tuple[Source, ...]:
    """Prompts of any kind as sources; None is one empty text.

    Args:
        prompts: Texts, chats, token ids or sources.
        lm: The language model that will read them: a text is a message where it knows chats, as in
            :func:`pcgcd.generate`.
    """
    if isinstance(prompts, str | Mapping):
        raise InvalidParameterError("prompts are a list of prompts, but one prompt was given")
    sources = tuple(
        item if isinstance(item, Source) else Source(item)
        for item in ([""] if prompts is None else prompts)
    )
    if not sources:
        raise InvalidParameterError("there must be at least one prompt; None samples without one")
    if lm is None:
        return sources
    return tuple(replace(source, prompt=as_asked(lm, source.prompt)) for source in sources)


def fingerprint(sources: Sequence[Source]) -> str:
    """Return a hash (sha256, hexadecimal) of all prompts and constraints in their order."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.to_json().encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def read_prompts(path: str | Path) -> tuple[Source, ...]:
    """Return the prompts of a file: a text on each line, or JSON lines.

    A file whose name ends in ``.jsonl`` has ``{"prompt": "..."}`` or ``{"messages": [...]}`` on
    each line, and may say what the answers have to be: ``"constraint": {"keywords": ["dog"]}``.

    Raises:
        InvalidParameterError: The file has no prompts, or a line means nothing.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidParameterError(f"{path.name} is not a text in UTF-8: {error}") from error
    lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidParameterError(f"{path.name} has no prompts; expected one on each line")
    if path.suffix != ".jsonl":
        return tuple(Source(line.rstrip("\r")) for _, line in lines)
    return tuple(_read_line(line, f"line {number} of {path.name}") for number, line in lines)


def _read_line(line: str, place: str) -> Source:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError(f"{place} is not valid JSON: {error}") from error
    if isinstance(data, str):
        return Source(data)
    if not isinstance(data, dict) or ("prompt" in data) == ("messages" in data):
        raise InvalidParameterError(
            f'{place} must be a text, {{"prompt": ...}} or {{"messages": [...]}}, but is '
            f"{line[:80]}"
        )
    unknown = sorted(data.keys() - _KEYS)
    if unknown:
        raise InvalidParameterError(
            f"{place} has the unknown entries {', '.join(unknown)}; known are "
            f"{', '.join(sorted(_KEYS))}"
        )
    messages = data.get("messages")
    if messages is not None and not (
        isinstance(messages, list)
        and messages
        and all(isinstance(item, dict) and {"role", "content"} <= item.keys() for item in messages)
    ):
        raise InvalidParameterError(
            f"{place}: messages must be a list of objects with role and content"
        )
    if messages is None and not isinstance(data["prompt"], str | list):
        raise InvalidParameterError(f"{place}: a prompt must be a text or a list of token ids")
    constraint = data.get("constraint")
    if constraint is not None:
        _constraint_name(constraint)
    return Source(data["prompt"] if messages is None else messages, constraint)


def constraint_of(described: Mapping[str, Any]) -> Constraint:
    """Return the constraint that plain data describes; see :class:`Source`.

    >>> constraint_of({"regex": "[ab]+"}).matches("abba")
    True
    """
    from pcgcd import constraints

    makers: dict[str, Callable[..., Constraint]] = {
        "tools": constraints.function_call,
        "keywords": constraints.keywords,
        "json_schema": constraints.json_schema,
        "regex": constraints.regex,
        "sql": constraints.sql,
    }
    name = _constraint_name(described)
    options = {key: value for key, value in described.items() if key != name}
    try:
        return makers[name](described[name], **options)
    except TypeError as error:
        raise InvalidParameterError(f"the constraint {name} was not understood: {error}") from error


_NAMES = ("tools", "keywords", "json_schema", "regex", "sql")


def _constraint_name(described: Any) -> str:
    names = [name for name in _NAMES if name in described] if isinstance(described, Mapping) else []
    if len(names) != 1:
        raise InvalidParameterError(
            f"a constraint is an object with exactly one of {', '.join(_NAMES)}, but is "
            f"{str(described)[:80]}"
        )
    return names[0]

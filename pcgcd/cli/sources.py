"""The text of an option: of a file, of standard input, or as it stands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from pcgcd.errors import InvalidParameterError

STANDARD_INPUT = "-"


class Source:
    """A text that an option names: ``-``, else a file that exists, else the text itself.

    Attributes:
        option: The option.
        given: What it was given.
    """

    def __init__(
        self, option: str, given: str, kind: str, mark: str, is_inline: Callable[[str], bool]
    ) -> None:
        """Hold what was given; nothing is read before it is asked for.

        Args:
            option: The option.
            given: What it was given.
            kind: The kind of text.
            mark: How such a text is recognised.
            is_inline: Return whether what was given, and is no file, is such a text.
        """
        self.option = option
        self.given = given
        self._kind, self._mark, self._is_inline = kind, mark, is_inline

    @property
    def is_standard_input(self) -> bool:
        """Say whether standard input is read."""
        return self.given == STANDARD_INPUT

    @cached_property
    def reading(self) -> str:
        """The way in which it is read, as the error's sentence says it.

        Raises:
            InvalidParameterError: In no way.
        """
        if self.is_standard_input:
            return "standard input"
        if os.path.exists(self.given):
            return f"the file {self.given}"
        if self._is_inline(self.given):
            return f"{self._kind} itself"
        raise InvalidParameterError(
            f"{self.option} was given {self.given!r:.60}, which is neither a file that exists nor "
            f"{self._kind} itself, {self._mark}; give one of the two, or - to read standard input"
        )

    @cached_property
    def text(self) -> str:
        """The text, read once.

        Raises:
            InvalidParameterError: There is none, or it is not UTF-8.
        """
        reading = self.reading
        try:
            if self.is_standard_input:
                return sys.stdin.read()
            if os.path.exists(self.given):
                return Path(self.given).read_text(encoding="utf-8")
            return self.given
        except UnicodeDecodeError as error:
            raise InvalidParameterError(
                f"{self.option}, read as {reading}, is not a text in UTF-8: {error}"
            ) from error

    @property
    def json(self) -> Any:
        """The value of the text in JSON.

        Raises:
            InvalidParameterError: It is not valid.
        """
        try:
            return json.loads(self.text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InvalidParameterError(
                f"{self.option}, read as {self.reading}, is not valid JSON: {error}"
            ) from error


def json_source(option: str) -> Callable[[str], Source]:
    """The type of an option that takes JSON."""

    def is_json(text: str) -> bool:
        return text.lstrip()[:1] in ("{", "[")

    return lambda given: Source(option, given, "JSON", "which begins with { or [", is_json)


def grammar_source(option: str) -> Callable[[str], Source]:
    """The type of an option that takes a grammar."""

    def is_grammar(text: str) -> bool:
        return ":" in text

    return lambda given: Source(option, given, "a grammar", "which has a colon", is_grammar)


def read_prompt(given: str, sources: list[Source]) -> str:
    """The prompt: the text itself, or standard input without its last line end.

    Raises:
        InvalidParameterError: Another option reads standard input too.
    """
    if given != STANDARD_INPUT:
        return given
    for source in sources:
        if source.is_standard_input:
            raise InvalidParameterError(
                f"--prompt and {source.option} both read standard input (-), which there is only "
                "once; give one of them in another way"
            )
    return sys.stdin.read().removesuffix("\n")

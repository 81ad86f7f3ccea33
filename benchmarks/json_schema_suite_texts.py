"""Whether an engine accepts some text of a JSON value.

A value has many texts. Those tried here: the separators of ``json.dumps``, with and without their
spaces; strings with and without escapes; whole floats also without their point; and the members of
objects in any order, first in the schema's. The search is depth first and goes back where the
engine refuses, so every engine may choose the order that it can read.

Standard library only: it runs beside every engine, in that engine's environment.
"""

from __future__ import annotations

import json
import time
from typing import Any, Protocol

SEPARATORS = ((", ", ": "), (",", ":"))
MAX_STEPS = 3_000
MAX_CPU_SECONDS = 0.5
# A float from here on may not be the integer that its digits say.
EXACT_FLOAT = 2.0**53


class Reader(Protocol):
    """An engine at a place in a text. States are never changed."""

    # Whether equal states are equal values, so that none need be tried twice.
    has_equal_states: bool

    def start(self) -> Any:
        """The state before a text."""

    def read(self, state: Any, text: bytes) -> Any | None:
        """The state after some more text, or None where it is refused."""

    def may_end(self, state: Any) -> bool:
        """Whether the end of the text is allowed."""


class Orders:
    """In which order the members of an object are tried first: the schema's, or as given."""

    def __init__(self, schema: Any) -> None:
        self.listed: list[dict[str, int]] = []
        self.ranks: dict[str, int] = {}
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                named = part.get("properties")
                if isinstance(named, dict):
                    self.listed.append({name: number for number, name in enumerate(named)})
                    for name in named:
                        self.ranks.setdefault(name, len(self.ranks))
                waiting.extend(reversed(part.values()))
            elif isinstance(part, list):
                waiting.extend(reversed(part))
        self.known: dict[tuple[str, ...], dict[str, int]] = {}

    def of(self, members: dict[str, Any]) -> dict[str, int]:
        """As in the ``properties`` that name most of the members, then as the names first occur."""
        names = tuple(members)
        if names not in self.known:
            best = max(self.listed, key=lambda one: len(one.keys() & members.keys()), default={})
            last = len(self.ranks)
            ranks = {name: (best.get(name, last), self.ranks.get(name, last)) for name in names}
            ordered = sorted(names, key=ranks.__getitem__)
            self.known[names] = {name: number for number, name in enumerate(ordered)}
        return self.known[names]


def size(value: Any) -> int:
    """About as many steps as one text of a value takes."""
    if isinstance(value, dict):
        return 2 + sum(1 + size(part) for part in value.values())
    if isinstance(value, list):
        return 2 + sum(1 + size(part) for part in value)
    return 1


def scalar_texts(value: Any) -> list[bytes]:
    """The texts of a value that is neither an object nor an array."""
    texts = [json.dumps(value, ensure_ascii=False), json.dumps(value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        texts.append(str(int(value)))
    return [text.encode("utf-8", "surrogatepass") for text in dict.fromkeys(texts)]


class Search:
    """Looks for a text of a value that an engine accepts to its end."""

    def __init__(self, reader: Reader, orders: Orders) -> None:
        self.reader, self.orders = reader, orders
        # Whether the last search stopped at a limit instead of at the last text.
        self.was_cut = False

    def accepts(self, value: Any) -> bool:
        """First with little going back, in each order; then with all that the limits allow."""
        self.was_cut = False
        start = self.reader.start()
        little = 3 * size(value)
        for separators in SEPARATORS:
            tries = ((False, little), (True, little), (False, MAX_STEPS))
            for as_given, most in tries:
                found = self._accepts_with(start, value, separators, as_given, most)
                if found is not None:
                    break
            if found:
                return True
            self.was_cut |= found is None
        return False

    def _accepts_with(
        self, start: Any, value: Any, separators: tuple[str, str], as_given: bool, most: int
    ) -> bool | None:
        """Whether there is a text with these separators, or None where the limits are reached."""
        comma, colon = (part.encode() for part in separators)
        deadline = time.process_time() + MAX_CPU_SECONDS
        values: dict[int, Any] = {}
        seen: set[Any] = set()
        tasks_made: dict[Any, Any] = {}

        # What is still to be written is a linked list of tasks; equal ones are the same object.
        def task(kind: str, what: Any, then: Any, names: Any = None, is_first: bool = True) -> Any:
            key = (kind, what, names, is_first, id(then))
            return tasks_made.setdefault(key, (kind, what, names, is_first, then))

        def write(part: Any, then: Any) -> Any:
            values[id(part)] = part
            return task("value", id(part), then)

        waiting = [(start, write(value, None))]
        steps = 0
        while waiting:
            state, tasks = waiting.pop()
            if tasks is None:
                if self.reader.may_end(state):
                    return True
                continue
            if self.reader.has_equal_states:
                if (state, id(tasks)) in seen:
                    continue
                seen.add((state, id(tasks)))
            steps += 1
            if steps > most or (most == MAX_STEPS and time.process_time() > deadline):
                return None
            kind, what, names, is_first, then = tasks
            choices: list[tuple[bytes, Any]]
            if kind == "text":
                choices = [(what, then)]
            elif kind == "members":
                members = values[what]
                # The member that comes first in the schema is tried first: it is pushed last.
                choices = [
                    (
                        (b"" if is_first else comma) + text + colon,
                        write(members[name], task("members", what, then, names - {name}, False)),
                    )
                    for name in sorted(names, key=self._key(members, as_given), reverse=True)
                    for text in reversed(scalar_texts(name))
                ] or [(b"}", then)]
            elif isinstance(values[what], dict):
                choices = [(b"{", task("members", what, then, frozenset(values[what])))]
            elif isinstance(values[what], list):
                rest: Any = task("text", b"]", then)
                for number, item in reversed(list(enumerate(values[what]))):
                    rest = write(item, rest)
                    rest = task("text", comma, rest) if number else rest
                choices = [(b"[", rest)]
            else:
                choices = [(text, then) for text in reversed(scalar_texts(values[what]))]
            for text, following in choices:
                after = self.reader.read(state, text)
                if after is not None:
                    waiting.append((after, following))
        return False

    def _key(self, members: dict[str, Any], as_given: bool) -> Any:
        if as_given:
            return list(members).index
        return self.orders.of(members).__getitem__

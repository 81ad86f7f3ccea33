"""Ours in the measurement of JSON schemas: the byte automaton, read forward and at random."""

from __future__ import annotations

import collections
import json
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from json_schema_suite_texts import Orders, Search
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.validators import validator_for

import pcgcd
from pcgcd.constraints.json_schema import json_schema
from pcgcd.errors import EmptyLanguageError, PcgcdError

States = frozenset[int]
WORDS = 20
WORD_LENGTHS = (20, 60, 200, 400)


class Ours:
    """Schemas as byte automata, as the standard reads them."""

    version = pcgcd.__version__

    def __init__(self) -> None:
        json_schema({"type": "object"}).matches("{}")  # compiles the kernels

    def read(self, schema: Any) -> tuple[Any, dict[str, Any]]:
        try:
            automaton = json_schema(schema, open_objects=True).automaton
        except EmptyLanguageError:
            return Nothing(), {"states": 0, "edges": 0}
        return AutomatonReader(automaton), {
            "states": automaton.num_states,
            "edges": automaton.num_edges,
        }

    def probe(self, schema: Any, reader: Any, number: int) -> dict[str, Any]:
        """Random words, which ``jsonschema`` must accept."""
        if isinstance(reader, Nothing):
            return {"words": 0, "unsound_words": []}
        kind = validators.extend(
            validator_for(schema, default=Draft202012Validator), {"multipleOf": multiple_of}
        )
        validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
        rng = random.Random(number)
        unsound = []
        for _ in range(WORDS):
            text = reader.word(rng, rng.choice(WORD_LENGTHS)).decode()
            try:
                good = validator.is_valid(json.loads(text))
            except (RecursionError, re.error):
                good = True
            if not good:
                unsound.append(text)
        return {"words": WORDS, "unsound_words": unsound}

    def with_final_check(self, row: dict[str, Any]) -> dict[str, Any]:
        """Of a schema that is refused: whether it is right if whole texts are checked at the end.

        That is ``relax={"uniqueItems"}`` and ``Constraint.check``, as in ``generate``.
        """
        try:
            constraint = json_schema(row["schema"], relax={"uniqueItems"}, open_objects=True)
            reader = AutomatonReader(constraint.automaton)
        except PcgcdError:
            return {}
        search, checker = Search(reader, Orders(row["schema"])), constraint.checker
        right = [
            (search.accepts(value) and (not checker or checker(json.dumps(value).encode()))) == good
            for value, good in row["tests"]
        ]
        return {"right_with_final_check": bool(right) and all(right)}


class Nothing:
    """The language of a schema that no value satisfies."""

    has_equal_states = True

    def start(self) -> int:
        return 0

    def read(self, state: int, text: bytes) -> None:
        return None

    def may_end(self, state: int) -> bool:
        return False


class AutomatonReader:
    """Runs an automaton over bytes, forward on texts and at random to an end."""

    has_equal_states = True

    def __init__(self, automaton: Any) -> None:
        self.accepting = frozenset(np.flatnonzero(automaton.accepting_mask).tolist())
        self.initial = frozenset(np.flatnonzero(automaton.initial_mask).tolist())
        sets = automaton.labels.label_class[:, automaton.labels.token_class]
        self.label_bytes = [np.flatnonzero(row).tolist() for row in sets]
        self.members = [frozenset(row) for row in self.label_bytes]
        self.edges: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
        back: dict[int, list[int]] = collections.defaultdict(list)
        for s, t, label in zip(
            automaton.source.tolist(),
            automaton.target.tolist(),
            automaton.label.tolist(),
            strict=True,
        ):
            self.edges[s].append((t, label))
            back[t].append(s)
        self.distance = dict.fromkeys(self.accepting, 0)
        queue = collections.deque(self.accepting)
        while queue:
            state = queue.popleft()
            for origin in back[state]:
                if origin not in self.distance:
                    self.distance[origin] = self.distance[state] + 1
                    queue.append(origin)
        self.known: dict[tuple[States, int], States] = {}

    def start(self) -> States:
        return self.initial

    def read(self, state: States, text: bytes) -> States | None:
        for byte in text:
            key = (state, byte)
            if key not in self.known:
                self.known[key] = frozenset(
                    t for s in state for t, label in self.edges[s] if byte in self.members[label]
                )
            state = self.known[key]
        return state or None

    def may_end(self, state: States) -> bool:
        return bool(state & self.accepting)

    def word(self, rng: random.Random, length: int) -> bytes:
        """A random text: a random walk that turns to the nearest end when it gets long."""
        state = rng.choice(sorted(self.initial & self.distance.keys()))
        out = bytearray()
        while True:
            if state in self.accepting and (
                not self.edges[state] or rng.random() < 0.3 or len(out) > length
            ):
                return bytes(out)
            edges = [(t, label) for t, label in self.edges[state] if t in self.distance]
            if len(out) > length:
                nearest = min(self.distance[t] for t, _ in edges)
                edges = [(t, label) for t, label in edges if self.distance[t] == nearest]
            state, label = rng.choice(edges)
            common = [b for b in self.label_bytes[label] if 0x20 <= b < 0x7F]
            out.append(
                rng.choice(common if common and rng.random() < 0.9 else self.label_bytes[label])
            )


def multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Exactly, as written: jsonschema divides floats, so 4.26 is no multiple of 0.01 there."""
    if validator.is_type(value, "number") and Fraction(repr(value)) % Fraction(repr(step)):
        yield ValidationError(f"{value} is not a multiple of {step}")

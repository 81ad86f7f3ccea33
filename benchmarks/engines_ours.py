"""pcgcd behind the methods that the measurement needs (see engines_worker.Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pcgcd
from pcgcd.automata.masks.table import MaskTable
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.constraints.json_schema import json_schema


class Full:
    """The whole token automaton, which products with language models need, and its masks."""

    def __init__(
        self, tokens: list[bytes | None], eos: int, whitespace: str, definition: str
    ) -> None:
        self.vocabulary = Vocabulary.from_bytes(tokens, eos)
        _ = self.vocabulary.trie, self.vocabulary.fingerprint
        self.whitespace: Any = whitespace
        self.words = np.zeros((len(tokens) + 31) // 32, dtype=np.uint32)
        self.version = pcgcd.__version__

    def constraint(self, schema: dict[str, Any]) -> Any:
        return json_schema(schema, whitespace=self.whitespace, max_length=1_000)

    def compile(self, schema: dict[str, Any]) -> Any:
        """The automaton, and the table that its masks are written from."""
        compiled = self.constraint(schema).compile(self.vocabulary)
        MaskTable.of(compiled)
        return compiled

    def matcher(self, compiled: Any) -> list[Any]:
        table = MaskTable.of(compiled)
        return [table, table.start()]

    def mask(self, matcher: Any, remaining: int) -> None:
        table, states = matcher
        table.mask(states, remaining, self.words)

    def allows(self, token: int) -> bool:
        return bool(int(self.words[token >> 5]) >> (token & 31) & 1)

    def advance(self, matcher: Any, token: int) -> None:
        matcher[1] = matcher[0].advance(matcher[1], token)

    def own_bytes(self, compiled: Any) -> int | None:
        return MaskTable.of(compiled).nbytes + sum(
            array.nbytes
            for array in (
                *(compiled.source, compiled.target, compiled.label),
                *(compiled.initial_mask, compiled.accepting_mask),
                *(compiled.labels.label_class, compiled.labels.token_class),
            )
        )

    def describe(self, compiled: Any) -> dict[str, int]:
        in_class = np.bincount(compiled.labels.token_class, minlength=compiled.labels.num_classes)
        members = compiled.labels.label_class.astype(np.int64) @ in_class
        return {
            "states": compiled.num_states,
            "edges": compiled.num_edges,
            "labels": compiled.labels.num_labels,
            "classes": compiled.labels.num_classes,
            "transitions": int(members[compiled.label].sum()),
        }

    def prepare_batch(self, matchers: list[Any]) -> Any:
        rows = np.zeros((len(matchers), len(self.words)), dtype=np.uint32)
        return matchers[0][0], [states for _, states in matchers], rows

    def mask_batch(self, prepared: Any, remaining: int) -> None:
        table, states, rows = prepared
        table.masks(states, remaining, rows)


class Budget(Full):
    """The same, with no more tokens left than the text needs: masks that look ahead."""

    is_tight = True


class Lazy(Full):
    """Masks from the automaton over bytes; states are lifted when they are met."""

    def compile(self, schema: dict[str, Any]) -> Any:
        return self.constraint(schema).masks(self.vocabulary)

    def matcher(self, compiled: Any) -> list[Any]:
        return [compiled, compiled.start()]

    def own_bytes(self, compiled: Any) -> int | None:
        return None

    def describe(self, compiled: Any) -> dict[str, int]:
        return {}


ENGINES = {"pcgcd": Full, "pcgcd, budget": Budget, "pcgcd lazy": Lazy}

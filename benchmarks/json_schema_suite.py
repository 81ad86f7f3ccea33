"""How right ``json_schema`` is on real schemas: ``python benchmarks/json_schema_suite.py``.

Needs the folder of ``PCGCD_DATA`` (default ``../shared/data``) and ``jsonschema[format]``.

A schema is wholly right if it compiles, accepts every instance given as valid and rejects every one
given as invalid. An instance is a value, and a value has many texts: it counts as accepted if some
text of it is, with the separators of ``json.dumps`` and any order of keys. Soundness is also probed
by random words of the automaton, which ``jsonschema`` must accept after ``json.loads``.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.validators import validator_for

from pcgcd.constraints.json_schema import json_schema
from pcgcd.errors import EmptyLanguageError, PcgcdError

DATA = Path(os.environ.get("PCGCD_DATA", Path(__file__).parents[2] / "shared" / "data"))
States = frozenset[int]


class Runner:
    """Runs an automaton over bytes, forward on texts and at random to an end."""

    def __init__(self, automaton: Any) -> None:
        self.accepting = frozenset(np.flatnonzero(automaton.accepting_mask).tolist())
        self.initial = frozenset(np.flatnonzero(automaton.initial_mask).tolist())
        sets = automaton.labels.label_class[:, automaton.labels.token_class]
        self.label_bytes = [np.flatnonzero(row).tolist() for row in sets]
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
        self.members = [frozenset(row) for row in self.label_bytes]
        self.known: dict[tuple[States, int], States] = {}

    def step(self, states: States, byte: int) -> States:
        key = (states, byte)
        if key not in self.known:
            self.known[key] = frozenset(
                t for s in states for t, label in self.edges[s] if byte in self.members[label]
            )
        return self.known[key]

    def read(self, states: States, text: str) -> States:
        for byte in text.encode():
            states = self.step(states, byte)
        return states

    def accepts(self, value: Any, separators: tuple[str, str]) -> bool:
        """Whether some order of the keys of a value is accepted."""
        self.budget = 20_000
        after = self.value(self.initial, value, separators)
        return bool(after & self.accepting)

    def value(self, states: States, value: Any, separators: tuple[str, str]) -> States:
        """The states after any text of a value."""
        comma, _ = separators
        if not states:
            return states
        if isinstance(value, list):
            states = self.read(states, "[")
            for i, item in enumerate(value):
                states = self.value(self.read(states, comma) if i else states, item, separators)
            return self.read(states, "]")
        if isinstance(value, dict):
            return self.entries(self.read(states, "{"), value, separators)
        return self.read(states, json.dumps(value, ensure_ascii=False)) | self.read(
            states, json.dumps(value)
        )

    def entries(self, states: States, value: dict[str, Any], separators: tuple[str, str]) -> States:
        """Any order of the entries: all sets of keys that can have been written, level by level."""
        comma, colon = separators
        level: dict[frozenset[str], States] = {frozenset(): states}
        for count in range(len(value)):
            following: dict[frozenset[str], States] = {}
            for done, reached in level.items():
                start = self.read(reached, comma) if count else reached
                for key in value:
                    if key in done or not start:
                        continue
                    after = self.read(start, json.dumps(key, ensure_ascii=False) + colon)
                    after = self.value(after, value[key], separators)
                    if after:
                        name = done | {key}
                        following[name] = following.get(name, frozenset()) | after
            # Free keys come in any order: a few hundred orders are enough to find one.
            level = dict(list(following.items())[:300])
        return self.read(frozenset().union(*level.values()), "}") if level else frozenset()

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


def check(schema: Any, tests: list[tuple[Any, bool]], words: int, seed: int) -> dict[str, Any]:
    """What happens to a schema and its instances."""
    started = time.perf_counter()
    try:
        automaton = json_schema(schema).automaton
    except EmptyLanguageError:
        ms = 1e3 * (time.perf_counter() - started)
        wrong = [(value, valid) for value, valid in tests if valid]
        return {"ms": ms, "states": 0, "edges": 0, "wrong": wrong, "unsound": []}
    except PcgcdError as error:
        return {
            "error": f"{type(error).__name__}: {error}",
            "ms": 1e3 * (time.perf_counter() - started),
        }
    ms = 1e3 * (time.perf_counter() - started)
    runner = Runner(automaton)
    wrong = []
    for value, valid in tests:
        accepted = any(runner.accepts(value, s) for s in ((",", ":"), (", ", ": ")))
        if accepted != valid:
            wrong.append((value, valid))
    kind = validators.extend(
        validator_for(schema, default=Draft202012Validator), {"multipleOf": multiple_of}
    )
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    rng = random.Random(seed)
    unsound = []
    for _ in range(words if runner.initial & runner.distance.keys() else 0):
        text = runner.word(rng, rng.choice((20, 60, 200, 400)))
        value = json.loads(text.decode())
        try:
            good = validator.is_valid(value)
        except (RecursionError, re.error):
            good = True
        if not good:
            unsound.append(text.decode())
    return {
        "ms": ms,
        "states": automaton.num_states,
        "edges": automaton.num_edges,
        "wrong": wrong,
        "unsound": unsound,
    }


def bench_rows() -> Iterator[tuple[str, Any, list[tuple[Any, bool]]]]:
    with (DATA / "json_schema" / "jsonschemabench.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            tests = [(v, True) for v in row["valid"]] + [(v, False) for v in row["invalid"]]
            yield row["id"], row["schema"], tests


def suite_rows() -> Iterator[tuple[str, Any, list[tuple[Any, bool]]]]:
    folder = DATA / "json_schema" / "test-suite"
    for path in sorted(folder.rglob("*.json")):
        for group in json.loads(path.read_text()):
            tests = [(test["data"], test["valid"]) for test in group["tests"]]
            yield f"{path.relative_to(folder)}: {group['description']}", group["schema"], tests


def measure(rows: Any, words: int, verbose: bool) -> dict[str, Any]:
    """Figures over all rows."""
    results = []
    for i, (name, schema, tests) in enumerate(rows):
        result = check(schema, tests, words, i)
        results.append((name, tests, result))
        if verbose and ("error" in result or result["wrong"] or result["unsound"]):
            short = (
                result.get("error")
                or f"wrong {str(result['wrong'])[:300]} unsound {str(result['unsound'][:2])[:400]}"
            )
            print(f"{name}: {short[:600]}", flush=True)
        if verbose and result["ms"] > 1500:
            print(f"{name}: slow {result['ms']:.0f} ms", flush=True)
    good = [r for _, _, r in results if "error" not in r]
    times = sorted(r["ms"] for _, _, r in results)
    states = sorted(r["states"] for r in good)
    wrong = [pair for r in good for pair in r["wrong"]]
    return {
        "schemas": len(results),
        "compiled": len(good),
        "wholly_right": sum(not r["wrong"] and not r["unsound"] for r in good),
        "valid_instances": sum(v for _, t, r in results if "error" not in r for _, v in t),
        "valid_rejected": sum(v for _, v in wrong),
        "invalid_instances": sum(not v for _, t, r in results if "error" not in r for _, v in t),
        "invalid_accepted": sum(not v for _, v in wrong),
        "random_words": words * len(good),
        "random_words_unsound": sum(len(r["unsound"]) for r in good),
        "compile_ms": {
            "p50": statistics.median(times),
            "p95": times[int(0.95 * len(times))],
            "max": times[-1],
        },
        "states": {"p50": statistics.median(states), "p95": states[int(0.95 * len(states))]},
        "errors": collections.Counter(
            r["error"].split(":")[0] for _, _, r in results if "error" in r
        ),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=20, help="random words for each schema")
    parser.add_argument("--only", choices=("bench", "suite"))
    parser.add_argument("--every", type=int, default=1, help="take only each so many-th schema")
    parser.add_argument("--start", type=int, default=0, help="beginning with this one")
    parser.add_argument("--verbose", action="store_true", help="name the schemas that fail")
    parser.add_argument("--out", type=Path, default=RESULTS / "json_schema.json")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    json_schema({"type": "object"}).matches("{}")  # compiles the kernels
    figures = {}
    for name, rows in (("bench", bench_rows), ("suite", suite_rows)):
        if arguments.only in (None, name):
            chosen = [row for i, row in enumerate(rows()) if i % arguments.every == arguments.start]
            figures[name] = measure(chosen, arguments.words, arguments.verbose)
            print(name, json.dumps(figures[name], indent=1))
    if arguments.only is None and arguments.every == 1:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One engine on many schemas, in a process of its own: lines of JSON as they are measured.

    python benchmarks/json_schema_suite_worker.py <engine> <vocabulary> <rows file> <data folder>

First a line with the version. Then for each row a line when its schema is compiled (or an error)
and one for each instance, so that whoever reads them can tell how long each part takes.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from json_schema_suite_texts import Orders, Search

# What is not an engine's default.
OPTIONS: dict[str, dict[str, Any]] = {
    "pcgcd": {},
    "xgrammar": {},
    "llguidance": {},
    "outlines-core": {},
    "xgrammar, strict_mode=False": {"strict_mode": False},
}


class _Tokens:
    """What the peers have in common: the tokens of single bytes, and where texts begin."""

    has_equal_states = False

    def __init__(self, engine: Any, compiled: Any, tokens: list[int], eos: int) -> None:
        self.engine, self.compiled, self.tokens, self.eos = engine, compiled, tokens, eos

    def start(self) -> Any:
        return self.engine.matcher(self.compiled)

    def ids(self, text: bytes) -> list[int]:
        return [self.tokens[byte] for byte in text]


class XGrammarReader(_Tokens):
    def read(self, state: Any, text: bytes) -> Any | None:
        after = state.fork()
        return after if all(map(after.accept_token, self.ids(text))) else None

    def may_end(self, state: Any) -> bool:
        return bool(state.fork().accept_token(self.eos))


class LLGuidanceReader(_Tokens):
    def read(self, state: Any, text: bytes) -> Any | None:
        after = state.deep_copy()
        ids = self.ids(text)
        return after if after.try_consume_tokens(ids) == len(ids) else None

    def may_end(self, state: Any) -> bool:
        return bool(state.is_accepting())


class OutlinesReader(_Tokens):
    has_equal_states = True

    def start(self) -> Any:
        return self.compiled.get_initial_state()

    def read(self, state: Any, text: bytes) -> Any | None:
        for token in self.ids(text):
            state = self.compiled.get_next_state(state, token)
            if state is None:
                return None
        return state

    def may_end(self, state: Any) -> bool:
        return bool(self.compiled.is_final_state(state))


class Peer:
    """An engine from PyPI behind ``read``, with its documented defaults for JSON schemas."""

    def __init__(self, name: str, vocabulary: str, data: Path) -> None:
        from engines_peers import ENGINES

        library = name.split(",")[0]
        made = _vocabulary(vocabulary, data)
        numbers = {text: i for i, text in enumerate(made.tokens) if text}
        self.bytes = [numbers.get(bytes([byte]), -1) for byte in range(256)]
        if -1 in self.bytes[:0xC0]:
            raise ValueError(f"the vocabulary {vocabulary} has no token for some single byte")
        self.eos = made.eos
        engine: Any = ENGINES[library](made.tokens, made.eos, "free", made.definition)
        engine.options = OPTIONS[name]
        self.engine, self.version = engine, engine.version
        self.takes_text = library == "llguidance"
        self.reader: Any = {
            "xgrammar": XGrammarReader,
            "llguidance": LLGuidanceReader,
            "outlines-core": OutlinesReader,
        }[library]

    def read(self, schema: Any) -> tuple[Any, dict[str, Any]]:
        given = json.dumps(schema) if self.takes_text else schema
        return self.reader(self.engine, self.engine.compile(given), self.bytes, self.eos), {}

    def probe(self, schema: Any, reader: Any, number: int) -> dict[str, Any]:
        return {}

    def with_final_check(self, row: dict[str, Any]) -> dict[str, Any]:
        return {}


def _vocabulary(name: str, data: Path) -> Any:
    from engines_workload import TOKENIZERS, _byte_alphabet, _byte_level

    if name != "bytes":
        return TOKENIZERS[name](data)
    alphabet = _byte_alphabet()
    words = [*sorted(alphabet, key=alphabet.__getitem__), "<end>"]
    return _byte_level(words, [], {256}, 256, "the 256 bytes")


def engine_of(name: str, vocabulary: str, data: Path) -> Any:
    if name == "pcgcd":
        from json_schema_suite_ours import Ours

        return Ours()
    return Peer(name, vocabulary, data)


def tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def measure(engine: Any, row: dict[str, Any]) -> None:
    """Compile one schema and try all its instances."""
    started = time.perf_counter()
    try:
        reader, facts = engine.read(row["schema"])
    except Exception as error:
        found = engine.with_final_check(row)
        tell({"row": row["number"], "error": f"{type(error).__name__}: {error}"[:300], **found})
        return
    tell({"row": row["number"], "compile_ms": 1e3 * (time.perf_counter() - started), **facts})
    search = Search(reader, Orders(row["schema"]))
    for number, (value, _) in enumerate(row["tests"]):
        accepted = search.accepts(value)
        tell({"row": row["number"], "test": number, "accepted": accepted, "cut": search.was_cut})
    tell({"row": row["number"], "done": True, **engine.probe(row["schema"], reader, row["number"])})


def main(name: str, vocabulary: str, rows: Path, data: Path) -> None:
    warnings.simplefilter("ignore")
    engine = engine_of(name, vocabulary, data)
    tell({"version": engine.version})
    with rows.open(encoding="utf-8") as lines:
        for line in lines:
            measure(engine, json.loads(line))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))

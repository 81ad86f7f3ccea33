"""Prompts with constraints: calls (BFCL), words (CommonGen), JSON schemas, queries (Spider).

Each set is split once and for all: an HMM is distilled on one part, and measured on the other.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pcgcd.basics.files import write_text
from pcgcd.errors import InvalidParameterError, PcgcdError
from pcgcd.learning import Source
from pcgcd.learning.distillation.prompts import constraint_of

T = TypeVar("T")

Part: TypeAlias = Literal["train", "held out"]

_TOOL_FILES = ("simple_python", "multiple", "live_simple")
_HELD_OUT_EVERY = 5
_LONGEST_PROMPT = 1_000  # characters
_LONGEST_CALL = 120  # bytes of the shortest call
_MOST_WORDS = 4


def data_folder(given: str | Path | None = None) -> Path:
    """Return the folder of the data: the one given, ``PCGCD_DATA``, or ``../shared/data``.

    Raises:
        InvalidParameterError: There is no such folder.
    """
    folder = Path(given if given is not None else os.environ.get("PCGCD_DATA", "../shared/data"))
    if not folder.is_dir():
        raise InvalidParameterError(
            f"the data of the experiments was expected in the folder {folder}, which is not there; "
            "set PCGCD_DATA to the folder that has bfcl/ and commongen/"
        )
    return folder


def tool_prompts(folder: Path, part: Part) -> list[Source]:
    """Questions of BFCL that ask for one function call, with the functions as the constraint.

    Left out are questions whose functions take more than 1,000 characters to describe, or whose
    shortest call takes more than 120 bytes.
    """
    found = []
    for name in _TOOL_FILES:
        for row in _rows(folder / "bfcl" / f"{name}.jsonl"):
            (messages, *more_turns) = row["question"]
            tools = [{key: tool[key] for key in ("name", "parameters")} for tool in row["function"]]
            system = f"Answer with a JSON function call. {json.dumps(tools)}"
            if more_turns or len(messages) != 1 or len(system) > _LONGEST_PROMPT:
                continue
            prompt = [{"role": "system", "content": system}, *messages]
            described = {"tools": tools, "whitespace": "compact"}
            if _shortest(described) <= _LONGEST_CALL:
                found.append(Source(prompt, described))
    return _part(found, part, "tools")


def word_prompts(folder: Path, part: Part) -> list[Source]:
    """Up to four words of CommonGen to write a sentence with.

    The training part of CommonGen is for training, its development part is held out.
    """
    found = []
    for row in _rows(folder / "commongen" / ("train.jsonl" if part == "train" else "dev.jsonl")):
        words = row["concepts"]
        if len(words) <= _MOST_WORDS and all(word.isalpha() for word in words):
            found.append(words_source(words))
    random.Random("words").shuffle(found)
    return found


def words_source(words: Sequence[str]) -> Source:
    """Return a sentence with some words, asked for and required."""
    asked = f"Write a short sentence with the words: {', '.join(words)}."
    described = {"keywords": list(words), "ends_with": ".!", "alphabet": "ascii"}
    return Source([{"role": "user", "content": asked}], described)


def schema_prompts(folder: Path, part: Part) -> list[Source]:
    """JSON schemas of JSONSchemaBench to answer with a value of.

    Left out are schemas of more than 1,000 characters, those that `json_schema` cannot compile as
    they are, and those whose shortest value takes more than 120 bytes.
    """
    found = []
    for row in _rows(folder / "json_schema" / "jsonschemabench.jsonl"):
        schema = json.dumps(row["schema"])
        described = {"json_schema": row["schema"], "whitespace": "compact"}
        if len(schema) <= _LONGEST_PROMPT and _shortest(described) <= _LONGEST_CALL:
            asked = f"Answer with a JSON value for this schema, and nothing else. {schema}"
            found.append(Source([{"role": "user", "content": asked}], described))
    return _part(found, part, "schemas")


def query_prompts(folder: Path, part: Part) -> list[Source]:
    """Questions of Spider, with the tables and columns of their database as the constraint.

    Databases are divided, not questions. Left out are those that take more than 1,000 characters
    to describe.
    """
    described = json.loads((folder / "spider" / "tables.json").read_text(encoding="utf-8"))
    tables = {row["db_id"]: _tables(row) for row in described}
    chosen = set(_part(sorted(tables), part, "databases"))
    found = []
    for row in _rows(folder / "spider" / "dev.jsonl"):
        listed = "; ".join(f"{name}({', '.join(c)})" for name, c in tables[row["db_id"]].items())
        if row["db_id"] in chosen and len(listed) <= _LONGEST_PROMPT:
            asked = f"Answer with one SQLite query. Tables: {listed}. {row['question']}"
            prompt = [{"role": "user", "content": asked}]
            found.append(Source(prompt, {"sql": tables[row["db_id"]], "max_depth": 0}))
    random.Random("queries").shuffle(found)
    return found


def distillation_prompts(folder: Path) -> list[Source]:
    """Return the training prompts of all kinds, mixed: most with their constraint, some without.

    Of 40 in a row, 15 ask for words, 12 for a call, 4 for JSON and 1 for a query under their
    constraint; 3, 1, 1 and 3 without one.
    """
    words = word_prompts(folder, "train")
    tools, schemas, queries = (
        cycle(prompts(folder, "train")) for prompts in (tool_prompts, schema_prompts, query_prompts)
    )
    order = random.Random("order")
    mixed: list[Source] = []
    for start in range(0, len(words) - 17, 18):
        block = [*words[start : start + 15], *map(_free, words[start + 15 : start + 18])]
        for kind, constrained, free in ((tools, 12, 1), (schemas, 4, 1), (queries, 1, 3)):
            block += [next(kind) for _ in range(constrained)]
            block += [_free(next(kind)) for _ in range(free)]
        order.shuffle(block)
        mixed += block
    return mixed


def write_prompts(out: Path, sources: Sequence[Source]) -> None:
    """Write prompts for ``pcgcd distill`` to ``prompts.jsonl``."""
    lines = [source.to_json() for source in sources]
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "prompts.jsonl", "".join(line + "\n" for line in lines))
    print(f"written: {out / 'prompts.jsonl'}, {len(lines)} prompts")


def _part(found: list[T], part: Part, name: str) -> list[T]:
    """One part of a shuffled list: a fifth of it is held out."""
    random.Random(name).shuffle(found)
    held_out = part == "held out"
    return [item for i, item in enumerate(found) if (i % _HELD_OUT_EVERY == 0) == held_out]


def _shortest(described: dict[str, Any]) -> float:
    """Count the bytes of the shortest answer; infinite without one, or without a constraint."""
    try:
        shortest = constraint_of(described).automaton.shortest_length()
    except PcgcdError:
        return math.inf
    return math.inf if shortest is None else shortest


def _tables(described: dict[str, Any]) -> dict[str, list[str]]:
    """Return the columns of each table, from an entry of Spider's tables.json."""
    names = described["table_names_original"]
    columns: dict[str, list[str]] = {name: [] for name in names}
    for table, column in described["column_names_original"]:
        if table >= 0:
            columns[names[table]].append(column)
    return columns


def _free(source: Source) -> Source:
    return Source(source.prompt)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidParameterError(
            f"{path.parent.name}/{path.name} was expected in the data folder, but cannot be read "
            f"({error.strerror}); set PCGCD_DATA to the folder that has it"
        ) from error
    return map(json.loads, lines)

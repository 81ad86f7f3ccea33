"""Random schemas, both sides: what the automaton accepts is valid, and what is valid is accepted.

The oracle is ``jsonschema``. It searches patterns with Python's ``re``, in which ``$`` also matches
before a last line feed; in ECMA-262, and so in JSON Schema, it does not.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pcgcd.constraints import Constraint, json_schema
from pcgcd.constraints.json_schema.checking import satisfies
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.formulas import holds
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, UnsupportedConstraintError
from tests.constraints.json_fuzzing import SchemaMaker, constants_of, texts_of
from tests.constraints.json_walks import random_text

CASES = 40
MOST_TEXTS = 300


def oracle(schema: Any) -> Draft202012Validator:
    """The validator, with the ``$`` of ECMA-262 in the patterns of the random schemas."""
    text = json.dumps(schema)
    return Draft202012Validator(json.loads(text.replace("b$", r"b\\Z").replace("]$", r"]\\Z")))


def built(schema: Any, **options: Any) -> Constraint | None:
    """The constraint; None if no value satisfies the schema."""
    try:
        constraint = json_schema(schema, **options)
    except EmptyLanguageError:
        return None
    return None if constraint.automaton.is_empty() else constraint


def finite(text: bytes) -> Any:
    """The value of a text; None where a number is too large for a float."""
    value = json.loads(text)
    return None if "Infinity" in json.dumps(value) else value


def left_out(constraint: Constraint) -> bool:
    """Whether more was left out than values that are nested deeper than those that are tried."""
    return not all("nested to " in line for line in constraint.dropped)


def is_fine(schema: Any, value: Any) -> bool:
    """Whether numbers have an exponent or many decimals, which multiples are written without."""
    fine = re.search(r"\de|\.\d{6}", json.dumps(value)) is not None
    return fine and "multipleOf" in json.dumps(schema)


def check(seed: int) -> bool:
    """Check one random schema; whether it could be built without leaving anything out."""
    maker = SchemaMaker(seed)
    schema = maker.schema(maker.rng.choice([1, 2, 2, 3]))
    validator = oracle(schema)
    order = maker.rng.choice(["schema", "schema", "any"])
    if "minProperties" in json.dumps(schema):
        order = "schema"  # tallies of names in any order are slow, and have tests of their own
    try:
        constraint = built(schema, order=order, open_objects=True)
    except (UnsupportedConstraintError, AutomatonTooLargeError):
        return False
    words, reader = [], Reader(Document(schema))
    for i in range(0 if constraint is None else 6):
        text = random_text(constraint, 10 * seed + i)
        words.append(finite(text))
        try:
            assert validator.is_valid(json.loads(text)), (seed, schema, text)
        except OverflowError:  # the oracle divides a number that is too large for a float
            assert "Infinity" in json.dumps(json.loads(text)), (seed, schema, text)
    known = [*constants_of(schema)]
    near = [maker.mutated(maker.rng.choice([*words, *known])) for _ in range(4) if words or known]
    for value in (*known[:8], *near, *words, *(maker.value(2) for _ in range(2))):
        valid = validator.is_valid(value)
        # What checks whole values after a relaxation must agree as well, without any automaton.
        assert satisfies(reader, holds(reader.document.root), value) == valid, (seed, schema, value)
        texts = islice(texts_of(value), MOST_TEXTS)
        accepted = constraint is not None and any(map(constraint.matches, texts))
        complete = constraint is None or not (left_out(constraint) or is_fine(schema, value))
        assert accepted == valid or (valid and not complete), (seed, order, schema, value)
    return True


@pytest.mark.parametrize("chunk", range(6))
def test_random_schemas_accept_exactly_the_valid_values(chunk: int) -> None:
    done = sum(check(CASES * chunk + i) for i in range(CASES))
    assert done > CASES * 0.8


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_ten_thousand_random_schemas_accept_exactly_the_valid_values(chunk: int) -> None:
    assert sum(check(1000 + 250 * chunk + i) for i in range(250)) > 200


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {"oneOf": [{"additionalProperties": {"type": "boolean"}}, {"required": ["b"]}]},
            [{"a": True}, {"b": 1}, {"b": 1, "a": 2}],
            [{"a": ["", 5.77]}, {"b": False}, {"a": 3}],
        ),
        (
            {"type": "object", "required": ["id"], "not": {"const": {"id": 1}}},
            [{"id": 2}, {"id": 1, "X": 1}],
            [{"X": 1}, {"id": 1}, {}],
        ),
        (
            {"required": ["a", "b"], "not": {"patternProperties": {"^x": {"type": "string"}}}},
            [{"a": 1, "b": 2, "x": 3}],
            [{"x": 3}, {"a": 1, "x": 3}, {"b": 2, "x": 3}, {"a": 1, "b": 2, "x": ""}, 5],
        ),
    ],
)
def test_a_property_that_must_exist_does_not_replace_required_ones(
    schema: Any, valid: list[Any], invalid: list[Any], order: str
) -> None:
    constraint = json_schema(schema, order=order, open_objects=True)
    for value in (*valid, *invalid):
        accepted = any(map(constraint.matches, texts_of(value)))
        assert accepted == (value in valid) == Draft202012Validator(schema).is_valid(value), value

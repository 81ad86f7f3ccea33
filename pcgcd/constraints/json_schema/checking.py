"""Whether a given value satisfies a schema, all of it: also what no automaton can remember."""

from __future__ import annotations

import json
from typing import Any

from pcgcd.constraints.json_schema.formulas import FALSE, TRUE, Formula, json_key
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.constraints.json_schema.specs import (
    ArraySpec,
    ConstantSpec,
    NumberSpec,
    ObjectSpec,
    StringSpec,
    Witness,
    kind_of,
)


def satisfies(reader: Reader, formula: Formula, value: Any) -> bool:
    """Return whether a formula holds of a value; keywords that could not be read are left out."""
    if formula in (TRUE, FALSE):
        return formula == TRUE
    return any(_fits(reader, spec, value) for spec in reader.values(formula, kind_of(value)))


def text_satisfies(reader: Reader, formula: Formula, text: bytes) -> bool:
    """Return whether a text is JSON, and a formula holds of its value."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return satisfies(reader, formula, value)


def _fits(reader: Reader, spec: Any, value: Any) -> bool:
    if isinstance(spec, ConstantSpec):
        return value in spec.values
    if isinstance(spec, NumberSpec | StringSpec):
        listed = spec.values is None or json_key(value) in map(json_key, spec.values)
        # The text of a number may be too large for a float, in which case it is one at least.
        return listed and (spec.admits(value) or spec == NumberSpec())
    if isinstance(spec, ArraySpec):
        return _array_fits(reader, spec, value)
    return _object_fits(reader, spec, value)


def _size_fits(spec: ArraySpec | ObjectSpec, size: int) -> bool:
    return spec.least <= size and (spec.most is None or size <= spec.most)


def _array_fits(reader: Reader, spec: ArraySpec, items: list[Any]) -> bool:
    if not _size_fits(spec, len(items)):
        return False
    if not all(satisfies(reader, spec.item(i), item) for i, item in enumerate(items)):
        return False
    for formula, least, most, start in spec.contains:
        count = sum(satisfies(reader, formula, item) for item in items[start:])
        if count < least or (most is not None and count > most):
            return False
    distinct = len({json_key(item) for item in items}) == len(items)
    return distinct or not spec.unique if spec.repeated is None else not distinct


def _object_fits(reader: Reader, spec: ObjectSpec, members: dict[str, Any]) -> bool:
    return (
        _size_fits(spec, len(members))
        and all(name in members for name in spec.required)
        and all(satisfies(reader, formula, name) for formula in spec.keys for name in members)
        and all(satisfies(reader, spec.on(name), value) for name, value in members.items())
        and all(
            any(_is_witness(reader, witness, name, value) for name, value in members.items())
            for witness in spec.witnesses
        )
    )


def _is_witness(reader: Reader, witness: Witness, name: str, value: Any) -> bool:
    return (
        witness.may_have(name)
        and satisfies(reader, witness.key, name)
        and satisfies(reader, witness.value, value)
    )

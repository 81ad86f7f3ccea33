"""What a schema becomes does not depend on what was tried before with free values nested deeper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pcgcd import FiniteAutomaton
from pcgcd.constraints import json_schema
from pcgcd.constraints.json_schema.building import Builder

pytestmark = pytest.mark.filterwarnings("ignore::pcgcd.errors.LoweredBoundWarning")


def record(count: int, value: Any, **more: Any) -> dict[str, Any]:
    properties = {f"{chr(97 + k % 26)}{k}": value for k in range(count)}
    return {"type": "object", "properties": properties, **more}


OPEN = record(3, {"type": "integer"})
TYPED = {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}
SCHEMAS = {
    "open values": record(150, {}),
    "open objects in lists": record(240, {"type": "array", "items": OPEN}),
    # Free objects are opened, since other objects begin like them.
    "objects beside open values": record(70, {"anyOf": [TYPED, {"type": "array"}, {}]}),
    "objects beside free objects": record(130, {"anyOf": [TYPED, {"type": "object"}]}),
    "long strings": record(60, {"properties": {"s": {"maxLength": 40}, "o": {}}}),
    "counted items": record(40, {"items": OPEN, "maxItems": 900, "type": "array"}),
    "counted properties": record(70, {"type": "object", "maxProperties": 2}),
    "two levels": record(9, record(8, {"type": "array", "items": record(2, {})})),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_taking_over_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take_over = Builder.takes_over

    def noting(builder: Builder, other: Builder) -> None:
        take_over(builder, other)
        taken.append(len(builder._built))

    with monkeypatch.context() as patch:
        patch.setattr(Builder, "takes_over", lambda *_: None)
        anew = json_schema(SCHEMAS[name], open_objects=True)
    monkeypatch.setattr(Builder, "takes_over", noting)
    found = json_schema(SCHEMAS[name], open_objects=True)
    assert taken, "everything was built at once: the schema is too small for this test"
    if name in ("open objects in lists", "two levels"):
        assert max(taken) > 0
    assert found.dropped == anew.dropped
    assert_equal(found.automaton, anew.automaton)


def assert_equal(first: FiniteAutomaton, second: FiniteAutomaton) -> None:
    for array in ("source", "target", "label", "initial_mask", "accepting_mask"):
        np.testing.assert_array_equal(getattr(first, array), getattr(second, array))
    np.testing.assert_array_equal(first.labels.label_class, second.labels.label_class)
    np.testing.assert_array_equal(first.labels.token_class, second.labels.token_class)


def test_free_values_are_as_deep_as_they_are_reported() -> None:
    constraint = json_schema(SCHEMAS["open objects in lists"], open_objects=True)
    assert "free_depth lowered from 2 to 1" in constraint.dropped
    assert constraint.matches('{"a0": [{"more": [1]}]}')
    assert not constraint.matches('{"a0": [{"more": [[1]]}]}')
    assert not constraint.matches('{"a0": [{"more": [[[1]]]}]}')

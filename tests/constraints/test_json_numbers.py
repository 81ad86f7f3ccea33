"""Numbers against arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.constraints.json_schema import json_schema
from pcgcd.constraints.json_schema.numbers import integers
from pcgcd.errors import EmptyLanguageError
from tests.automata.derivatives import matches

FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
BOUNDS = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1000, 1000, allow_nan=False))


@given(st.integers(-3000, 3000), st.integers(0, 5000), st.integers(-9000, 9000))
def test_integers_between_two_bounds(low, width, value):
    expression = integers(low, low + width)
    assert matches(expression, str(value).encode()) == (low <= value <= low + width)


@given(st.one_of(st.none(), st.integers()), st.one_of(st.none(), st.integers()), st.integers())
def test_integers_with_open_ends(low, high, value):
    inside = (low is None or low <= value) and (high is None or value <= high)
    assert matches(integers(low, high), str(value).encode()) == inside


@given(BOUNDS, BOUNDS, st.booleans(), st.booleans(), st.one_of(BOUNDS, FLOATS))
@settings(max_examples=60)
def test_numbers_between_two_bounds(low, high, strict_low, strict_high, value):
    schema = {"type": "number"}
    schema["exclusiveMinimum" if strict_low else "minimum"] = low
    schema["exclusiveMaximum" if strict_high else "maximum"] = high
    inside = (low < value if strict_low else low <= value) and (
        value < high if strict_high else value <= high
    )
    try:
        constraint = json_schema(schema)
    except EmptyLanguageError:
        assert not inside
        return
    for candidate in (value, low, high):
        inside = (low < candidate if strict_low else low <= candidate) and (
            candidate < high if strict_high else candidate <= high
        )
        # Zero is excluded together with what a plain decimal of twenty digits cannot tell from it.
        if abs(candidate) > 1e-19 or candidate == 0:
            assert constraint.matches(json.dumps(candidate)) == inside


@pytest.mark.parametrize("step", [1, 2, 7, 0.5, 0.01, 2.5, 0.125, 30])
def test_multiples(step):
    constraint = json_schema({"type": "number", "multipleOf": step})
    opposite = json_schema({"type": "number", "not": {"multipleOf": step}})
    for n in range(-300, 300):
        for scale in (1, 10, 100, 1000):
            text = json.dumps(n / scale)
            if "e" in text:
                continue
            divides = Fraction(text) % Fraction(repr(step)) == 0
            assert constraint.matches(text) == divides
            assert opposite.matches(text) != divides


def test_multiples_of_whole_numbers_within_bounds():
    schema = {"type": "integer", "multipleOf": 6, "minimum": -50, "exclusiveMaximum": 102}
    constraint = json_schema(schema)
    assert [n for n in range(-200, 200) if constraint.matches(str(n))] == list(range(-48, 102, 6))


def test_two_steps_ask_for_their_common_multiple():
    constraint = json_schema({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"})
    assert [n for n in range(50) if constraint.matches(str(n))] == [0, 12, 24, 36, 48]


def test_not_an_integer_has_decimals():
    constraint = json_schema({"type": "number", "not": {"type": "integer"}})
    assert constraint.matches("1.5")
    for text in ("1", "1.0", "1.00000000000000000001", "1e2", "12345678901234567.5"):
        assert not constraint.matches(text)


def test_an_excluded_bound_stays_excluded_when_read_as_a_float():
    constraint = json_schema({"type": "number", "exclusiveMaximum": 1})
    assert constraint.matches("0.9999999999999999")
    assert not constraint.matches("0.99999999999999999999")
    positive = json_schema({"type": "number", "exclusiveMinimum": 0})
    assert positive.matches("1e-300")
    assert not positive.matches("0.0")
    assert not positive.matches("1e-400")

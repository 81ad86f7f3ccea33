"""Whatever is thrown at function_call: an answer or one of our errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.constraints.test_fuzz import (
    HURTFUL_SCHEMAS,
    JUNK,
    SCHEMAS,
    SECONDS,
    Call,
    alarm,
    attempt,
    calls,
)

function_call = pytest.importorskip("pcgcd.constraints.tools.function_call").function_call

TOOLS = st.lists(
    st.one_of(
        JUNK,
        st.fixed_dictionaries({"name": st.text(max_size=5), "parameters": SCHEMAS}),
        st.fixed_dictionaries(
            {
                "type": st.just("function"),
                "function": st.fixed_dictionaries(
                    {"name": st.sampled_from(["f", "g", ""]), "parameters": SCHEMAS}
                ),
            }
        ),
    ),
    max_size=3,
)
CALLS = calls(function_call, st.one_of(TOOLS, JUNK), style=st.sampled_from(["json", "python"]))


@given(CALLS)
@settings(max_examples=30)
def test_function_call_answers_or_raises_our_errors(call: Call) -> None:
    attempt(call)


@pytest.mark.slow
@given(CALLS)
@settings(max_examples=700)
def test_many_function_calls_answer_or_raise_our_errors(call: Call) -> None:
    with alarm(SECONDS):
        attempt(call)


def test_hurtful_tools_answer_or_raise_our_errors() -> None:
    for schema in HURTFUL_SCHEMAS.values():
        tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}
        attempt(Call(function_call, ([tool],), {}))

"""What notebooks show is well-formed, and says what is there."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pcgcd
from pcgcd import HMM
from pcgcd.circuits.tables import table_html
from pcgcd.constraints import json_schema, regex
from tests.decoding import worlds
from tests.viz.examples import json_automaton, large_vocabulary, parity
from tests.viz.test_circuit import monarch, tree

HIDDEN = HMM.random(3, 19, generator=torch.Generator().manual_seed(0))


def generation(**options: Any) -> pcgcd.Generation:
    return pcgcd.generate(worlds.table(1), worlds.constraint(), budget=6, seed=0, **options)


OBJECTS: dict[str, tuple[Any, str]] = {
    "automaton": (json_automaton(), "10 states"),
    "automaton of many tokens": (large_vocabulary(), "1000 tokens"),
    "hmm": (HIDDEN, "transition"),
    "monarch": (monarch(), "Monarch"),
    "product": (HIDDEN * json_automaton(), "⊗"),
    "mixture": (0.5 * HMM.random(2, 2) + 0.5 * parity(), "BlockDiagonal"),
    "circuit": (tree(), "Dense"),
    "constraint": (regex('<a href="&">|[\x00-\x1f]+'), "regex"),
    "large constraint": (
        json_schema({"type": "object", "properties": {k: {"type": "string"} for k in "abcdef"}}),
        "not drawn",
    ),
    "vocabulary": (worlds.VOCABULARY, "longest token"),
    "result": (generation(method="gcd", particles=4), "weight"),
    "long result": (generation(method="gcd", particles=30), "and 10 more"),
    "rejected": (generation(method="rejection", particles=2), "text"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_html_is_well_formed_and_says_what_it_is(name: str) -> None:
    value, expected = OBJECTS[name]
    page = ET.fromstring(value._repr_html_())
    assert expected in "".join(page.itertext())


@pytest.mark.parametrize("name", ["automaton", "automaton of many tokens", "circuit"])
def test_svg_is_well_formed(name: str) -> None:
    picture = ET.fromstring(OBJECTS[name][0]._repr_svg_())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("name", ["automaton", "constraint", "circuit"])
def test_what_can_be_drawn_is_drawn(name: str) -> None:
    page = ET.fromstring(OBJECTS[name][0]._repr_html_())
    assert page.find(".//{http://www.w3.org/2000/svg}svg") is not None


@given(st.text(), st.lists(st.lists(st.text(), max_size=3), max_size=3))
def test_tables_of_any_text_are_well_formed(title: str, rows: list[list[str]]) -> None:
    page = ET.fromstring(table_html(title, ["a", "<b>"], rows))
    assert len(page.findall(".//tbody/tr")) == len(rows)


def test_a_result_is_ordered_by_weight() -> None:
    result = OBJECTS["result"][0]
    page = ET.fromstring(result._repr_html_())
    shown = [float(row[0].text or "nan") for row in page.findall(".//tbody/tr")]
    assert shown == sorted(shown, reverse=True)
    assert shown == [pytest.approx(w, abs=1e-3) for w in sorted(result.weights, reverse=True)]

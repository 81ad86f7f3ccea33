"""Automata go to other libraries and come back the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import networkx as nx
import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import given, settings

from pcgcd import FiniteAutomaton
from pcgcd.automata import compile_expression
from pcgcd.automata import expressions as ex
from pcgcd.automata.drawing import to_svg
from pcgcd.automata.interop import (
    from_automata_lib,
    from_dot,
    from_networkx,
    to_automata_lib,
    to_networkx,
)
from pcgcd.errors import InvalidParameterError
from tests.automata.languages import VOCAB_SIZE, WORDS, automata
from tests.automata.test_algebra import chain, same_arrays

common = settings(max_examples=60, deadline=None)
SYMBOLS = [str(v) for v in range(VOCAB_SIZE)]


@common
@given(fa=automata())
def test_automata_lib_accepts_the_same_and_gives_it_back(fa: FiniteAutomaton) -> None:
    machine = to_automata_lib(fa)
    assert isinstance(machine, DFA if fa.is_deterministic else NFA)
    for word in WORDS:
        assert machine.accepts_input([str(v) for v in word]) == fa.accepts(word)
    assert from_automata_lib(machine, SYMBOLS).is_equivalent(fa)


@pytest.mark.parametrize("pattern", ["(ab|c)*", "a{2,4}b?", "(a|b)*abb", "()", "a&b", "(a^b)c"])
def test_automata_libs_regular_expressions_arrive(pattern: str) -> None:
    machine = NFA.from_regex(pattern, input_symbols=set("abc"))
    fa = from_automata_lib(machine)
    smallest = DFA.from_nfa(machine, minify=True)
    for word in WORDS:
        text = "".join("abc"[v] for v in word)
        assert fa.accepts(text.encode()) == machine.accepts_input(text)
    assert from_automata_lib(smallest).is_equivalent(fa)


def test_bytes_are_characters_in_automata_lib() -> None:
    fa = compile_expression(ex.literal("é") + ex.star(ex.byte_range(0x80, 0xFF)))
    machine = to_automata_lib(fa)
    assert machine.accepts_input("\xc3\xa9\xff")
    assert not machine.accepts_input("\xc3")
    assert from_automata_lib(machine).is_equivalent(fa)


@common
@given(fa=automata())
def test_networkx_and_graphviz_give_the_same_arrays_back(fa: FiniteAutomaton) -> None:
    for again in (from_networkx(to_networkx(fa)), from_dot(fa.to_dot())):
        assert again.num_states == fa.num_states
        np.testing.assert_array_equal(again.initial_mask, fa.initial_mask)
        np.testing.assert_array_equal(again.accepting_mask, fa.accepting_mask)
        assert edges_of(again) == edges_of(fa)


def edges_of(fa: FiniteAutomaton) -> set[tuple[int, int, tuple[int, ...]]]:
    return {
        (int(s), int(t), tuple(fa.labels.tokens(label).tolist()))
        for s, t, label in zip(fa.source, fa.target, fa.label)
    }


def test_any_directed_graph_with_tokens_is_an_automaton() -> None:
    graph = nx.DiGraph()
    graph.add_node("start", initial=True)
    graph.add_node("end", accepting=True)
    graph.add_edge("start", "end", tokens={1})
    fa = from_networkx(graph, vocab_size=2)
    assert list(fa.enumerate_words()) == [(1,)]
    with pytest.raises(InvalidParameterError, match="pass vocab_size"):
        from_networkx(graph)
    graph.add_edge("end", "start")
    with pytest.raises(InvalidParameterError, match="has no attribute tokens"):
        from_networkx(graph, vocab_size=2)


def test_a_byte_automaton_survives_graphviz() -> None:
    awkward = ex.byte_set(b'"\\;]\n -') + ex.star(ex.byte_range(0x20, 0xFF))
    fa = compile_expression(awkward, deterministic=True)
    assert same_arrays(from_dot(fa.to_dot()).minimize(), fa)


def test_other_graphviz_text_and_unknown_symbols_get_a_clear_error() -> None:
    with pytest.raises(InvalidParameterError, match="no text that to_dot wrote"):
        from_dot("digraph { a -> b }")
    with pytest.raises(InvalidParameterError, match="which are no tokens"):
        from_automata_lib(NFA.from_regex("a", input_symbols={"a"}), symbols=["x"])
    with pytest.raises(InvalidParameterError, match="3 different strings"):
        to_automata_lib(chain({0}), symbols=["x", "x", "y"])


# -- pictures ---------------------------------------------------------------------------------


@common
@given(fa=automata())
def test_an_automaton_draws_every_state_and_edge(fa: FiniteAutomaton) -> None:
    picture = ET.fromstring(fa._repr_svg_())
    kinds = [element.get("class") for element in picture.iter()]
    assert kinds.count("s") == fa.num_states
    assert kinds.count("l") == fa.num_edges


def test_a_picture_shows_characters_and_ranges() -> None:
    fa = compile_expression(ex.byte_range(ord("a"), ord("z")) + ex.literal("<") + ex.ANY_BYTE)
    texts = [e.text for e in ET.fromstring(to_svg(fa)).iter() if e.get("class") == "l"]
    assert texts == ["a-z", "<", "any"]


def test_a_large_automaton_is_cut_off() -> None:
    fa = compile_expression(ex.literal("x" * 500))
    picture = to_svg(fa, max_states=10)
    assert picture.count('class="s"') == 10
    assert re.search("and 491 more states", picture)

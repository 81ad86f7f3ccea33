"""Pictures of automata show every state, edge and label once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.text import Text

from pcgcd import FiniteAutomaton, Vocabulary
from pcgcd.constraints import regex
from pcgcd.errors import InvalidParameterError
from pcgcd.viz import draw_automaton, figure_automaton, token_names
from pcgcd.viz.layout import layered_layout
from pcgcd.viz.style import set_text
from tests.viz.examples import EXAMPLES, JSON_NAMES, json_automaton, large_vocabulary, parity


def kinds(figure: Figure) -> Counter[str]:
    """How many artists of each kind there are, by the first part of their ids."""
    (axes,) = figure.axes
    artists = [*axes.patches, *axes.texts]
    return Counter(str(artist.get_gid()).split("-")[0] for artist in artists if artist.get_gid())


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_state_edge_and_label_is_drawn_once(example: str) -> None:
    fa = EXAMPLES[example]()
    found = kinds(figure_automaton(fa))
    assert found == {
        "state": fa.num_states,
        "name": fa.num_states,
        "accepting": int(fa.accepting_mask.sum()),
        "initial": int(fa.initial_mask.sum()),
        "edge": fa.num_edges,
        "label": fa.num_edges,
    }


def labels(fa: FiniteAutomaton, **options: object) -> dict[str, str]:
    (axes,) = figure_automaton(fa, **options).axes  # type: ignore[arg-type]
    return {str(text.get_gid()): text.get_text() for text in axes.texts}


def test_labels_name_the_tokens_of_their_edges() -> None:
    found = labels(json_automaton(), token_names=JSON_NAMES)
    assert found["label-0"] == "{"
    assert found["label-8"] == "{1, 2, …} (9)"
    assert found["label-11"] == "{0, 1, …} (10)"
    assert found["label-12"] == "EOS"


def test_without_names_labels_are_numbers_and_long_sets_are_shortened() -> None:
    found = labels(large_vocabulary())
    assert found["label-1"] == "{400, 401, …} (12)"
    assert found["label-3"] == "{7, 8, 9}"
    assert labels(large_vocabulary(), shown_tokens=3)["label-1"] == "{400, 401, 402, …} (12)"


def test_dollar_signs_and_white_space_are_shown_as_they_are() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 1, {0, 1, 2})]
    )
    figure = figure_automaton(fa, token_names=["$", " ", "\n"])
    FigureCanvasAgg(figure).draw()
    assert figure.axes[0].texts[-1].get_text() == "{\\$, ␣, \\n}"


def extents(figure: Figure) -> tuple[dict[str, object], object]:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [text for text in figure.axes[0].texts if str(text.get_gid()).startswith("label")]
    return {str(t.get_gid()): Text.get_window_extent(t, renderer) for t in texts}, renderer


@pytest.mark.parametrize("example", EXAMPLES)
def test_labels_overlap_neither_each_other_nor_a_state_nor_the_border(example: str) -> None:
    fa = EXAMPLES[example]()
    names = JSON_NAMES if example == "json" else None
    figure = figure_automaton(fa, token_names=names)
    boxes, renderer = extents(figure)
    circles = [
        patch.get_window_extent(renderer)
        for patch in figure.axes[0].patches
        if isinstance(patch, Circle)
    ]
    for gid, box in boxes.items():
        assert all(not box.overlaps(other) for name, other in boxes.items() if name != gid)
        assert all(not box.overlaps(circle) for circle in circles)
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1


def test_opposite_edges_are_curved_apart() -> None:
    (axes,) = figure_automaton(parity()).axes
    there, back = (
        next(patch for patch in axes.patches if patch.get_gid() == gid).get_path().vertices
        for gid in ("edge-1", "edge-3")
    )
    middle_there, middle_back = (np.median(np.asarray(line)[:, 1]) for line in (there, back))
    assert abs(middle_there - middle_back) > 0.15


def test_small_axes_scale_the_picture_down() -> None:
    figure = Figure(figsize=(3.0, 1.0))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    draw_automaton(axes, json_automaton(), token_names=JSON_NAMES)
    own_size = figure_automaton(json_automaton(), token_names=JSON_NAMES)
    assert axes.texts[0].get_size() < own_size.axes[0].texts[0].get_size()


def test_names_must_be_as_many_as_tokens() -> None:
    with pytest.raises(InvalidParameterError, match="each of the 2 tokens, but got 1"):
        figure_automaton(parity(), token_names=["a"])


def test_large_automata_are_refused_with_the_limit() -> None:
    with pytest.raises(InvalidParameterError, match=r"2 states.*limit is 1"):
        figure_automaton(parity(), max_states=1)


def test_an_automaton_without_edges_can_be_drawn() -> None:
    fa = FiniteAutomaton.from_edges(num_states=1, vocab_size=1, initial=0, accepting={0}, edges=[])
    assert kinds(figure_automaton(fa))["state"] == 1


graphs = st.integers(1, 9).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=16),
    )
)


@given(graphs)
def test_layouts_keep_nodes_apart_and_give_every_edge_a_way(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    size, edges = graph
    layout = layered_layout(
        size, edges, [0], column_gap=lambda *_: 1.0, row_gap=lambda _: 1.0, lane_gap=0.5
    )
    points = np.array(layout.nodes)
    assert points.shape == (size, 2)
    assert len(layout.via) == len(edges)
    distance = np.abs(points[:, None] - points[None]).max(-1) + 2 * np.eye(size)
    assert distance.min() > 1 - 1e-9
    for (source, target), via in zip(edges, layout.via):
        way = np.array([layout.nodes[source], *via, layout.nodes[target]])
        steps = np.diff(way[:, 0])
        assert source == target or (steps > 0).all() or (steps < 0).all()


def test_pictures_leave_pyplot_alone() -> None:
    code = "import pcgcd.viz, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- automata over tokens ---------------------------------------------------------------------

WORDS = ["a", "b", '{"', "a,b", " the", "$", "\n", "x" * 50, "é"]
VOCABULARY = Vocabulary.from_bytes(
    [*(word.encode() for word in WORDS), b"\xc3", None, *(b"%d" % n for n in range(900)), None],
    eos_ids=len(WORDS) + 902,
)


def test_a_vocabulary_spells_the_tokens() -> None:
    fa = FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=VOCABULARY.logits_size,
        initial=0,
        accepting={3},
        edges=[(0, 1, {4}), (1, 2, {2, 3}), (2, 3, {9, 10}), (3, 3, {VOCABULARY.eos_ids[0]})],
    )
    found = labels(fa, vocabulary=VOCABULARY)
    assert [found[f"label-{edge}"] for edge in range(4)] == [
        "␣the",
        '{" | a,b',
        r"{\xc3, <10>}",
        "EOS",
    ]
    with pytest.raises(InvalidParameterError, match="not both"):
        figure_automaton(fa, vocabulary=VOCABULARY, token_names=token_names(VOCABULARY))


@given(
    tokens=st.sets(st.integers(0, VOCABULARY.logits_size - 1), min_size=1),
    shown=st.integers(1, 3),
    width=st.integers(28, 60),
    named=st.booleans(),
)
def test_shortened_labels_never_exceed_their_width_and_tell_the_count(
    tokens: set[int], shown: int, width: int, named: bool
) -> None:
    names = token_names(VOCABULARY) if named else None
    text = set_text(sorted(tokens), names, shown, width)
    # A new line and a dollar sign are written with two characters.
    assert len(text.replace(r"\$", "$").replace(r"\n", "n")) <= width
    assert "\n" not in text
    if len(tokens) > shown + 1:
        assert text.endswith(f"({len(tokens):,})")


def test_automata_over_bytes_write_characters() -> None:
    found = labels(regex("[a-z]+ [^x]").automaton)
    assert {"a-z", "␣"} <= set(found.values())


def test_automata_with_many_edges_are_refused_with_the_limit() -> None:
    with pytest.raises(InvalidParameterError, match=r"4 edges.*limit is 3.*max_edges"):
        figure_automaton(parity(), max_edges=3)


@pytest.mark.parametrize("pattern", ['"[a-z]*"', "(yes|no|maybe)", r"-?[1-9][0-9]*"])
def test_token_automata_have_labels_apart(pattern: str) -> None:
    vocabulary = Vocabulary.from_bytes(
        [*(bytes([b]) for b in range(32, 127)), b'""', b"ye", b"es", b"may", b"no", b"12", None],
        eos_ids=101,
    )
    fa = regex(pattern).compile(vocabulary)
    boxes, _ = extents(figure_automaton(fa, vocabulary=vocabulary))
    for gid, box in boxes.items():
        assert all(not box.overlaps(other) for name, other in boxes.items() if name != gid)


def test_a_constraint_is_drawn_as_its_automaton_over_bytes() -> None:
    from pcgcd.constraints import regex

    constraint = regex("a|b")
    drawn = [text.get_text() for text in figure_automaton(constraint).axes[0].texts]
    expected = [text.get_text() for text in figure_automaton(constraint.automaton).axes[0].texts]
    assert drawn == expected

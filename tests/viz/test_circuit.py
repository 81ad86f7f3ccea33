"""Pictures of circuits show every layer, every edge and every weight once."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pcgcd import HMM, Circuit, MonarchHMM
from pcgcd.circuits import CircuitLike, Dense, InputLayer, ProductLayer, SumLayer, mixture
from pcgcd.demo.exact import one_bit_of_three
from pcgcd.errors import InvalidParameterError
from pcgcd.viz import draw_circuit, figure_circuit
from pcgcd.viz.operators import symbols_of
from tests.viz.examples import json_automaton, parity


def _dense(rows: int, columns: int) -> Dense:
    return Dense(torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows)))


def tree() -> Circuit:
    def leaf(variable: int) -> InputLayer:
        return InputLayer(variable, _dense(3, 5))

    def above(layer: InputLayer | ProductLayer, units: int = 3) -> SumLayer:
        return SumLayer([layer], [_dense(units, layer.num_units)])

    left = ProductLayer(leaf(1), above(leaf(2)), above(leaf(3)))
    right = ProductLayer(leaf(4), leaf(5))
    return Circuit(above(ProductLayer(leaf(0), above(left), above(right)), 1))


def hmm(num_hidden: int = 2, vocab_size: int = 2) -> HMM:
    return HMM.random(num_hidden, vocab_size, generator=torch.Generator().manual_seed(0))


def monarch() -> MonarchHMM:
    def rows(*shape: int) -> torch.Tensor:
        weights = torch.rand(*shape, generator=torch.Generator().manual_seed(0))
        return weights / weights.sum(-1, keepdim=True)

    return MonarchHMM(rows(6), rows(2, 3, 3), rows(3, 2, 2), rows(6, 5))


CIRCUITS: dict[str, tuple[CircuitLike, int | None]] = {
    "hmm": (hmm(), 4),
    "one step": (hmm(), 1),
    "large hmm": (hmm(100), 3),
    "monarch": (monarch(), 3),
    "automaton": (one_bit_of_three(), 3),
    "product": (hmm() * parity(), 3),
    "large product": (hmm(64, 19) * json_automaton(), 6),
    "tree": (tree(), None),
    "mixture": (mixture([tree(), tree()]), None),
    "mixture of chains": (0.3 * hmm() + 0.7 * parity(), 3),
}


def gids(figure: Figure) -> Counter[str]:
    axes = figure.axes[0]
    return Counter(str(a.get_gid()) for a in [*axes.patches, *axes.texts, *axes.collections])


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("units", [None, False])
def test_every_layer_and_every_edge_is_drawn_once(name: str, units: bool | None) -> None:
    circuit, length = CIRCUITS[name]
    graph = circuit.unroll(length)
    found = gids(figure_circuit(circuit, length=length, units=units))
    for number, layer in enumerate(reversed(graph.layers)):
        assert found[f"layer-{number}"] == 1
        for place in range(len(layer.children)):
            assert found[f"edge-{number}-{place}"] == 1
            assert found[f"weights-{number}-{place}"] == isinstance(layer, SumLayer)
    kinds = Counter(gid.split("-")[0] for gid in found.elements())
    assert kinds["layer"] == len(graph.layers)
    assert kinds["edge"] == sum(len(layer.children) for layer in graph.layers)


@pytest.mark.parametrize("name", ["hmm", "automaton", "product", "tree"])
def test_small_circuits_show_a_line_for_each_weight_that_is_not_zero(name: str) -> None:
    circuit, length = CIRCUITS[name]
    graph = circuit.unroll(length)
    figure = figure_circuit(circuit, length=length, units=True)
    drawn = {
        str(c.get_gid()): len(c.get_paths())
        for c in figure.axes[0].collections
        if isinstance(c, LineCollection)
    }
    found = gids(figure)
    for number, layer in enumerate(reversed(graph.layers)):
        assert all(found[f"unit-{number}-{unit}"] == 1 for unit in range(layer.num_units))
        if isinstance(layer, SumLayer):
            for place, weights in enumerate(layer.weights):
                assert drawn[f"edge-{number}-{place}"] == int((weights.to_dense() > 0).sum())


@pytest.mark.parametrize("name", CIRCUITS)
def test_layers_do_not_overlap_and_stay_within_the_figure(name: str) -> None:
    circuit, length = CIRCUITS[name]
    figure = figure_circuit(circuit, length=length)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    patches = [p for p in figure.axes[0].patches if str(p.get_gid()).startswith("layer-")]
    boxes = [patch.get_window_extent(renderer) for patch in patches]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
    for text in figure.axes[0].texts:
        extent = text.get_window_extent(renderer)
        assert extent.x0 >= figure.bbox.x0 - 1
        assert extent.x1 <= figure.bbox.x1 + 1


def test_operators_are_named_once_and_explained() -> None:
    graph = (hmm(64, 19) * json_automaton()).unroll(5)
    symbols = symbols_of(graph)
    assert set(symbols) == {o for layer in graph.layers for o in layer.operators}
    lines = {symbol.sign: symbol.line for symbol in symbols.values()}
    assert lines["$W_{1}$"].startswith("initial: dense 1×64 ⊗ incidence 1×13")
    assert "(tied, 3 times)" in lines["$W_{2}$"]
    assert "dense 64×64" in lines["$W_{2}$"]
    texts = [t.get_text() for t in figure_circuit(graph).axes[0].texts if t.get_gid() == "legend"]
    assert texts == list(lines.values())


def test_the_length_can_be_named_and_has_a_short_default() -> None:
    assert gids(figure_circuit(hmm()))["layer-7"] == 1
    assert gids(figure_circuit(hmm()))["layer-8"] == 0
    with pytest.raises(InvalidParameterError, match="6 variables, but 3"):
        figure_circuit(tree(), length=3)


def test_what_cannot_be_read_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidParameterError, match=r"layers is too large.*limit is 120"):
        figure_circuit(hmm(), length=100)
    with pytest.raises(InvalidParameterError, match="unit by unit"):
        figure_circuit(hmm(100), length=3, units=True)


def test_it_can_be_drawn_into_small_axes() -> None:
    figure = Figure(figsize=(2, 1))
    axes = figure.add_axes((0, 0, 1, 1))
    draw_circuit(axes, hmm(), length=4)
    own = figure_circuit(hmm(), length=4)
    assert axes.texts[0].get_size() < own.axes[0].texts[0].get_size()

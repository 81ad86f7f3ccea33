"""Circuits as objects: construction, printing, graphs, moving, and errors of queries."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import networkx as nx
import pytest
import torch

from pcgcd import HMM, Circuit, FiniteAutomaton
from pcgcd.circuits import (
    ChainMixture,
    ChainOperators,
    CircuitLike,
    Dense,
    Identity,
    InputLayer,
    OperatorChain,
    ProductLayer,
    Scope,
    SumLayer,
    expectation,
    is_structured_decomposable,
    log_expectation,
)
from pcgcd.circuits.semirings import COUNTING
from pcgcd.errors import (
    ImpossibleEvidenceError,
    InvalidParameterError,
    StructuralPropertyError,
    VocabularyMismatchError,
)

HMM_3 = HMM.random(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
FA_3 = FiniteAutomaton.from_edges(
    num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 1, {0, 1}), (1, 1, {2})]
)


def test_print_shows_every_layer_and_what_is_tied() -> None:
    text = str((HMM_3 * FA_3).unroll(3))
    assert len(text.splitlines()) == 2 + 8
    assert "tied with" in text
    assert "sum" in text
    assert "⊗" in text
    long = str(HMM_3.unroll(100))
    assert "more layers" in long
    assert len(long.splitlines()) < 40


def test_networkx_has_the_layers_and_their_edges() -> None:
    circuit = HMM_3.unroll(4)
    graph = circuit.to_networkx()
    assert graph.number_of_nodes() == len(circuit.layers)
    assert nx.is_directed_acyclic_graph(graph)
    kinds = [data["kind"] for _, data in graph.nodes(data=True)]
    assert kinds.count("input") == 4
    assert kinds.count("product") == 3
    assert kinds.count("sum") == 4
    assert graph.nodes[0]["num_units"] == 1
    assert graph.nodes[0]["scope"] == (0, 1, 2, 3)


@pytest.mark.parametrize("length", [1, 3, 60])
def test_the_picture_is_well_formed_svg(length: int) -> None:
    circuit = (HMM_3 * FA_3).unroll(length)
    svg = ET.fromstring(circuit._repr_svg_())
    boxes = svg.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == min(len(circuit.layers), 36)
    assert "<table>" in circuit._repr_html_()


def test_a_circuit_has_one_unit_at_the_root_and_one_vocabulary_per_variable() -> None:
    two = InputLayer(0, Dense(torch.ones(2, 3)))
    with pytest.raises(InvalidParameterError, match="one unit"):
        Circuit(two)
    other = InputLayer(0, Dense(torch.ones(1, 4)))
    first = SumLayer([two], [Dense(torch.ones(1, 2))])
    with pytest.raises(VocabularyMismatchError, match="variable 0"):
        Circuit(SumLayer([first, other], [Identity(1), Identity(1)]))


def test_circuits_layers_and_operators_do_not_change() -> None:
    circuit = HMM_3.unroll(2)
    for value, name in (
        (circuit, "root"),
        (circuit.root, "children"),
        (HMM_3, "emission"),
        (HMM_3.operators.transition, "weights"),
        (HMM_3 * FA_3, "left"),
    ):
        with pytest.raises(AttributeError, match="make a new one"):
            setattr(value, name, None)


def test_layers_check_their_shapes() -> None:
    one, two = InputLayer(0, Dense(torch.ones(1, 3))), InputLayer(1, Dense(torch.ones(2, 3)))
    with pytest.raises(InvalidParameterError, match="equally many units"):
        ProductLayer(one, two)
    with pytest.raises(InvalidParameterError, match=r"must have shape \(1, 2\)"):
        SumLayer([two], [Dense(torch.ones(1, 3))])
    with pytest.raises(InvalidParameterError, match="one operator per child"):
        SumLayer([one], [])
    with pytest.raises(InvalidParameterError, match="at least one child"):
        ProductLayer()
    with pytest.raises(InvalidParameterError, match="numbered from 0"):
        InputLayer(-1, Dense(torch.ones(1, 3)))


def test_variables_need_not_start_at_zero() -> None:
    coin = Dense(torch.tensor([[0.25, 0.75]], dtype=torch.float64))
    circuit = Circuit(ProductLayer(InputLayer(7, coin), InputLayer(2, coin)))
    assert circuit.variables == (2, 7)
    assert circuit.log_value(torch.tensor([[0, 1]])).exp().item() == pytest.approx(0.25 * 0.75)


def test_scope_reads_like_a_set() -> None:
    scope = Scope.of(0, 1, 2, 3, 64, 70, 71)
    assert repr(scope) == "{0..3, 64, 70, 71}"
    assert list(scope) == [0, 1, 2, 3, 64, 70, 71]
    assert len(scope) == 7
    assert (scope & Scope.of(64, 5)) == Scope.of(64)


def test_moving_a_circuit_keeps_ties_and_values() -> None:
    circuit = (HMM_3 * FA_3).unroll(5)
    moved = circuit.to("cpu", torch.float32)
    assert moved.dtype == torch.float32
    assert len({layer.emission for layer in moved.inputs}) == 1
    torch.testing.assert_close(
        moved.log_partition().double(), circuit.log_partition(), rtol=1e-5, atol=0
    )
    assert FA_3.to("cpu").accepts([0, 2])


def coins(*variables: int, dtype: torch.dtype = torch.float64) -> Circuit:
    """A mixture of two independent coins with three sides each."""
    generator = torch.Generator().manual_seed(len(variables))
    inputs = [
        InputLayer(v, Dense(torch.rand(2, 3, generator=generator, dtype=dtype))) for v in variables
    ]
    mix = torch.rand(1, 2, generator=generator, dtype=dtype)
    return Circuit(SumLayer([ProductLayer(*inputs)], [Dense(mix)]))


def test_a_circuit_knows_what_it_was_made_of() -> None:
    tree, chain = coins(0, 1, 2), HMM_3 * FA_3
    assert HMM_3.factors == (HMM_3,)
    assert tree.factors == (tree,)
    assert chain.factors == (HMM_3, FA_3)
    assert chain.unroll(3).factors == (HMM_3, FA_3)
    assert (FA_3 * (HMM_3 * FA_3)).factors == (FA_3, HMM_3, FA_3)
    mixed = 0.5 * HMM_3 + 0.5 * HMM_3
    assert (mixed * FA_3).factors == (mixed, FA_3)
    for product in (tree * FA_3, tree * FA_3.unroll(3)):
        assert product.factors == (tree, FA_3)
    assert (tree * chain).factors == (tree, HMM_3, FA_3)
    both = tree + tree
    assert both.factors == (both,)


def test_a_moved_circuit_still_knows_what_it_was_made_of() -> None:
    tree = coins(0, 1, 2)
    moved = (tree * FA_3).to(dtype=torch.float32)
    first, second = moved.factors
    assert isinstance(first, Circuit)
    assert first.dtype == moved.dtype == torch.float32
    assert isinstance(second, FiniteAutomaton)
    unrolled = (HMM_3 * FA_3).unroll(3).to(dtype=torch.float32)
    assert [type(factor) for factor in unrolled.factors] == [HMM, FiniteAutomaton]
    assert unrolled.factors[0].emission.dtype == torch.float32
    assert unrolled.family is not None
    alone = tree.to(dtype=torch.float32)
    assert alone.factors == (alone,)


def test_a_circuit_takes_other_weights() -> None:
    tree, x = coins(0, 1), torch.tensor([[0, 2], [1, 1]])
    first, second = (layer.emission for layer in tree.inputs)
    other = tree.with_operators({first: second})
    columns = second.to_dense()
    mix = tree.root.operators[0].to_dense()
    expected = (columns[:, x[:, 0]] * columns[:, x[:, 1]]).T @ mix[0]
    torch.testing.assert_close(other.log_value(x).exp(), expected)
    assert tree.with_operators({}).log_value(x).equal(tree.log_value(x))
    halved = tree.map_operators(lambda o: Dense(o.to_dense() / 2))
    torch.testing.assert_close(halved.log_value(x).exp(), tree.log_value(x).exp() / 8)
    tied = HMM_3.unroll(4).map_operators(lambda o: Dense(o.to_dense()))
    assert len({layer.emission for layer in tied.inputs}) == 1
    with pytest.raises(InvalidParameterError, match="no operator of this circuit"):
        tree.with_operators({HMM_3.operators.emission: first})
    with pytest.raises(InvalidParameterError, match="must have shape"):
        tree.with_operators({tree.root.operators[0]: Dense(torch.ones(1, 3))})


def test_a_chain_takes_other_weights_and_keeps_its_other_factors() -> None:
    x = torch.tensor([[0, 2, 2], [1, 2, 0], [2, 2, 2]])
    emission = torch.rand(2, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = HMM(HMM_3.initial, HMM_3.transition, emission, validate=False)
    replaced = {HMM_3.operators.emission: Dense(emission)}
    chain = HMM_3.with_operators(replaced)
    assert isinstance(chain, OperatorChain)
    torch.testing.assert_close(chain.log_value(x), expected.log_value(x))
    product = (HMM_3 * FA_3).with_operators(replaced)
    assert product.factors[1] is FA_3, "the automaton is still one"
    torch.testing.assert_close(product.log_value(x), (expected * FA_3).log_value(x))
    mixed = (0.5 * HMM_3 + 2.0 * FA_3).with_operators(replaced)
    assert isinstance(mixed, ChainMixture)
    torch.testing.assert_close(mixed.log_value(x), (0.5 * expected + 2.0 * FA_3).log_value(x))
    assert chain.to(dtype=torch.float32).unroll(2).dtype == torch.float32


def test_a_chain_of_operators_checks_their_shapes() -> None:
    initial, _, emission, final = HMM_3.operators
    with pytest.raises(
        InvalidParameterError, match=r"transition operator must have shape \(2, 2\)"
    ):
        OperatorChain(ChainOperators(initial, Dense(torch.ones(3, 2)), emission, final))


@pytest.mark.gpu
def test_queries_run_on_a_gpu() -> None:
    circuit = (HMM_3 * FA_3).to("cuda")
    x = torch.tensor([[0, 2, 2], [1, 2, 0]], device="cuda")
    torch.testing.assert_close(circuit.log_value(x).cpu(), (HMM_3 * FA_3).log_value(x.cpu()))
    assert circuit.sample(5, length=3).device.type == "cuda"
    with pytest.raises(InvalidParameterError, match="move one"):
        circuit.log_value(x.cpu())
    with pytest.raises(InvalidParameterError, match="cannot multiply circuits on"):
        _ = circuit * FA_3


CIRCUITS: dict[str, CircuitLike] = {
    "hmm": HMM_3,
    "product": HMM_3 * FA_3,
    "graph": (HMM_3 * FA_3).unroll(3),
}


@pytest.mark.parametrize("name", CIRCUITS)
def test_bad_tokens_get_a_clear_error(name: str) -> None:
    circuit = CIRCUITS[name]
    with pytest.raises(VocabularyMismatchError, match=r"0\.\.2.*\[3\]"):
        circuit.log_value(torch.tensor([[3, 0, 0]]))
    with pytest.raises(VocabularyMismatchError):
        circuit.log_value(torch.tensor([[-2, 0, 0]]))
    with pytest.raises(InvalidParameterError, match="log_marginal"):
        circuit.log_value(torch.tensor([[-1, 0, 0]]))
    with pytest.raises(InvalidParameterError, match="log_marginal"):
        circuit.log_prob(torch.tensor([[-1, 0, 0]]))
    with pytest.raises(InvalidParameterError, match=r"\(batch, length\)"):
        circuit.log_value(torch.tensor([0, 0, 0]))
    with pytest.raises(InvalidParameterError, match="integers"):
        circuit.log_value(torch.zeros(1, 3))
    with pytest.raises(InvalidParameterError, match="there is no next one"):
        circuit.next_token_log_probs(torch.tensor([[0, 0, 0]]), length=3)


def test_a_chain_wants_a_length() -> None:
    for bad in (None, 0, -3):
        with pytest.raises(InvalidParameterError, match="length"):
            HMM_3.unroll(bad)
    with pytest.raises(InvalidParameterError, match="length=n"):
        HMM_3.next_token_log_probs(torch.tensor([[0]]))
    with pytest.raises(InvalidParameterError, match="3 variables, but 4"):
        HMM_3.unroll(3).unroll(4)


def test_impossible_evidence_is_an_error_not_a_uniform_answer() -> None:
    circuit = HMM_3 * FA_3
    bad, good = torch.tensor([[2]]), torch.tensor([[0]])
    for ask in (
        lambda: circuit.next_token_log_probs(torch.cat([good, bad]), length=3),
        lambda: circuit.token_marginals(bad, length=3),
        lambda: circuit.unit_posteriors(bad, length=3),
        lambda: circuit.best_path(bad, length=3),
        lambda: circuit.sample(2, length=3, evidence=torch.tensor([2, -1, -1])),
        lambda: circuit.log_conditional(good, torch.tensor([[2, -1]]), length=3),
    ):
        with pytest.raises(ImpossibleEvidenceError, match="probability zero"):
            ask()


def test_counting_refuses_fractional_weights() -> None:
    with pytest.raises(StructuralPropertyError, match="whole-number"):
        (HMM_3 * FA_3).partition(3, COUNTING)


def test_expectation_is_the_sum_of_products() -> None:
    x = torch.cartesian_prod(*[torch.arange(3)] * 3)
    expected = (HMM_3.log_value(x) + FA_3.log_value(x)).exp().sum()
    torch.testing.assert_close(expectation(HMM_3, FA_3, length=3), expected)
    torch.testing.assert_close(log_expectation(HMM_3, FA_3, length=3), expected.log())


def test_structured_decomposability() -> None:
    assert is_structured_decomposable(HMM_3)
    assert is_structured_decomposable(HMM_3 * FA_3)
    coin = Dense(torch.ones(1, 3, dtype=torch.float64))

    def three(pair: tuple[int, int], alone: int) -> SumLayer:
        both = SumLayer([ProductLayer(*(InputLayer(v, coin) for v in pair))], [Identity(1)])
        return SumLayer([ProductLayer(both, InputLayer(alone, coin))], [Identity(1)])

    mixed = SumLayer([three((0, 1), 2), three((1, 2), 0)], [Identity(1), Identity(1)])
    assert not is_structured_decomposable(Circuit(mixed))


def test_an_empty_batch_gives_empty_answers() -> None:
    x = torch.empty(0, 3, dtype=torch.long)
    assert HMM_3.log_value(x).shape == (0,)
    assert HMM_3.next_token_log_probs(x, length=4).shape == (0, 3)

"""Graphs of pyjuice as circuits, and circuits as graphs of pyjuice.

pyjuice compiles for CUDA only, so graphs are evaluated here by a function of our own that reads
nothing but their parameters and edges; ``tests/interpreter`` runs the kernels of pyjuice.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton, MonarchHMM
from pcgcd.circuits import (
    BlockSparse,
    Circuit,
    CircuitLike,
    Composition,
    Dense,
    Diagonal,
    Identity,
    Incidence,
    InputLayer,
    Kronecker,
    Layer,
    Operator,
    ProductLayer,
    SumLayer,
    compose,
    kronecker,
)
from pcgcd.circuits.pyjuice import PyjuiceExport, compile_pyjuice, from_pyjuice, to_pyjuice
from pcgcd.circuits.pyjuice.entries import entries
from pcgcd.circuits.pyjuice.selections import split_selection
from pcgcd.errors import (
    CircuitTooLargeError,
    EmptyLanguageError,
    InvalidParameterError,
    MissingDependencyError,
    StructuralPropertyError,
)
from tests.circuits.bridge_examples import (
    VOCAB_SIZE,
    ambiguous_automaton,
    automaton,
    dead_units,
    hmm,
)
from tests.circuits.random_circuits import Builder, builders

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")

DOUBLE = torch.float64


@pytest.fixture(scope="module")
def juice() -> Any:
    """pyjuice; importing it takes seconds, so not every worker does."""
    torch.manual_seed(0)
    random.seed(0)
    return pytest.importorskip("pyjuice")


def world(length: int, vocab_size: int = VOCAB_SIZE) -> Tensor:
    return torch.tensor(list(itertools.product(range(vocab_size), repeat=length)))


def evaluate(root: Any, x: Tensor) -> Tensor:
    """The values of a pyjuice graph on x (batch, n), unit by unit and block by block."""
    values: dict[Any, Tensor] = {}
    for ns in root:
        params = ns.get_source_ns()._params
        if ns.is_input():
            (variable,) = ns.scope.to_list()
            table = params.double().reshape(ns.num_nodes, ns.dist.num_cats)
            values[ns] = table[:, x[:, variable]]
        elif ns.is_prod():
            value = torch.ones(ns.num_nodes, len(x), dtype=DOUBLE)
            for unit in range(ns.num_nodes):
                for child, edge in zip(ns.chs, range(ns.num_chs)):
                    if ns.is_block_sparse():
                        block, offset = divmod(unit, ns.block_size)
                        source = int(ns.edge_ids[block, edge]) * ns.block_size + offset
                    else:
                        source = int(ns.edge_ids[unit, edge])
                    value[unit] *= values[child][source]
            values[ns] = value
        else:
            below = torch.cat([values[child] for child in ns.chs])
            value = torch.zeros(ns.num_nodes, len(x), dtype=DOUBLE)
            for (row, column), block in zip(ns.edge_ids.T.tolist(), params.double()):
                rows = slice(row * ns.block_size, (row + 1) * ns.block_size)
                columns = slice(column * ns.ch_block_size, (column + 1) * ns.ch_block_size)
                value[rows] += block @ below[columns]
            values[ns] = value
    return values[root][0]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance)


def initialised(root: Any) -> Any:
    root.init_parameters(perturbation=3.0)
    return root


def operators_of(circuit: Circuit) -> list[Operator]:
    """The weights and emissions that have parameters, tied ones once."""
    every = dict.fromkeys(o for layer in circuit.layers for o in layer.operators)
    return [operator for operator in every if operator.dtype is not None]


# -- from pyjuice -----------------------------------------------------------------------------


def block_sparse_graph(juice: Any) -> Any:
    """Sums with holes over two products, one gathered by block and one unit by unit."""
    with juice.set_block_size(2):
        a, b = (
            juice.inputs(v, num_node_blocks=3, dist=juice.distributions.Categorical(VOCAB_SIZE))
            for v in (0, 1)
        )
        by_block = juice.multiply(a, b, edge_ids=torch.tensor([[0, 2], [1, 1], [2, 0], [2, 2]]))
        by_unit = juice.multiply(
            a, b, edge_ids=torch.tensor([[5, 0], [4, 1], [0, 3], [1, 2]]), sparse_edges=True
        )
        edges = torch.tensor([[2, 0, 1, 0, 1, 2], [0, 1, 5, 4, 2, 5]])
        middle = juice.summate(by_block, by_unit, num_node_blocks=3, edge_ids=edges)
        c = juice.inputs(2, num_node_blocks=3, dist=juice.distributions.Categorical(VOCAB_SIZE))
        top = juice.multiply(middle, c)
        shuffled = torch.tensor([[0, 0, 0], [2, 0, 1]])
        return juice.summate(top, num_node_blocks=1, block_size=1, edge_ids=shuffled)


def hclt(juice: Any) -> Any:
    data = torch.randint(0, VOCAB_SIZE, (50, 5)).float()
    return juice.structures.HCLT(data, 4, input_dist=juice.distributions.Categorical(VOCAB_SIZE))


def rat_spn(juice: Any) -> Any:
    dist = juice.distributions.Categorical(VOCAB_SIZE)
    return juice.structures.RAT_SPN(5, 4, 2, 3, input_dist=dist)


def pd(juice: Any) -> Any:
    dist = juice.distributions.Categorical(VOCAB_SIZE)
    return juice.structures.PD(
        (5,), 4, split_intervals=1, max_prod_block_conns=2, block_size=2, input_dist=dist
    )


def tied_pd(juice: Any) -> Any:
    dist = juice.distributions.Categorical(VOCAB_SIZE)
    return juice.structures.PD(
        (4,), 2, split_intervals=1, tie_homogeneous_params=True, input_dist=dist
    )


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "homogeneous hmm": lambda juice: juice.structures.HMM(4, 6, VOCAB_SIZE),
    "inhomogeneous hmm": lambda juice: juice.structures.HMM(4, 4, VOCAB_SIZE, homogeneous=False),
    "hclt": hclt,
    "rat-spn": rat_spn,
    "pd": pd,
    "tied pd": tied_pd,
    "block-sparse": block_sparse_graph,
}


@pytest.fixture(params=GRAPHS, ids=lambda name: name.replace(" ", "-"))
def graph(request: pytest.FixtureRequest, juice: Any) -> Any:
    return initialised(GRAPHS[request.param](juice))


def test_circuit_equals_graph(graph: Any) -> None:
    x = world(len(graph.scope))
    circuit = from_pyjuice(graph).to(dtype=DOUBLE)
    close(circuit.log_value(x).exp(), evaluate(graph, x))


def test_graph_to_circuit_to_graph(graph: Any) -> None:
    x = world(len(graph.scope))
    export = to_pyjuice(from_pyjuice(graph), dtype=DOUBLE)
    close(evaluate(export.root, x).log() + export.log_partition, evaluate(graph, x).log(), 1e-6)
    assert export.log_partition == pytest.approx(0, abs=1e-6)


def test_tied_nodes_share_an_operator(juice: Any) -> None:
    tied = from_pyjuice(initialised(juice.structures.HMM(5, 4, VOCAB_SIZE)))
    assert len(operators_of(tied)) == 3  # initial, transition, emission
    untied = from_pyjuice(initialised(juice.structures.HMM(5, 4, VOCAB_SIZE, homogeneous=False)))
    assert len(operators_of(untied)) == 1 + 4 + 5


def test_complete_blocks_are_dense_and_others_are_not(juice: Any) -> None:
    dense = from_pyjuice(initialised(juice.structures.HMM(3, 4, VOCAB_SIZE, block_size=2)))
    assert all(isinstance(operator, Dense) for operator in operators_of(dense))
    sparse = from_pyjuice(initialised(block_sparse_graph(juice)))
    kinds = [
        type(o) for layer in sparse.layers if layer.scope.bits == 0b11 for o in layer.operators
    ]
    assert kinds.count(BlockSparse) == 2
    gathers = [o for layer in sparse.layers for o in layer.operators if o.dtype is None]
    assert {type(o) for o in gathers} == {Incidence, Kronecker}
    assert len(gathers) == 4


def test_hmm_of_pyjuice_is_an_hmm(juice: Any) -> None:
    alpha, beta, gamma = torch.rand(4, 4), torch.rand(4, VOCAB_SIZE), torch.rand(4)
    root = juice.structures.HMM(
        5, 4, VOCAB_SIZE, alpha=alpha.clone(), beta=beta.clone(), gamma=gamma.clone()
    )
    hmm = HMM.from_circuit(from_pyjuice(root))
    close(hmm.transition, alpha / alpha.sum(1, keepdim=True), 1e-6)
    close(hmm.emission, beta / beta.sum(1, keepdim=True), 1e-6)
    close(hmm.initial, gamma / gamma.sum(), 1e-6)


def test_deep_chains_need_no_recursion(juice: Any) -> None:
    length = 700
    hmm = HMM.random(4, VOCAB_SIZE, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    export = to_pyjuice(hmm, length=length, dtype=DOUBLE)
    circuit = from_pyjuice(export.root)
    assert circuit.num_variables == length > sys.getrecursionlimit() / 2
    assert len(operators_of(circuit)) == 3
    x = torch.randint(0, VOCAB_SIZE, (4, length), generator=torch.Generator().manual_seed(1))
    close(circuit.log_value(x) + export.log_partition, hmm.log_value(x))


@pytest.mark.parametrize(
    ("mode", "mask", "allowed"),
    [
        ("range", [[0, 2], [1, 3]], [[0, 1], [1, 2]]),
        ("rev_range", [[0, 2], [1, 2]], [[2], [0, 2]]),
        ("full_mask", [[1, 0, 1], [0, 1, 0]], [[0, 2], [1]]),
    ],
)
def test_masked_categorical(
    juice: Any, mode: str, mask: list[list[int]], allowed: list[list[int]]
) -> None:
    dist = juice.distributions.MaskedCategorical(num_cats=3, mask_mode=mode)
    leaf = juice.inputs(0, num_node_blocks=2, dist=dist, mask=torch.tensor(mask))
    root = initialised(juice.summate(leaf, num_node_blocks=1))
    (emission,) = (layer.emission.to_dense() for layer in from_pyjuice(root).inputs)
    assert [row.nonzero().flatten().tolist() for row in emission] == allowed
    close(emission.sum(1), torch.ones(2), 1e-6)


def test_literals(juice: Any) -> None:
    leaves = [juice.inputs(v, num_nodes=1, dist=juice.distributions.Literal(2)) for v in (0, 1)]
    free = juice.inputs(1, num_nodes=1, dist=juice.distributions.Categorical(num_cats=4))
    both, first = juice.multiply(*leaves), juice.multiply(leaves[0], free)
    circuit = from_pyjuice(initialised(juice.summate(both, first, num_node_blocks=1)))
    assert circuit.vocab_sizes == {0: 4, 1: 4}
    possible = circuit.log_value(world(2, 4)) > float("-inf")
    assert torch.equal(possible, world(2, 4)[:, 0] == 2)


# -- to pyjuice -------------------------------------------------------------------------------


def unnormalised_hmm() -> HMM:
    generator = torch.Generator().manual_seed(1)
    initial, transition, emission = (
        torch.rand(*shape, generator=generator, dtype=DOUBLE)
        for shape in ((4,), (4, 4), (4, VOCAB_SIZE))
    )
    return HMM(initial, transition, emission, validate=False)


def sparse_hmm() -> HMM:
    """Left to right, with a hidden state that nothing reaches and a token that it alone emits."""
    transition = torch.tensor([[0.5, 0.5, 0, 0], [0, 0.2, 0.8, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]])
    emission = torch.tensor([[0.5, 0.5, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    initial = torch.tensor([1.0, 0, 0, 0])
    return HMM(initial.double(), transition.double(), emission.double())


def monarch_hmm() -> MonarchHMM:
    generator = torch.Generator().manual_seed(2)

    def rows(*shape: int) -> Tensor:
        draws = torch.rand(*shape, generator=generator, dtype=DOUBLE)
        return draws / draws.sum(-1, keepdim=True)

    return MonarchHMM(rows(8), rows(2, 4, 4), rows(4, 2, 2), rows(8, VOCAB_SIZE))


def dead_block() -> Circuit:
    """A product of four units, one of which looks at a block of four impossible ones."""
    generator = torch.Generator().manual_seed(6)

    def weights(rows: int, columns: int) -> Tensor:
        return torch.rand(rows, columns, generator=generator, dtype=DOUBLE) + 0.1

    leaves = [InputLayer(v, Dense(weights(4, VOCAB_SIZE))) for v in range(3)]
    half_dead = torch.cat([weights(4, 4), torch.zeros(4, 4, dtype=DOUBLE)])
    below = SumLayer([ProductLayer(leaves[0], leaves[1])], [Dense(half_dead)])
    gather = Incidence(torch.arange(4), torch.tensor([0, 1, 2, 7]), (4, 8))
    above = ProductLayer(SumLayer([below], [gather]), leaves[2])
    return Circuit(SumLayer([above], [Dense(weights(1, 4))]))


def independent_coins() -> Circuit:
    """A product at the root, of a product, a sum of sums, and an input."""
    coin = Dense(torch.tensor([[0.5, 0.25, 3.0]], dtype=DOUBLE))
    half = Dense(torch.tensor([[0.5]], dtype=DOUBLE))
    inputs = [InputLayer(variable, coin) for variable in range(4)]
    pair = ProductLayer(inputs[0], inputs[2])
    nested = SumLayer([SumLayer([inputs[1]], [half])], [half])
    return Circuit(ProductLayer(pair, nested, inputs[3]))


CIRCUITS: dict[str, Callable[[], CircuitLike]] = {
    "hmm": hmm,
    "hmm of 7": lambda: hmm(7),
    "hmm of 12": lambda: hmm(12),
    "unnormalised hmm": unnormalised_hmm,
    "sparse hmm": sparse_hmm,
    "monarch hmm": monarch_hmm,
    "dfa": automaton,
    "nfa": ambiguous_automaton,
    "hmm x dfa": lambda: hmm() * automaton(),
    "dfa x hmm": lambda: automaton() * hmm(),
    "hmm x nfa": lambda: hmm(3) * ambiguous_automaton(),
    "sparse hmm x dfa": lambda: sparse_hmm() * automaton(),
    "dfa x monarch x nfa": lambda: automaton() * monarch_hmm() * ambiguous_automaton(),
    "hmm x hmm": lambda: hmm(2, seed=3) * hmm(3, seed=4),
    "unrolled product": lambda: (hmm() * automaton()).unroll(4),
    "mixture": lambda: 0.3 * hmm() + 0.7 * (hmm(3) * automaton()),
    "mixture x dfa": lambda: (0.3 * hmm() + 2.0 * hmm(2, seed=5)) * automaton(),
    "dead units": dead_units,
    "independent coins": independent_coins,
}


@pytest.fixture(params=CIRCUITS, ids=lambda name: name.replace(" ", "-"))
def circuit(request: pytest.FixtureRequest) -> CircuitLike:
    return CIRCUITS[request.param]()


def check_export(circuit: Circuit, export: PyjuiceExport, tolerance: float = 1e-12) -> None:
    """The graph is normalised, and equals the circuit on every string; so does its way back."""
    x = world(circuit.num_variables, circuit.vocab_size)
    expected = circuit.log_value(x)
    close(evaluate(export.root, x).log() + export.log_partition, expected, tolerance)
    back = from_pyjuice(export.root)
    close(back.log_value(x) + export.log_partition, expected, tolerance)
    for ns in export.root:
        if ns.is_sum() and not ns.is_tied():
            sums = torch.zeros(ns.num_node_blocks, ns.block_size, dtype=ns._params.dtype)
            sums.index_add_(0, ns.edge_ids[0], ns._params.sum(2))
            close(sums, torch.ones_like(sums), max(tolerance, 1e-6))


def test_graph_equals_circuit(circuit: CircuitLike, juice: Any) -> None:
    export = to_pyjuice(circuit, length=4, dtype=DOUBLE)
    graph = circuit.unroll(4)
    check_export(graph, export, 1e-12 if graph.dtype == DOUBLE else 1e-6)
    assert export.log_partition == pytest.approx(float(circuit.log_partition(4)))


def test_single_precision_by_default(juice: Any) -> None:
    product = (hmm() * automaton()).to(dtype=torch.float32)
    export = to_pyjuice(product, length=4)
    check_export(product.unroll(4), export, 1e-5)
    matrix = export.root.get_params(as_matrix=True)
    assert matrix.dtype == torch.float32


@settings(max_examples=40)
@given(builders())
def test_random_circuits(builder: Builder) -> None:
    pytest.importorskip("pyjuice")
    variables = [0, 1, 2]
    circuit = builder.circuit(builder.vtree(variables))
    try:
        export = to_pyjuice(circuit, dtype=DOUBLE)
    except EmptyLanguageError:
        assert float(circuit.log_partition()) == float("-inf")
    else:
        check_export(circuit, export, 1e-10)


def test_steps_stay_tied_where_weights_agree(juice: Any) -> None:
    export = to_pyjuice(hmm(), length=6)
    assert sum(not ns.is_tied() for ns in export.root if ns.is_sum()) == 2
    assert sum(not ns.is_tied() for ns in export.root if ns.is_input()) == 1
    single = to_pyjuice(hmm().to(dtype=torch.float32), length=6)
    assert sum(not ns.is_tied() for ns in single.root if ns.is_sum()) == 2
    read = HMM.from_circuit(from_pyjuice(to_pyjuice(hmm(), length=6, dtype=DOUBLE).root))
    close(read.transition, hmm().transition)


def test_steps_are_untied_where_weights_differ(juice: Any) -> None:
    export = to_pyjuice(unnormalised_hmm(), length=6)
    assert not any(ns.is_tied() for ns in export.root if ns.is_sum())
    assert sum(not ns.is_tied() for ns in export.root if ns.is_input()) == 1


@pytest.mark.parametrize("hmm_first", [True, False])
def test_product_has_a_dense_block_per_edge(juice: Any, hmm_first: bool) -> None:
    fa = ambiguous_automaton()
    model = hmm(8)
    export = to_pyjuice(model * fa if hmm_first else fa * model, length=6)
    middle = [ns for ns in export.root if ns.is_sum()][2]
    assert (middle.num_node_blocks, middle.block_size) == (fa.num_states, 8)
    assert middle.edge_ids.shape[1] == fa.num_edges
    assert all(ns.num_nodes == fa.labels.num_labels * 8 for ns in export.root if ns.is_input())
    products = [ns for ns in export.root if ns.is_prod()]
    assert all(ns.is_block_sparse() for ns in products)


def test_impossible_states_are_left_out(juice: Any) -> None:
    export = to_pyjuice(hmm() * automaton(), length=4)
    blocks = [ns.num_node_blocks for ns in export.root if ns.is_sum()]
    # From the last step back: state 2 or 1; then 2, 1 or 0; then 1 or 0; then the root.
    assert blocks == [2, 3, 2, 1]


def test_dead_blocks_have_weights_and_no_effect(juice: Any) -> None:
    export = to_pyjuice(dead_block(), dtype=DOUBLE)
    check_export(dead_block(), export)
    below = next(ns for ns in export.root if ns.is_sum())
    assert (below.num_node_blocks, below.block_size) == (2, 4)
    assert bool((below._params[1] == 0.25).all())
    above = next(ns for ns in export.root if ns.is_prod() and len(ns.scope) == 3)
    assert above.is_sparse()


def test_weights_near_the_smallest_double(juice: Any) -> None:
    smallest = 5e-324
    leaf = Dense(torch.tensor([[1e-200, 1e-300], [0.75, 1e100]], dtype=DOUBLE))
    layer: Layer = InputLayer(0, leaf)
    for variable in (1, 2, 3):
        weights = Dense(torch.tensor([[0.0, smallest], [3 * smallest, smallest]], dtype=DOUBLE))
        layer = ProductLayer(SumLayer([layer], [weights]), InputLayer(variable, leaf))
    circuit = Circuit(SumLayer([layer], [Dense(torch.ones(1, 2, dtype=DOUBLE))]))
    export = to_pyjuice(circuit, dtype=DOUBLE)
    expected = circuit.log_value(world(4, 2))
    assert bool((expected < -1000).all())
    close(from_pyjuice(export.root).log_value(world(4, 2)) + export.log_partition, expected)


@pytest.mark.parametrize(("num_hidden", "size"), [(5, 1), (6, 1), (12, 4), (16, 16)])
def test_block_size_divides_the_hidden_states(juice: Any, num_hidden: int, size: int) -> None:
    export = to_pyjuice(hmm(num_hidden), length=3)
    assert {ns.block_size for ns in export.root if ns.is_input()} == {size}


def test_blocks_grow_while_zeros_are_few(juice: Any) -> None:
    ring = FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=VOCAB_SIZE,
        initial=0,
        accepting=range(4),
        edges=[(i, (i + k) % 4, {k, 2 * k}) for i in range(4) for k in range(2)],
    )
    export = to_pyjuice(hmm(4) * ring, length=9)
    middle = [ns for ns in export.root if ns.is_sum()][2]
    assert (middle.num_node_blocks, middle.block_size) == (4, 4)
    assert middle.edge_ids.shape[1] == ring.num_edges
    triangle = torch.rand(8, 8, dtype=DOUBLE).tril() + 0.1 * torch.eye(8, dtype=DOUBLE)
    lower = HMM(hmm(8).initial, triangle / triangle.sum(1, keepdim=True), hmm(8).emission)
    assert {ns.block_size for ns in to_pyjuice(lower, length=3).root if ns.is_input()} == {8}


SELECTIONS: dict[str, Operator] = {
    "gather": Incidence(torch.arange(3), torch.tensor([1, 0, 1]), (3, 2)),
    "gather of gather": Composition(
        Incidence(torch.arange(3), torch.tensor([1, 0, 1]), (3, 2)),
        Incidence(torch.arange(2), torch.tensor([2, 1]), (2, 3)),
        Dense(torch.rand(3, 4)),
    ),
    "automaton": automaton().operators.transition,
    "product": (hmm() * automaton()).operators.transition,
    "emission of a product": (hmm() * automaton()).operators.emission,
    "dense": Dense(torch.rand(2, 2)),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_split_selection(name: str) -> None:
    operator = SELECTIONS[name]
    index, core = split_selection(operator)
    assert (index is None) == (name == "dense")
    picked = core.to_dense(DOUBLE) if index is None else core.to_dense(DOUBLE)[index]
    close(picked, operator.to_dense(DOUBLE))
    assert split_selection(core)[0] is None or isinstance(core, Identity)


def test_empty_languages(juice: Any) -> None:
    with pytest.raises(EmptyLanguageError, match="smallest length that works is 2") as error:
        to_pyjuice(hmm() * automaton(), length=1)
    assert error.value.shortest_length == 2


def test_too_large(juice: Any) -> None:
    product = hmm() * automaton()
    with pytest.raises(CircuitTooLargeError, match=r"whole circuit has [\d,]+ .* limit of 150"):
        to_pyjuice(product, length=4, max_weights=150)
    with pytest.raises(CircuitTooLargeError, match=r"one sum layer alone.* 96 .*at least 96"):
        to_pyjuice(product, length=4, max_weights=50)
    with pytest.raises(CircuitTooLargeError, match=r"Monarch.* up to 64 "):
        to_pyjuice(monarch_hmm(), length=4, max_weights=30)


def test_limit_is_what_is_stored(juice: Any) -> None:
    export = to_pyjuice(hmm() * automaton(), length=4)
    stored = sum(
        ns._params.numel()
        for ns in export.root
        if (ns.is_sum() or ns.is_input()) and not ns.is_tied()
    )
    to_pyjuice(hmm() * automaton(), length=4, max_weights=stored)
    with pytest.raises(CircuitTooLargeError, match=f"{stored:,} "):
        to_pyjuice(hmm() * automaton(), length=4, max_weights=stored - 1)


OPERATORS: dict[str, Operator] = {
    "identity": Identity(3),
    "diagonal": Diagonal(torch.tensor([1.0, 0.0, 2.0])),
    "incidence": Incidence(torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 0, 1]), (3, 3)),
    "block-sparse": BlockSparse(
        torch.tensor([1, 0]), torch.tensor([0, 2]), torch.rand(2, 2, 1), (2, 3)
    ),
    "dense": Dense(torch.tensor([[0.0, 1.0], [2.0, 3.0]])),
    "composition": compose(
        Dense(torch.rand(4, 3)), Diagonal(torch.tensor([1.0, 0.0, 2.0])), Dense(torch.rand(3, 2))
    ),
    "kronecker": kronecker(Dense(torch.rand(2, 3)), Diagonal(torch.tensor([0.0, 2.0]))),
    "monarch": monarch_hmm().operators.transition,
}


@pytest.mark.parametrize("limit", [1000, 12])
@pytest.mark.parametrize("name", OPERATORS)
def test_entries_are_the_dense_matrix(name: str, limit: int) -> None:
    operator = OPERATORS[name]
    dense = operator.to_dense(DOUBLE)
    if int((dense != 0).sum()) > limit:
        with pytest.raises(CircuitTooLargeError):
            entries(operator, limit)
        return
    row, column, value = entries(operator, limit)
    found = torch.zeros_like(dense)
    found[row, column] = value
    close(found, dense)
    assert len(value) == int((dense != 0).sum())


# -- errors, and the device -------------------------------------------------------------------


def test_missing_pyjuice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyjuice", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pcgcd\[pyjuice\]'"):
        to_pyjuice(hmm(), length=3)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pcgcd\[pyjuice\]'"):
        from_pyjuice(None)


def test_importing_the_bridge_does_not_import_pyjuice() -> None:
    import subprocess

    code = "import sys, pcgcd.circuits.pyjuice; sys.exit('pyjuice' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_no_graph(juice: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"pc\.root_ns"):
        from_pyjuice(torch.nn.Linear(1, 1))


def test_graphs_without_parameters(juice: Any) -> None:
    with pytest.raises(InvalidParameterError, match="init_parameters"):
        from_pyjuice(juice.structures.HMM(3, 4, VOCAB_SIZE))


def test_unknown_distributions_are_named(juice: Any) -> None:
    leaf = juice.inputs(0, num_nodes=2, dist=juice.distributions.Gaussian(mu=0.0, sigma=1.0))
    with pytest.raises(StructuralPropertyError, match="Gaussian"):
        from_pyjuice(initialised(juice.summate(leaf, num_node_blocks=1)))


def test_external_weights_are_refused(juice: Any) -> None:
    leaf = juice.inputs(0, num_nodes=2, dist=juice.distributions.Categorical(num_cats=3))
    external = juice.nodes.LowRankSumParams(rank=1)
    root = juice.summate(leaf, num_node_blocks=1, external_params=external)
    with pytest.raises(StructuralPropertyError, match="ExternalParamsSumNodes"):
        from_pyjuice(initialised(root))


def test_circuits_that_are_not_smooth(juice: Any) -> None:
    one = Dense(torch.ones(1, 2, dtype=DOUBLE))
    half = Dense(torch.ones(1, 1, dtype=DOUBLE))
    circuit = Circuit(SumLayer([InputLayer(0, one), InputLayer(1, one)], [half, half]))
    with pytest.raises(StructuralPropertyError, match="to_pyjuice needs a smooth circuit"):
        to_pyjuice(circuit)


def test_chains_need_a_length(juice: Any) -> None:
    with pytest.raises(InvalidParameterError, match="length"):
        to_pyjuice(hmm())


def test_compiling_needs_cuda(juice: Any) -> None:
    export = to_pyjuice(hmm(), length=3)
    with pytest.raises(InvalidParameterError, match="CUDA"):
        compile_pyjuice(export, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidParameterError, match="CUDA"):
            compile_pyjuice(export)


@pytest.mark.gpu
def test_compiled_likelihood(circuit: CircuitLike, juice: Any) -> None:
    graph = circuit.unroll(4)
    export = to_pyjuice(graph)
    pc = compile_pyjuice(export)
    x = world(4)
    found = pc(x.cuda(), force_use_fp32=True).flatten().cpu().detach()
    close(found + export.log_partition, graph.log_value(x), 1e-4)


@pytest.mark.gpu
def test_deep_chains_compile(juice: Any) -> None:
    length = 700
    model = hmm().to(dtype=torch.float32)
    export = to_pyjuice(model, length=length)
    pc = compile_pyjuice(export)
    x = torch.randint(0, VOCAB_SIZE, (4, length), generator=torch.Generator().manual_seed(1))
    found = pc(x.cuda(), force_use_fp32=True).flatten().cpu().detach()
    close(found + export.log_partition, model.log_value(x), 1e-3)

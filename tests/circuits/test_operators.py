"""Every operator against its dense matrix, in every semiring."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pcgcd.circuits import (
    BlockDiagonal,
    BlockSparse,
    Composition,
    Dense,
    Diagonal,
    Identity,
    Incidence,
    Kronecker,
    LabelSets,
    Monarch,
    Multiple,
    Operator,
    RowwiseKronecker,
    SideBySide,
    Stacked,
    block_diagonal,
    compose,
    kronecker,
    rowwise_kronecker,
    stacked,
)
from pcgcd.circuits.semirings import LINEAR, LOG, MAXIMUM, REAL
from pcgcd.errors import CircuitTooLargeError, InvalidParameterError, VocabularyMismatchError
from pcgcd.testing import OperatorLaws


def weights(*shape: int, dtype: torch.dtype, seed: int = 0, zeros: float = 0.0) -> Tensor:
    """Random weights in (0, 1], a share of them zero."""
    generator = torch.Generator().manual_seed(seed)
    numbers = 1 - torch.rand(shape, generator=generator, dtype=torch.float64)
    return (numbers * (torch.rand(shape, generator=generator) >= zeros)).to(dtype)


def product(left: Tensor, right: Tensor, largest: bool) -> Tensor:
    """The matrix product; or of each of its entries, the largest term alone."""
    terms = left.double().unsqueeze(-1) * right.double()  # (i, k, j)
    return terms.amax(1) if largest else terms.sum(1)


def matrix_of(operator: Operator, largest: bool = False) -> Tensor:
    """The matrix of an operator of this library, from its tensors and by definition.

    Args:
        operator: The operator.
        largest: Of entries that are sums, keep the largest term alone.
    """
    match operator:
        case Dense():
            return operator.weights
        case Identity():
            return torch.eye(operator.size)
        case Diagonal():
            return torch.diag(operator.weights)
        case LabelSets():
            return operator.label_class[:, operator.token_class]
        case Incidence():
            matrix = torch.zeros(operator.shape)
            for i, j in zip(operator.row.tolist(), operator.column.tolist()):
                matrix[i, j] = 1 if largest else matrix[i, j] + 1
            return matrix
        case BlockSparse():
            _, r, c = operator.weights.shape
            blocks = operator.weights.double()
            matrix = blocks.new_zeros(operator.shape)
            for i, j, block in zip(operator.row.tolist(), operator.column.tolist(), blocks):
                place = matrix[i * r : (i + 1) * r, j * c : (j + 1) * c]
                place.copy_(torch.maximum(place, block) if largest else place + block)
            return matrix
        case Monarch():
            left, right = operator.left.double(), operator.right.double()
            a, b = left.shape[:2]
            matrix = left.new_empty(a, b, a, b)
            for i, j, k, l in np.ndindex(a, b, a, b):
                matrix[i, j, k, l] = left[i, j, l] * right[l, i, k]
            return matrix.reshape(a * b, a * b)
        case Composition():
            first, *rest = [matrix_of(part, largest) for part in operator.operators]
            for matrix in rest:
                first = product(first, matrix, largest)
            return first
        case Kronecker():
            left, right = matrix_of(operator.left, largest), matrix_of(operator.right, largest)
            return torch.kron(left.double(), right.double())
        case RowwiseKronecker():
            left, right = matrix_of(operator.left, largest), matrix_of(operator.right, largest)
            return torch.stack([a * b for a in left.double() for b in right.double()])
        case Multiple():
            return operator.weight * torch.eye(operator.size, dtype=torch.float64)
        case Stacked():
            return torch.cat([matrix_of(block, largest).double() for block in operator.blocks])
        case SideBySide():
            return torch.cat([matrix_of(block, largest).double() for block in operator.blocks], 1)
        case BlockDiagonal():
            blocks = [matrix_of(block, largest).double() for block in operator.blocks]
            return torch.block_diag(*blocks)
    raise NotImplementedError(repr(operator))


class Laws(OperatorLaws):
    """The laws for an operator of this library."""

    def dense_operator(self, operator: Operator) -> Tensor:
        return matrix_of(operator)

    def heaviest_terms(self, operator: Operator) -> Tensor:
        return matrix_of(operator, largest=True)


# -- single operators -------------------------------------------------------------------------


class TestDense(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Dense(weights(4, 7, dtype=dtype))


class TestDenseWithZeros(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        matrix = weights(6, 5, dtype=dtype, zeros=0.5)
        matrix[2] = 0
        matrix[:, 3] = 0
        return Dense(matrix)


class TestDenseOfOneEntry(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Dense(weights(1, 1, dtype=dtype))


class TestDenseOfWideWeights(Laws):
    """Weights from the smallest normal number to one, with zeros, and all small."""

    semirings = (REAL, LOG)

    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        lowest = int(np.log2(torch.finfo(dtype).tiny))
        generator = torch.Generator().manual_seed(0)
        exponents = torch.randint(lowest, 0, (2, 6, 5), generator=generator).to(dtype)
        wide = weights(2, 6, 5, dtype=dtype) * torch.exp2(exponents)
        zeros = (torch.rand(6, 5, generator=generator) < 0.4).to(dtype)
        small = torch.exp2(torch.tensor(0.9 * lowest, dtype=dtype))
        return [
            Dense(wide[0]),
            Dense(wide[1] * (1 - zeros)),
            Dense(weights(6, 5, dtype=dtype, zeros=0.4) * small),
        ]

    def test_gradients_are_the_derivatives(self, smooth_semiring: object) -> None:
        """Differences of 1e-6 are larger than these weights."""


class TestBooleanDense(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Dense(weights(5, 6, dtype=dtype, zeros=0.5) > 0)


class TestWholeDense(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Dense((weights(5, 6, dtype=dtype) * 4).floor())


class TestIdentity(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Identity(5)


class TestDiagonal(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        numbers = weights(6, dtype=dtype, zeros=0.4)
        return [Diagonal(numbers), Diagonal(weights(6, dtype=dtype))]


class TestBooleanDiagonal(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Diagonal(torch.tensor([True, False, True, True]))


class TestGather(Laws):
    """One pair for each row, in order, as the automaton's T_in has."""

    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Incidence(torch.arange(6), torch.tensor([2, 0, 0, 3, 2, 2]), (6, 4))


class TestScatter(Laws):
    """One pair for each column, in order, as the automaton's T_out has."""

    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Incidence(torch.tensor([2, 0, 0, 3, 2, 2]), torch.arange(6), (5, 6))


class TestIncidence(Laws):
    """Any pairs, some of them twice; one for each row, but not in order; and none at all."""

    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        row, column = torch.tensor([3, 0, 0, 3, 1, 0]), torch.tensor([1, 4, 4, 2, 0, 1])
        none = torch.zeros(0, dtype=torch.long)
        return [
            Incidence(row, column, (5, 6)),
            Incidence(torch.tensor([1, 2, 0]), torch.tensor([3, 0, 1]), (3, 4)),
            Incidence(none, none, (2, 3)),
        ]


class TestLabelSets(Laws):
    """The second label admits no token, the last class has none."""

    def create_operator(self, dtype: torch.dtype) -> Operator:
        label_class = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]], dtype=torch.bool)
        return LabelSets(label_class, torch.tensor([0, 2, 2, 1, 0, 1, 1]))


class TestMonarch(Laws):
    """W[(i, j), (k, l)] = left[i, j, l] * right[l, i, k]."""

    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        return [
            Monarch(weights(2, 3, 3, dtype=dtype), weights(3, 2, 2, dtype=dtype, seed=1)),
            Monarch(
                weights(4, 2, 2, dtype=dtype, zeros=0.4),
                weights(2, 4, 4, dtype=dtype, seed=1, zeros=0.4),
            ),
        ]


class TestBooleanMonarch(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        left = weights(2, 3, 3, dtype=dtype, zeros=0.4) > 0
        return [Monarch(left, weights(3, 2, 2, dtype=dtype, seed=1, zeros=0.4) > 0)]


class TestBlockSparse(Laws):
    """Missing blocks, a block row and a block column without any, and one place taken twice."""

    def create_operator(self, dtype: torch.dtype) -> Operator:
        row, column = torch.tensor([0, 2, 0, 0]), torch.tensor([1, 1, 3, 1])
        return BlockSparse(row, column, weights(4, 2, 3, dtype=dtype, zeros=0.2), (3, 4))


class TestBooleanBlockSparse(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        row, column = torch.tensor([0, 2, 0]), torch.tensor([1, 1, 3])
        return BlockSparse(row, column, weights(3, 2, 3, dtype=dtype, zeros=0.4) > 0, (3, 4))


# -- operators made of others -----------------------------------------------------------------


def edges_of_states(num_edges: int = 5, num_states: int = 3) -> Composition:
    """An automaton's T_in T_out."""
    edges = torch.arange(num_edges)
    source, target = (edges * 2) % num_states, (edges + 1) % num_states
    return Composition(
        Incidence(edges, target, (num_edges, num_states)),
        Incidence(source, edges, (num_states, num_edges)),
    )


def edge_labels(num_edges: int = 5, num_tokens: int = 6) -> Composition:
    """An automaton's emission: edges to labels to tokens; the last label admits none."""
    label_class = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=torch.bool)
    labels = LabelSets(label_class, torch.arange(num_tokens) % 3)
    edges = torch.arange(num_edges)
    return Composition(Incidence(edges, edges % 3, (num_edges, 3)), labels)


class TestComposition(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        first = Dense(weights(4, 5, dtype=dtype, zeros=0.3))
        second = Dense(weights(5, 6, dtype=dtype, seed=1, zeros=0.3))
        gather = Incidence(torch.arange(3), torch.tensor([3, 3, 0]), (3, 4))
        return [
            Composition(first),
            Composition(first, second),
            Composition(gather, first, second),
            Composition(Composition(gather, first), Diagonal(weights(5, dtype=dtype, zeros=0.4))),
        ]


class TestCompositionOfIncidences(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        gather = Incidence(torch.arange(3), torch.tensor([3, 3, 0]), (3, 5))
        return [edges_of_states(), Composition(gather, Identity(5)), edge_labels()]


class TestMultiple(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        return [Multiple(0.375, 3), Multiple(0.0, 2)]


class TestWholeMultiple(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return Multiple(3.0, 2)


class TestBlockDiagonal(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        dense = Dense(weights(3, 4, dtype=dtype, zeros=0.3))
        blocks = [Dense(weights(3, 3, dtype=dtype, seed=1)), edges_of_states(4, 2), Identity(2)]
        return [BlockDiagonal(dense, edge_labels(3, 4), Identity(2)), block_diagonal(blocks)]


class TestBlockDiagonalOfSelections(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        gather = Incidence(torch.arange(4), torch.tensor([2, 0, 0, 1]), (4, 3))
        return BlockDiagonal(gather, Identity(2), gather)


class TestStacked(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        dense = Dense(weights(3, 6, dtype=dtype, zeros=0.3))
        other = Dense(weights(2, 6, dtype=dtype, seed=1, zeros=0.3))
        return [Stacked(dense, edge_labels(), other), stacked([edge_labels(4), dense, other])]


class TestStackedLabels(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        return stacked([edge_labels(3), edge_labels(4)])


class TestSideBySide(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        dense = Dense(weights(3, 4, dtype=dtype, zeros=0.3))
        starts = [Dense(weights(1, 3, dtype=dtype)), Dense(weights(1, 2, dtype=dtype, seed=1))]
        return [
            SideBySide(dense, Identity(3), edge_labels(3, 4)),
            SideBySide(*(Composition(Multiple(0.25, 1), start) for start in starts)),
        ]


class TestKroneckerOfDense(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        right = Dense(weights(3, 4, dtype=dtype, seed=1, zeros=0.4))
        return Kronecker(Dense(weights(2, 3, dtype=dtype)), right)


class TestKroneckerOfHMMAndAutomaton(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        transition = Dense(weights(3, 3, dtype=dtype))
        return [
            Kronecker(transition, edges_of_states()),
            Kronecker(edges_of_states(), transition),
        ]


class TestKroneckerOfThree(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        first, second = Dense(weights(2, 3, dtype=dtype)), edges_of_states(3, 2)
        third = Diagonal(weights(2, dtype=dtype, seed=1, zeros=0.3))
        return [
            Kronecker(Kronecker(first, second), third),
            Kronecker(third, Kronecker(second, first)),
        ]


class TestKroneckerOfSelections(Laws):
    def create_operator(self, dtype: torch.dtype) -> Operator:
        gather = Incidence(torch.arange(4), torch.tensor([2, 0, 0, 1]), (4, 3))
        return Kronecker(Identity(2), gather)


class TestRowwiseKroneckerOfDense(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        left = Dense(weights(2, 6, dtype=dtype, zeros=0.3))
        right = Dense(weights(4, 6, dtype=dtype, seed=1, zeros=0.3))
        return [RowwiseKronecker(left, right), RowwiseKronecker(right, left)]


class TestRowwiseKroneckerOfHMMAndAutomaton(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        emission = Dense(weights(3, 6, dtype=dtype, zeros=0.3))
        return [
            rowwise_kronecker(emission, edge_labels()),
            rowwise_kronecker(edge_labels(), emission),
            RowwiseKronecker(emission, edge_labels()),
        ]


class TestRowwiseKroneckerOfLabels(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        other = LabelSets(torch.tensor([[True, False], [True, True]]), torch.arange(6) // 3)
        return [rowwise_kronecker(edge_labels(), edge_labels(4)), RowwiseKronecker(other, other)]


class TestRowwiseKroneckerOfThree(Laws):
    def create_operators(self, dtype: torch.dtype) -> list[Operator]:
        first = Dense(weights(2, 6, dtype=dtype, zeros=0.3))
        second = Dense(weights(2, 6, dtype=dtype, seed=1))
        return [
            rowwise_kronecker(rowwise_kronecker(first, edge_labels(4)), second),
            rowwise_kronecker(second, rowwise_kronecker(edge_labels(3), first)),
        ]


# -- simplification ---------------------------------------------------------------------------


def test_compose_leaves_out_identities() -> None:
    matrix = Dense(torch.ones(2, 3))
    assert compose(Identity(2), matrix, Identity(3)) is matrix
    assert compose(Identity(2), Identity(2)) == Identity(2)
    assert isinstance(compose(matrix, Dense(torch.ones(3, 3))), Composition)


def test_blocks_of_compositions_are_compositions_of_blocks() -> None:
    transition = Dense(torch.rand(3, 3))
    mixed = block_diagonal([edges_of_states(5, 2), edges_of_states(4, 3), transition])
    assert [factor.shape for factor in mixed.factors] == [(12, 8), (8, 12)]
    emission = stacked([edge_labels(5), edge_labels(4)])
    assert [factor.shape for factor in emission.factors] == [(9, 6), (6, 6)]
    with pytest.raises(InvalidParameterError, match=r"columns, but have \[3, 2\]"):
        Stacked(transition, Identity(2))
    with pytest.raises(InvalidParameterError, match=r"rows, but have \[3, 2\]"):
        SideBySide(transition, Identity(2))
    with pytest.raises(InvalidParameterError, match="at least one operator"):
        BlockDiagonal()


def test_kronecker_with_a_single_unit_is_the_other_factor() -> None:
    matrix = Dense(torch.ones(2, 3))
    assert kronecker(Identity(1), matrix) is matrix
    assert kronecker(matrix, Identity(1)) is matrix
    assert kronecker(Identity(2), Identity(3)) == Identity(6)


def test_rowwise_kronecker_pulls_the_selections_out() -> None:
    product = rowwise_kronecker(Dense(torch.ones(3, 6)), edge_labels(num_edges=50))
    selection, core = product.factors
    assert isinstance(core, RowwiseKronecker)
    assert core.shape == (3 * 3, 6)  # hidden states x labels, not x edges
    assert selection.selection(torch.arange(150)) is not None


# -- cost -------------------------------------------------------------------------------------


class Recorded(Operator):
    """An operator that writes its name down when it is applied."""

    def __init__(self, name: str, operator: Operator, journal: list[str]) -> None:
        self.name, self.operator, self.journal = name, operator, journal

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def cost(self) -> int:
        return self.operator.cost

    def matvec(self, x, semiring=LINEAR):
        self.journal.append(self.name)
        return self.operator.matvec(x, semiring)

    def rmatvec(self, x, semiring=LINEAR):
        self.journal.append(self.name)
        return self.operator.rmatvec(x, semiring)


@pytest.mark.parametrize("automaton_first", [False, True])
def test_kronecker_applies_the_hmm_on_states_not_on_edges(automaton_first: bool) -> None:
    hidden, states, edges = 4, 3, 50
    journal: list[str] = []
    transition = Recorded("A", Dense(torch.ones(hidden, hidden)), journal)
    t_in, t_out = edges_of_states(edges, states).operators
    automaton = Composition(Recorded("T_in", t_in, journal), Recorded("T_out", t_out, journal))
    pair = (automaton, transition) if automaton_first else (transition, automaton)
    product = Kronecker(*pair)
    assert product.cost == hidden * edges + hidden**2 * states + hidden * edges
    product.matvec(torch.ones(hidden * edges))
    assert journal == ["T_out", "A", "T_in"]
    journal.clear()
    product.rmatvec(torch.ones(hidden * edges))
    assert journal == ["T_in", "A", "T_out"]


def test_kronecker_shrinks_before_it_grows() -> None:
    narrow, wide = Dense(torch.ones(1, 8)), Dense(torch.ones(8, 1))
    journal: list[str] = []
    product = Kronecker(Recorded("narrow", narrow, journal), Recorded("wide", wide, journal))
    assert product.cost == 8 * 1 + 8 * 1
    product.matvec(torch.ones(8))
    assert journal == ["narrow", "wide"]
    journal.clear()
    product.rmatvec(torch.ones(8))
    assert journal == ["wide", "narrow"]


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return result


@pytest.mark.parametrize("semiring", [LINEAR, REAL, LOG], ids=["Linear", "Real", "Log"])
def test_rowwise_kronecker_makes_nothing_of_edges_times_tokens(semiring) -> None:
    hidden, edges, tokens = 4, 300, 600
    product = rowwise_kronecker(Dense(torch.ones(hidden, tokens)), edge_labels(edges, tokens))
    x, y = semiring.lift(torch.ones(1, tokens)), semiring.lift(torch.ones(1, hidden * edges))
    few = torch.arange(2)
    for call in (
        lambda: product.matvec(x, semiring),
        lambda: product.rmatvec(y, semiring),
        lambda: product.total(semiring),
        lambda: product.rows(few, semiring),
        lambda: product.columns(few, semiring),
    ):
        with LargestTensor() as largest:
            call()
        assert 0 < largest.size < edges * tokens / 10


def test_rowwise_kronecker_costs_labels_not_edges() -> None:
    emission = Dense(torch.ones(4, 600))
    costs = [rowwise_kronecker(emission, edge_labels(edges, 600)).cost for edges in (300, 3000)]
    assert costs[1] - costs[0] == 4 * 0 + 2700 * 4  # only the selection grows with the edges


@pytest.mark.parametrize("labels_first", [False, True])
def test_rowwise_kronecker_goes_through_the_side_that_costs_less(labels_first: bool) -> None:
    hidden, tokens = 100, 6
    journal: list[str] = []
    emission = Recorded("emission", Dense(torch.ones(hidden, tokens)), journal)
    labels = Recorded("labels", edge_labels(2, tokens).operators[1], journal)  # three labels
    pair = (labels, emission) if labels_first else (emission, labels)
    product = RowwiseKronecker(*pair)
    row_by_row = {"emission": 100 * (6 + 9 + 6), "labels": 3 * (6 + 600)}
    assert product.cost == min(row_by_row.values())
    product.matvec(torch.ones(tokens))
    # Rows are taken (by rmatvec) from the labels, and multiplied through the emission.
    assert journal == ["labels", "emission"]


# -- bounded memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("semiring", [REAL, LOG, MAXIMUM], ids=["Real", "Log", "Maximum"])
def test_working_in_chunks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, semiring, dtype: torch.dtype
) -> None:
    for module in ("operators.rowwise_kronecker", "semirings.log", "semirings.rescue"):
        monkeypatch.setattr(importlib.import_module(f"pcgcd.circuits.{module}"), "_CHUNK", 13)
    for laws in (TestRowwiseKroneckerOfDense(), TestRowwiseKroneckerOfThree(), TestMonarch()):
        laws.test_matvec_equals_dense_product(semiring, dtype)
        laws.test_rmatvec_equals_transposed_product(semiring, dtype)
        laws.test_no_false_zeros_over_a_wide_range(semiring, dtype)


# -- errors and texts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(torch.ones(3)), r"needs a matrix, but got shape \(3,\)"),
        (lambda: Diagonal(torch.ones(2, 2)), r"needs a vector, but got shape \(2, 2\)"),
        (
            lambda: Incidence(torch.tensor([0]), torch.tensor([0, 1]), (1, 2)),
            r"vectors of one length, but have shapes \(1,\) and \(2,\)",
        ),
        (
            lambda: Incidence(torch.tensor([2]), torch.tensor([0]), (2, 2)),
            r"row indices must lie in 0..1, but run from 2 to 2",
        ),
        (
            lambda: Incidence(torch.tensor([0]), torch.tensor([-1]), (2, 2)),
            r"column indices must lie in 0..1, but run from -1 to -1",
        ),
        (
            lambda: Monarch(torch.ones(2, 3, 3), torch.ones(2, 3, 3)),
            r"shapes \(a, b, b\) and \(b, a, a\), but have \(2, 3, 3\) and \(2, 3, 3\)",
        ),
        (lambda: Monarch(torch.ones(2), torch.ones(2)), r"but have \(2,\) and \(2,\)"),
        (
            lambda: BlockSparse(torch.tensor([0]), torch.tensor([0]), torch.ones(2, 1, 1), (1, 1)),
            r"with K places, but got shape \(2, 1, 1\) with 1 rows and 1 columns",
        ),
        (
            lambda: LabelSets(torch.ones(2), torch.zeros(3, dtype=torch.long)),
            r"but got shapes \(2,\) and \(3,\)",
        ),
        (lambda: Composition(), "at least one operator"),
        (
            lambda: Composition(Identity(2), Identity(3)),
            "the first takes 2 units, the second gives 3",
        ),
    ],
)
def test_bad_shapes_are_refused_with_both_shapes(make, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make()


@pytest.mark.parametrize("make", [RowwiseKronecker, rowwise_kronecker])
def test_emissions_over_two_vocabularies_are_refused(make) -> None:
    with pytest.raises(VocabularyMismatchError, match="over 3 and 4 tokens"):
        make(Dense(torch.ones(2, 3)), Dense(torch.ones(2, 4)))


def test_a_huge_matrix_is_not_written_out() -> None:
    with pytest.raises(CircuitTooLargeError, match="use matvec, rows or columns instead"):
        Identity(1 << 14).to_dense()


def test_reprs_show_how_an_operator_is_made() -> None:
    transition, automaton = Dense(torch.ones(2, 2)), edges_of_states(5, 3)
    assert repr(transition) == "Dense(2 x 2)"
    assert repr(automaton) == "Incidence(5 x 3) @ Incidence(3 x 5)"
    expected = "(Dense(2 x 2) ⊗ Incidence(5 x 3) @ Incidence(3 x 5))"
    assert repr(Kronecker(transition, automaton)) == expected
    rowwise = RowwiseKronecker(transition, Dense(torch.ones(3, 2)))
    assert repr(rowwise) == "(Dense(2 x 2) ⊗_row Dense(3 x 2))"


def test_numpy_reads_an_operator_as_its_matrix() -> None:
    matrix = np.asarray(Kronecker(Identity(2), Dense(torch.tensor([[0.5, 2.0]]))))
    assert matrix.tolist() == [[0.5, 2.0, 0.0, 0.0], [0.0, 0.0, 0.5, 2.0]]

"""The law of the product: where circuits are compatible, it is the pointwise product."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pcgcd import (
    HMM,
    MonarchHMM,
    circuit_product,
    condition,
    expectation,
    is_compatible,
    mixture,
)
from pcgcd.circuits import (
    Chain,
    ChainMixture,
    ChainProduct,
    Circuit,
    CircuitLike,
    Dense,
    Identity,
    InputLayer,
    Layer,
    ProductLayer,
    SumLayer,
    is_decomposable,
    is_smooth,
    is_structured_decomposable,
    product_rule,
)
from pcgcd.circuits.semirings import BOOLEAN, LINEAR, LOG
from pcgcd.errors import (
    InvalidParameterError,
    StructuralPropertyError,
    VocabularyMismatchError,
)
from tests.circuits.chain_examples import dfa, nfa
from tests.circuits.random_circuits import VOCAB_SIZE, Builder, builders

GENERATOR = torch.Generator().manual_seed(7)


def world(length: int, vocab_size: int = VOCAB_SIZE) -> Tensor:
    return torch.tensor(list(itertools.product(range(vocab_size), repeat=length)))


def values(circuit: CircuitLike, x: Tensor) -> Tensor:
    return circuit.log_value(x).exp()


def assert_product(product: CircuitLike, factors: list[CircuitLike], x: Tensor) -> None:
    expected = torch.ones(len(x), dtype=torch.float64)
    for factor in factors:
        expected = expected * values(factor, x).double()
    actual = values(product, x)
    rtol = 1e-8 if actual.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=rtol, atol=0)
    assert torch.equal(actual == 0, expected == 0), "zeros must be exact"


def random_hmm(hidden: int = 3, vocab_size: int = 3) -> HMM:
    return HMM.random(hidden, vocab_size, generator=GENERATOR, dtype=torch.float64)


def random_monarch(vocab_size: int = 3) -> MonarchHMM:
    def rows(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=GENERATOR, dtype=torch.float64).softmax(-1)

    return MonarchHMM(rows(6), rows(2, 3, 3), rows(3, 2, 2), rows(6, vocab_size))


def uneven_chain(widths: list[int], vocab_size: int = 3) -> Circuit:
    """A chain with another number of units at each step."""
    builder = torch.Generator().manual_seed(sum(widths))
    last = len(widths) - 1

    def weights(rows: int, columns: int) -> Dense:
        return Dense(torch.rand(rows, columns, generator=builder, dtype=torch.float64))

    layer: Layer = InputLayer(last, weights(widths[last], vocab_size))
    for step in range(last - 1, -1, -1):
        below = SumLayer([layer], [weights(widths[step], widths[step + 1])])
        layer = ProductLayer(InputLayer(step, weights(widths[step], vocab_size)), below)
    return Circuit(SumLayer([layer], [weights(1, widths[0])]))


def factorised(length: int, units: int = 2, vocab_size: int = 3) -> Circuit:
    """A mixture of fully factorised distributions."""
    builder = torch.Generator().manual_seed(length)
    inputs = [
        InputLayer(t, Dense(torch.rand(units, vocab_size, generator=builder, dtype=torch.float64)))
        for t in range(length)
    ]
    mix = Dense(torch.rand(1, units, generator=builder, dtype=torch.float64))
    return Circuit(SumLayer([ProductLayer(*inputs)], [mix]))


def tree(units: int = 2, vocab_size: int = 3, seed: int = 0) -> Circuit:
    """A latent tree over four variables: a root with two children of two leaves each."""
    builder = torch.Generator().manual_seed(seed)

    def weights(rows: int, columns: int) -> Dense:
        return Dense(torch.rand(rows, columns, generator=builder, dtype=torch.float64))

    def branch(a: int, b: int) -> Layer:
        pair = ProductLayer(*(InputLayer(v, weights(units, vocab_size)) for v in (a, b)))
        return SumLayer([pair], [weights(units, units)])

    return Circuit(SumLayer([ProductLayer(branch(0, 2), branch(1, 3))], [weights(1, units)]))


# -- the law, on random circuits --------------------------------------------------------------


@settings(max_examples=150)
@given(builder=builders(), length=st.integers(1, 5))
def test_circuits_over_one_vtree_are_compatible_and_multiply_pointwise(
    builder: Builder, length: int
) -> None:
    vtree = builder.vtree(list(range(length)))
    a, b = builder.circuit(vtree), builder.circuit(vtree)
    assert is_compatible(a, b)
    assert_product(a * b, [a, b], world(length))


@settings(max_examples=150)
@given(builder=builders(), length=st.integers(2, 5))
def test_compatible_implies_that_the_product_is_pointwise(builder: Builder, length: int) -> None:
    a = builder.circuit(builder.vtree(list(range(length))))
    b = builder.circuit(builder.vtree(list(range(length))))
    if is_compatible(a, b):
        assert_product(a * b, [a, b], world(length))
    else:
        with pytest.raises(StructuralPropertyError, match="scope"):
            _ = a * b


@settings(max_examples=60)
@given(builder=builders(), length=st.integers(1, 4))
def test_products_and_mixtures_nest(builder: Builder, length: int) -> None:
    vtree = builder.vtree(list(range(length)))
    a, b, c = (builder.circuit(vtree) for _ in range(3))
    x = world(length)
    assert_product((a * b) * c, [a, b, c], x)
    assert_product(a * (b * c), [a, b, c], x)
    torch.testing.assert_close(
        values((0.25 * a + b) * c, x), (0.25 * values(a, x) + values(b, x)) * values(c, x)
    )


@settings(max_examples=60)
@given(builder=builders(), length=st.integers(2, 5))
def test_partial_products_multiply_what_is_shared(builder: Builder, length: int) -> None:
    vtree = builder.vtree(list(range(length)))
    if not isinstance(vtree, tuple):
        return
    part = vtree[0]
    a, b = builder.circuit(vtree), builder.circuit(part)
    x = world(length)
    columns = list(b.variables)
    product = circuit_product(a, b, partial=True)
    torch.testing.assert_close(values(product, x), values(a, x) * values(b, x[:, columns]))
    with pytest.raises(StructuralPropertyError, match="different variables"):
        _ = a * b


@settings(max_examples=60)
@given(builder=builders(), length=st.integers(1, 4))
def test_a_mixture_is_the_weighted_pointwise_sum(builder: Builder, length: int) -> None:
    vtree = builder.vtree(list(range(length)))
    a, b = builder.circuit(vtree), builder.circuit(builder.vtree(list(range(length))))
    x = world(length)
    torch.testing.assert_close(values(a + b, x), values(a, x) + values(b, x))
    torch.testing.assert_close(
        values(mixture([a, b], [0.3, 2.0]), x), 0.3 * values(a, x) + 2.0 * values(b, x)
    )


@settings(max_examples=100)
@given(builder=builders(), length=st.integers(1, 5))
def test_a_product_is_smooth_decomposable_and_structured(builder: Builder, length: int) -> None:
    vtree = builder.vtree(list(range(length)))
    product = builder.circuit(vtree) * builder.circuit(vtree)
    assert is_smooth(product)
    assert is_decomposable(product)
    assert is_structured_decomposable(product)


# -- the pairs that the library promises ------------------------------------------------------

CHAINS: dict[str, Chain] = {
    "hmm": random_hmm(),
    "small hmm": random_hmm(2),
    "monarch": random_monarch(),
    "dfa": dfa(),
    "nfa": nfa(),
}
OF_LENGTH_4: dict[str, Circuit] = {
    **{name: chain.unroll(4) for name, chain in CHAINS.items()},
    "uneven chain": uneven_chain([2, 3, 1, 4]),
    "factorised": factorised(4),
}


@pytest.mark.parametrize("left", CHAINS)
@pytest.mark.parametrize("right", CHAINS)
@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_product_of_two_chains_is_a_chain(left: str, right: str, length: int) -> None:
    a, b = CHAINS[left], CHAINS[right]
    product = a * b
    assert isinstance(product, Chain)
    assert is_compatible(a, b)
    assert_product(product, [a, b], world(length, 3))
    assert_product(a.unroll(length) * b.unroll(length), [a, b], world(length, 3))


@pytest.mark.parametrize("order", list(itertools.permutations(["hmm", "dfa", "nfa"])))
def test_three_chains_multiply_in_any_order(order: tuple[str, ...]) -> None:
    a, b, c = (CHAINS[name] for name in order)
    for product in ((a * b) * c, a * (b * c)):
        assert_product(product, [a, b, c], world(3, 3))


@pytest.mark.parametrize("left", OF_LENGTH_4)
@pytest.mark.parametrize("right", ["uneven chain", "factorised"])
def test_chain_shaped_circuits_multiply(left: str, right: str) -> None:
    a, b = OF_LENGTH_4[left], OF_LENGTH_4[right]
    assert_product(a * b, [a, b], world(4, 3))
    assert_product(b * a, [a, b], world(4, 3))


@pytest.mark.parametrize("name", CHAINS)
def test_a_mixture_multiplies_with_a_chain_for_every_length(name: str) -> None:
    a, b, chain = CHAINS["hmm"], CHAINS["small hmm"], CHAINS[name]
    product = (0.3 * a + 0.7 * b) * chain
    for length in (1, 3):
        x = world(length, 3)
        expected = (0.3 * values(a, x) + 0.7 * values(b, x)) * values(chain, x)
        torch.testing.assert_close(values(product, x), expected)
    fixed = (0.3 * a + 0.7 * b).unroll(3) * chain
    torch.testing.assert_close(values(fixed, x), expected)


@pytest.mark.parametrize("names", list(itertools.product(CHAINS, repeat=2)))
def test_a_mixture_of_chains_is_a_chain(names: tuple[str, str]) -> None:
    a, b = (CHAINS[name] for name in names)
    mixed = 0.5 * (2.0 * a + 0.25 * b) + 3.0 * (a * b)
    assert isinstance(mixed, ChainMixture)
    assert mixed.weights == (1.0, 0.125, 3.0)
    assert mixed.operands[:2] == (a, b)
    assert mixed.num_units == a.num_units + b.num_units + a.num_units * b.num_units
    product = mixed * CHAINS["nfa"]
    assert isinstance(product, ChainProduct)
    assert product.factors == (mixed, CHAINS["nfa"])
    for length in (1, 2, 4):
        x = world(length, 3)
        one, other = values(a, x).double(), values(b, x).double()
        expected = one + 0.125 * other + 3.0 * one * other
        for kind, matter in ((mixed, 1.0), (product, values(CHAINS["nfa"], x).double())):
            actual = values(kind, x)
            rtol = 1e-8 if actual.dtype == torch.float64 else 1e-5
            want = (expected * matter).to(actual.dtype)
            torch.testing.assert_close(actual, want, rtol=rtol, atol=0)
            assert torch.equal(actual == 0, want == 0), "zeros must be exact"


def test_the_weights_of_a_mixture_have_the_precision_of_the_product() -> None:
    """An automaton has no floating type; its weight must not be rounded to single precision."""
    hmm, x = random_hmm(), world(3, 3)
    found = (0.3 * dfa() + 0.7 * nfa()) * hmm
    expected = (0.3 * values(dfa(), x).double() + 0.7 * values(nfa(), x).double()) * values(hmm, x)
    torch.testing.assert_close(values(found, x), expected, rtol=1e-12, atol=0)
    assert isinstance(found, Chain)
    assert found.operators.initial.dtype == torch.float64
    assert (2.0 * random_hmm().to(dtype=torch.float32)).unroll(2).dtype == torch.float32


def test_the_best_path_of_a_mixture_names_the_operand() -> None:
    a, b = random_hmm(2), random_hmm(3)
    found = mixture([a, b], [1e-9, 1.0]).best_path(torch.tensor([[0, 1]]))
    alone = b.best_path(torch.tensor([[0, 1]]))
    assert torch.equal(found.units, alone.units + 2)
    torch.testing.assert_close(found.log_weight, alone.log_weight)


def test_a_chain_and_a_circuit_of_one_length_mix_to_that_length() -> None:
    a, b, x = random_hmm(), factorised(3), world(3, 3)
    for mixed in (0.25 * a + b, b + 0.25 * a):
        assert isinstance(mixed, Circuit)
        torch.testing.assert_close(values(mixed, x), 0.25 * values(a, x) + values(b, x))


class Growing(CircuitLike):
    """A family that is no chain: step t of n has t + 1 units."""

    def unroll(self, length: int | None = None) -> Circuit:
        if length is None:
            raise InvalidParameterError("name a length")
        return uneven_chain(list(range(1, length + 1)))

    @property
    def vocab_size(self) -> int:
        return 3

    def to(self, device: object = None, dtype: object = None) -> Growing:
        return self


def test_a_family_of_ones_own_multiplies_and_mixes_at_one_length() -> None:
    family, hmm, fa = Growing(), random_hmm(), dfa()
    for length in (1, 3):
        x, graph = world(length, 3), family.unroll(length)
        product, mixed = graph * hmm * fa, 0.25 * graph + 0.5 * hmm
        assert product.factors == (graph, hmm, fa)
        assert mixed.factors == (mixed,)
        assert_product(product, [family, hmm, fa], x)
        assert_product(mixed * fa, [mixed, fa], x)
        expected = 0.25 * values(family, x) + 0.5 * values(hmm, x)
        torch.testing.assert_close(values(mixed, x), expected)
    assert is_compatible(graph, hmm)
    assert is_structured_decomposable(family)
    with pytest.raises(StructuralPropertyError, match=r"unroll\(n\)\.map_operators"):
        family.with_operators({hmm.operators.emission: hmm.operators.emission})


def test_a_family_of_ones_own_is_unrolled_before_it_is_combined() -> None:
    family, hmm = Growing(), random_hmm()
    for combine in (lambda: family * hmm, lambda: hmm * family, lambda: family + hmm):
        with pytest.raises(StructuralPropertyError, match=r"this Growing has .* circuit\.unroll"):
            combine()
    with pytest.raises(StructuralPropertyError, match=r"unroll it first"):
        _ = 0.5 * family
    assert not is_compatible(family, hmm)


def test_a_tree_multiplies_with_compatible_constraints() -> None:
    hclt, other = tree(seed=1), tree(units=3, seed=2)
    x = world(4, 3)
    assert_product(hclt * other, [hclt, other], x)
    assert_product(hclt * factorised(4), [hclt, factorised(4)], x)
    pair = Circuit(SumLayer([ProductLayer(*_indicators(0, 2))], [Dense(torch.ones(1, 2))]))
    constrained = circuit_product(hclt, pair, partial=True)
    agree = (x[:, 0] == x[:, 2]) & (x[:, 0] < 2)
    torch.testing.assert_close(values(constrained, x), values(hclt, x) * agree)


def _indicators(*variables: int) -> list[Layer]:
    """Unit k says "this variable is k", for k = 0, 1."""
    return [InputLayer(v, Dense(torch.eye(3, dtype=torch.float64)[:2])) for v in variables]


def test_a_tree_and_a_chain_are_incompatible_and_both_scopes_are_named() -> None:
    assert not is_compatible(tree(), random_hmm())
    with pytest.raises(StructuralPropertyError, match=r"\{0\} x \{1\.\.3\}|\{0, 2\} x \{1, 3\}"):
        _ = tree() * random_hmm()
    with pytest.raises(StructuralPropertyError, match=r"\{0\.\.2\}.*\{0\.\.3\}"):
        _ = random_hmm().unroll(3) * random_hmm().unroll(4)


def test_a_circuit_times_a_chain_must_be_right_linear() -> None:
    chain = random_hmm()
    for product in (lambda: tree() * chain, lambda: tree() * chain.unroll(4)):
        with pytest.raises(StructuralPropertyError, match=r"right one splits off .*right-linear"):
            product()
    with pytest.raises(StructuralPropertyError, match=r"left one splits off .*right-linear"):
        _ = chain * tree()
    other = Circuit(SumLayer([ProductLayer(*_indicators(0, 1, 2))], [Dense(torch.ones(1, 2))]))
    assert_product(other * chain, [other, chain], world(3, 3))  # one variable after the other


class Uncompiled:
    """It has to be compiled before it is a circuit."""

    def compile(self, vocabulary: object) -> None: ...


def test_what_is_not_compiled_yet_is_refused_with_what_to_do() -> None:
    hmm, waiting = random_hmm(), Uncompiled()
    for combine in (
        lambda: hmm * waiting,
        lambda: waiting * hmm,
        lambda: hmm.unroll(3) * waiting,
        lambda: circuit_product(hmm, waiting),  # type: ignore[arg-type]
        lambda: condition(hmm, waiting),  # type: ignore[arg-type]
        lambda: is_compatible(hmm, waiting),  # type: ignore[arg-type]
        lambda: mixture([hmm, waiting]),  # type: ignore[list-item]
        lambda: expectation(hmm, waiting),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameterError, match=r"compile it.*\.compile\(lm\.vocabulary\)"):
            combine()
    with pytest.raises(InvalidParameterError, match=r"expected a circuit.* but got 'fa'$"):
        circuit_product(hmm, "fa")  # type: ignore[arg-type]


def test_a_deep_product_needs_no_recursion() -> None:
    a, b = random_hmm().unroll(3000), dfa().unroll(3000)
    product = a * b
    assert product.num_variables == 3000
    torch.testing.assert_close(
        product.log_partition(), (random_hmm_like(a) * dfa()).log_partition(3000)
    )


def random_hmm_like(circuit: Circuit) -> HMM:
    return HMM.from_circuit(circuit)


def test_steps_of_a_product_stay_tied() -> None:
    product = random_hmm().unroll(6) * dfa().unroll(6)
    emissions = {layer.emission for layer in product.inputs}
    transitions = {op for layer in product.layers[1:-1] for op in layer.operators} - emissions
    assert len(emissions) == 1
    assert len(transitions) == 2, "the last step ends in the accepting states, the others are tied"


# -- errors -----------------------------------------------------------------------------------


def test_different_vocabularies_do_not_multiply() -> None:
    a, b = random_hmm(vocab_size=3), random_hmm(vocab_size=4)
    assert not is_compatible(a, b)
    with pytest.raises(VocabularyMismatchError, match="3 and 4 tokens"):
        _ = a * b
    with pytest.raises(VocabularyMismatchError, match="3 values"):
        _ = a.unroll(2) * b.unroll(2)


def test_an_unsmooth_or_undecomposable_operand_is_refused() -> None:
    coin = Dense(torch.ones(1, 2, dtype=torch.float64))
    unsmooth = Circuit(SumLayer([InputLayer(0, coin), InputLayer(1, coin)], [Identity(1)] * 2))
    squared = Circuit(ProductLayer(InputLayer(0, coin), InputLayer(0, coin)))
    assert not is_smooth(unsmooth)
    assert is_decomposable(unsmooth)
    assert not is_decomposable(squared)
    for bad in (unsmooth, squared):
        with pytest.raises(StructuralPropertyError, match="scopes"):
            _ = bad * bad
        assert not is_compatible(bad, bad)
        with pytest.raises(StructuralPropertyError):
            bad.log_partition()


def test_mixture_errors() -> None:
    hmm = random_hmm()
    with pytest.raises(InvalidParameterError, match="not negative"):
        mixture([hmm], [-1.0])
    with pytest.raises(InvalidParameterError, match="2 weights"):
        mixture([hmm], [1.0, 2.0])
    with pytest.raises(InvalidParameterError, match="at least one"):
        mixture([])
    with pytest.raises(VocabularyMismatchError, match="mix circuits over 3 and 4 tokens"):
        _ = hmm + random_hmm(vocab_size=4)
    with pytest.raises(StructuralPropertyError, match="same variables"):
        _ = hmm.unroll(2) + hmm.unroll(3)
    with pytest.raises(TypeError):
        _ = hmm * "fa"  # type: ignore[operator]


# -- rules of the user's own ------------------------------------------------------------------


class Rounded(InputLayer):
    """An input layer of a kind of its own, to be multiplied by a rule of its own."""


def test_users_register_rules_by_subclass() -> None:
    calls = []

    @product_rule(Rounded, InputLayer)
    def multiply_rounded(a: Rounded, b: InputLayer, run: object) -> Layer:
        calls.append((a, b))
        dense = torch.einsum("iv,jv->ijv", a.emission.to_dense(), b.emission.to_dense())
        return InputLayer(a.variable, Dense(dense.flatten(0, 1)))

    a = Circuit(SumLayer([Rounded(0, Dense(torch.rand(2, 3).double()))], [Dense(torch.ones(1, 2))]))
    b = factorised(1)
    assert_product(a * b, [a, b], world(1, 3))
    assert len(calls) == 1
    assert_product(b * a, [a, b], world(1, 3))
    assert len(calls) == 1, "the other order falls back to the rule of the base class"


def test_a_layer_without_a_rule_says_how_to_register_one() -> None:
    class Odd(Layer):
        @property
        def num_units(self) -> int:
            return 1

        up = down = rebuilt = None  # type: ignore[assignment]

    Odd.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    odd = Odd()
    odd.children = (InputLayer(0, Dense(torch.ones(1, 3))),)
    with pytest.raises(StructuralPropertyError, match="product_rule"):
        _ = Circuit(odd) * Circuit(odd)
    pair = tuple(InputLayer(variable, Dense(torch.ones(1, 3))) for variable in (0, 1))
    other = Odd()
    other.children = pair
    with pytest.raises(StructuralPropertyError, match=r"product_rule\(ProductLayer, Odd\)"):
        _ = Circuit(ProductLayer(*pair)) * Circuit(other)


# -- other semirings --------------------------------------------------------------------------


@settings(max_examples=40)
@given(builder=builders(), length=st.integers(1, 4))
def test_a_product_has_the_same_values_in_every_semiring(builder: Builder, length: int) -> None:
    vtree = builder.vtree(list(range(length)))
    product = builder.circuit(vtree) * builder.circuit(vtree)
    x = world(length)
    expected = values(product, x)
    torch.testing.assert_close(product.value(x, LINEAR), expected)
    torch.testing.assert_close(product.value(x, LOG).exp(), expected)
    assert torch.equal(product.value(x, BOOLEAN), expected > 0)

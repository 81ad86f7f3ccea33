"""The paper's definitions, theorems, algorithm, figure and example, as named tests."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton, condition
from pcgcd.circuits.semirings import BOOLEAN, COUNTING

VOCAB = ["{", "}", '"', ":", "-", *"0123456789", "x", "y", "EOS"]
TOKEN = {name: token for token, name in enumerate(VOCAB)}
DIGITS = {TOKEN[digit] for digit in "0123456789"}


def figure_1() -> FiniteAutomaton:
    """``{"x": <integer>}``, its edges e_0..e_12 in the figure's order."""
    return FiniteAutomaton.from_edges(
        num_states=10,
        vocab_size=len(VOCAB),
        initial=0,
        accepting={9},
        edges=[
            (0, 1, {TOKEN["{"]}),
            (1, 2, {TOKEN['"']}),
            (2, 3, {TOKEN["x"]}),
            (3, 4, {TOKEN['"']}),
            (4, 5, {TOKEN[":"]}),
            (4, 6, {TOKEN[":"]}),
            (5, 6, {TOKEN["-"]}),
            (6, 7, {TOKEN["0"]}),
            (6, 8, DIGITS - {TOKEN["0"]}),
            (7, 9, {TOKEN["}"]}),
            (8, 9, {TOKEN["}"]}),
            (8, 8, DIGITS),
            (9, 9, {TOKEN["EOS"]}),
        ],
    )


def encode(text: str, length: int) -> Tensor:
    tokens = [TOKEN[character] for character in text]
    return torch.tensor([tokens + [TOKEN["EOS"]] * (length - len(tokens))])


def exactly_one_one() -> FiniteAutomaton:
    """The three strings 001, 010 and 100: a state counts the position and the ones so far."""
    state = {(t, ones): 2 * t + ones for t in range(4) for ones in range(2)}
    edges = []
    for t in range(3):
        edges += [(state[t, ones], state[t + 1, ones], {0}) for ones in range(2)]
        edges.append((state[t, 0], state[t + 1, 1], {1}))
    return FiniteAutomaton.from_edges(
        num_states=8, vocab_size=2, initial=0, accepting={state[3, 1]}, edges=edges
    )


def ambiguous_nfa() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=4,
        vocab_size=3,
        initial=0,
        accepting={2, 3},
        edges=[
            (0, 0, {0, 1}),
            (0, 1, {1, 2}),
            (0, 2, {1}),
            (1, 2, {0, 2}),
            (2, 2, {0}),
            (1, 3, {0, 1}),
            (3, 3, {0, 1, 2}),
        ],
    )


def accepting_paths(fa: FiniteAutomaton, tokens: tuple[int, ...]) -> int:
    """Count by trying every sequence of edges."""
    members = [set(fa.labels.tokens(label).tolist()) for label in fa.label]
    count = 0
    for path in itertools.product(range(fa.num_edges), repeat=len(tokens)):
        fits = fa.initial_mask[fa.source[path[0]]] and fa.accepting_mask[fa.target[path[-1]]]
        fits = fits and all(fa.target[a] == fa.source[b] for a, b in itertools.pairwise(path))
        count += bool(fits and all(t in members[e] for e, t in zip(path, tokens)))
    return count


def random_hmm(hidden: int, vocab_size: int, seed: int = 0) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(hidden, vocab_size, generator=generator, dtype=torch.float64)


# -- Definitions 3.2 and 4.2, Figure 1 --------------------------------------------------------


def test_figure_1_matrices() -> None:
    fa = figure_1()
    out_cells = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (7, 6), (8, 6), (9, 7)]
    out_cells += [(10, 8), (11, 8), (12, 9)]  # (column, row) as drawn in the figure
    expected = torch.zeros(10, 13)
    for column, row in out_cells:
        expected[row, column] = 1
    assert torch.equal(fa.T_out.to_dense(), expected)

    emissions = {0: "{", 1: '"', 2: "x", 3: '"', 4: ":", 5: ":", 6: "-", 7: "0", 8: "123456789"}
    emissions |= {9: "}", 10: "}", 11: "0123456789"}
    expected = torch.zeros(13, len(VOCAB))
    for edge, characters in emissions.items():
        expected[edge, [TOKEN[c] for c in characters]] = 1
    expected[12, TOKEN["EOS"]] = 1
    assert torch.equal(fa.B_f.to_dense(), expected)

    targets = [1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 9, 8, 9]
    assert torch.equal(fa.T_in.to_dense(), torch.eye(10)[targets])
    assert fa.initial.tolist() == [True] + [False] * 9
    assert fa.accepting.nonzero().flatten().tolist() == [9]


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"x":0}', True),
        ('{"x":-7}', True),
        ('{"x":120}', True),
        ('{"x":-0}', True),
        ('{"x":01}', False),
        ('{"x":}', False),
        ('{"y":1}', False),
        ('{"x":1', False),
    ],
)
def test_figure_1_accepts_what_it_should(text: str, valid: bool) -> None:
    fa, x = figure_1(), encode(text, 10)
    assert fa.accepts(x[0].tolist()) == valid
    assert fa.log_value(x).item() == (0.0 if valid else -math.inf)


def test_definition_4_2_edge_hmm() -> None:
    fa = ambiguous_nfa()
    edge_hmm = fa.edge_hmm
    t_in, t_out = fa.T_in.to_dense(), fa.T_out.to_dense()
    assert torch.equal(edge_hmm.transition.to_dense(), t_in @ t_out)
    assert torch.equal(edge_hmm.emission.to_dense(), fa.B_f.to_dense())
    assert torch.equal(edge_hmm.initial.to_dense()[0], t_out.T @ fa.initial.float())
    assert torch.equal(edge_hmm.final.to_dense().diagonal(), t_in @ fa.accepting.float())


def test_definition_4_1_forward_recursion() -> None:
    hmm = random_hmm(4, 3)
    for x in itertools.product(range(3), repeat=4):
        alpha = hmm.initial * hmm.emission[:, x[0]]
        for token in x[1:]:
            alpha = (hmm.transition.T @ alpha) * hmm.emission[:, token]
        torch.testing.assert_close(hmm.log_value(torch.tensor([x]))[0].exp(), alpha.sum())


# -- Theorems 4.3 and 4.4 ---------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_theorem_4_3_an_fa_weighs_strings_by_their_accepting_paths(length: int) -> None:
    fa = ambiguous_nfa()
    strings = list(itertools.product(range(3), repeat=length))
    counts = [accepting_paths(fa, x) for x in strings]
    assert max(counts) > 1 or length == 1
    assert fa.value(torch.tensor(strings), COUNTING).tolist() == counts
    probabilities = fa.log_prob(torch.tensor(strings)).exp()
    expected = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    torch.testing.assert_close(probabilities.double(), expected, rtol=1e-6, atol=0)


def test_theorem_4_3_a_dfa_is_uniform_over_its_strings() -> None:
    fa = exactly_one_one()
    strings = torch.tensor(list(itertools.product(range(2), repeat=3)))
    accepted = strings.sum(1) == 1
    torch.testing.assert_close(fa.log_prob(strings).exp(), accepted / 3.0)


def test_theorem_4_4_the_product_is_an_hmm_with_kronecker_parameters() -> None:
    hmm, fa = random_hmm(3, 3), ambiguous_nfa()
    product, edge_hmm = (hmm * fa).operators, fa.edge_hmm

    def dense(name: str) -> Tensor:
        return getattr(edge_hmm, name).to_dense().double()

    torch.testing.assert_close(
        product.initial.to_dense(), torch.kron(hmm.initial[None], dense("initial"))
    )
    torch.testing.assert_close(
        product.transition.to_dense(), torch.kron(hmm.transition, dense("transition"))
    )
    b_h, b_f = hmm.emission, dense("emission")
    columns = [torch.kron(b_h[:, v], b_f[:, v]) for v in range(3)]
    torch.testing.assert_close(product.emission.to_dense(), torch.stack(columns, dim=1))


def test_the_product_with_a_dfa_is_the_conditional() -> None:
    hmm, fa = random_hmm(3, len(VOCAB)), figure_1()
    # Its edges for ":" are ambiguous as states, but no string has two accepting paths.
    assert not fa.is_deterministic
    assert fa.is_unambiguous
    posterior = condition(hmm, fa)
    texts = ['{"x":0}', '{"x":1}', '{"x":-3}', '{"x":42}']
    x = torch.cat([encode(text, 8) for text in texts])
    ratios = (posterior.log_prob(x) - hmm.log_value(x)).exp()
    torch.testing.assert_close(ratios, ratios[:1].expand(4))
    torch.testing.assert_close(ratios[0].log(), -posterior.log_partition(8))


# -- Algorithm 1, as printed (dense, messages in R^{H x E}) -----------------------------------


def algorithm_1(hmm: HMM, fa: FiniteAutomaton, prefix: list[int], n: int) -> Tensor:
    """Joint probabilities p_prod(x_t = v, x_<t) for every v, step by step as in the paper."""
    edge_hmm = fa.edge_hmm
    a_h, b_h, pi_h = hmm.transition, hmm.emission, hmm.initial
    a_f = edge_hmm.transition.to_dense().double()
    b_f = edge_hmm.emission.to_dense().double()
    pi_f = edge_hmm.initial.to_dense()[0].double()
    f = edge_hmm.final.to_dense().diagonal().double()
    # Step 1
    beta = {n: torch.ones(hmm.num_hidden, 1, dtype=torch.float64) * f}
    summed = b_h @ b_f.T
    for k in range(n, 1, -1):
        beta[k - 1] = (a_f @ (a_h @ (summed * beta[k])).T).T
    # The paper prints gamma without the emission of step 1; the total mass needs it.
    gamma = pi_f @ (pi_h @ (beta[1] * summed))
    # Step 2
    alpha = torch.outer(pi_h, pi_f) / gamma
    for token in prefix:
        alpha = alpha * torch.outer(b_h[:, token], b_f[:, token])
        alpha = (a_f.T @ (a_h.T @ alpha).T).T
    t = len(prefix) + 1
    return ((b_h.T @ (alpha * beta[t])) * b_f.T).sum(1)


@pytest.mark.parametrize("prefix", [[], [0], [1, 2], [0, 1, 0]])
def test_algorithm_1_gives_the_next_token_distribution(prefix: list[int]) -> None:
    hmm, fa = random_hmm(3, 3), ambiguous_nfa()
    joint = algorithm_1(hmm, fa, prefix, n=5)
    log_probs = (hmm * fa).next_token_log_probs(torch.tensor([prefix]).long(), length=5)
    torch.testing.assert_close(log_probs[0].exp(), joint / joint.sum())
    marginal = (hmm * fa).log_marginal(torch.tensor([prefix]).long(), length=5)
    torch.testing.assert_close(marginal[0].exp(), joint.sum())


# -- Equations 3 and 4: the mask of GCD -------------------------------------------------------


def gcd_mask(fa: FiniteAutomaton, prefix: list[int], n: int) -> Tensor:
    """m_t from the boolean forward and backward messages, with the paper's dense matrices."""
    t_in, t_out, b_f = fa.T_in.to_dense(), fa.T_out.to_dense(), fa.B_f.to_dense()
    beta = fa.accepting.float()
    for _ in range(n - len(prefix) - 1):
        beta = (t_out @ ((t_in @ beta) * b_f.sum(1)) > 0).float()  # Eq. (4)
    state = fa.initial.float()
    for token in prefix:
        state = (t_in.T @ ((t_out.T @ state)[:, None] * b_f) > 0)[:, token].float()  # Eq. (3)
    alpha = (t_in.T @ ((t_out.T @ state)[:, None] * b_f) > 0).float()
    return alpha.T @ beta > 0


@pytest.mark.parametrize("n", [7, 8, 10])
@pytest.mark.parametrize("text", ["", "{", '{"x":', '{"x":-', '{"x":1', '{"x":0}'])
def test_gcd_mask_is_the_support_of_the_boolean_semiring(text: str, n: int) -> None:
    fa = figure_1()
    prefix = encode(text, len(text))[0].tolist()[: n - 1]
    mask = gcd_mask(fa, prefix, n)
    rest = [-1] * (n - len(prefix) - 1)
    extended = torch.tensor([[*prefix, v, *rest] for v in range(len(VOCAB))])
    assert torch.equal(fa.value(extended, BOOLEAN), mask)
    if mask.any():
        log_probs = fa.next_token_log_probs(torch.tensor([prefix]).long(), length=n)[0]
        assert torch.equal(log_probs > -math.inf, mask)


# -- Appendix A: the bias of LCD --------------------------------------------------------------


def test_appendix_a_lcd_is_biased_and_the_product_is_not() -> None:
    fa = exactly_one_one()
    uniform = HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    target = condition(uniform, fa)
    lcd = {}
    exact = {}
    for x in ((0, 0, 1), (0, 1, 0), (1, 0, 0)):
        q = p = 1.0
        for t in range(3):
            prefix = torch.tensor([x[:t]]).long()
            log_probs = target.next_token_log_probs(prefix, length=3)[0]
            possible = log_probs > -math.inf  # the strings have one length: LCD's mask, Eq. (1)
            q *= (0.5 * possible / (0.5 * possible).sum())[x[t]].item()
            p *= log_probs.exp()[x[t]].item()
        lcd[x], exact[x] = q, p
    assert list(lcd.values()) == [0.25, 0.25, 0.5]
    assert list(exact.values()) == pytest.approx([1 / 3] * 3, rel=1e-6)
    samples = target.sample(3000, length=3, generator=torch.Generator().manual_seed(0))
    assert (samples.sum(1) == 1).all()
    counts = samples.float().mean(0)
    assert counts.tolist() == pytest.approx([1 / 3] * 3, abs=0.05)

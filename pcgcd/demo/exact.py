"""The demo: what a constraint does to a small model, computed exactly.

``pcgcd demo`` prints it; :func:`run` returns the same numbers.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from torch import Tensor

from pcgcd import viz
from pcgcd.automata import FiniteAutomaton
from pcgcd.circuits import CircuitLike, condition, kl_from_conditioning
from pcgcd.circuits.semirings import COUNTING
from pcgcd.errors import EmptyLanguageError
from pcgcd.hmm import HMM

CHARACTERS = (*'{}":-0123456789xy,', "EOS")
_DIGITS = "0123456789"
_PREFIX = '{"x":'
_BUDGETS = (6, 7, 8, 10, 16, 32)
_LENGTH = 16
_TIGHT_LENGTH = 7


class ThreeBits(NamedTuple):
    """The probabilities of one string of three bits.

    Attributes:
        string: The string.
        exact: p(x | C), from the product.
        local: LCD (Eq. 1) where C is "three bits, exactly one of them 1".
        local_unbounded: LCD where C is "exactly one 1", of any length.
    """

    string: str
    exact: float
    local: float
    local_unbounded: float


class Budget(NamedTuple):
    """What a constraint means within a number of tokens.

    Attributes:
        length: The number of tokens n.
        num_strings: How many strings satisfy the constraint.
        log_probability: log p(C).
        divergence: KL(p(. | C) || p) in nats.
        error: Why it is infeasible, if it is.
    """

    length: int
    num_strings: int
    log_probability: float
    divergence: float
    error: str | None


class Sample(NamedTuple):
    """A string drawn from p(x | C), and log p(x | C)."""

    text: str
    log_probability: float


@dataclass(frozen=True)
class DemoResults:
    """All the numbers of the demo.

    Attributes:
        three_bits: One row for each string that some column gives mass to.
        sizes: Names and sizes of the two operands and of their product.
        budgets: One row for each budget.
        next_token: For each character, its probability after the prefix: without constraint, in
            the tightest budget, in the usual budget.
        samples: Draws from p(x | C).
        best: The string of the heaviest path.
        best_log_weight: Logarithm of that path's weight.
        digit_counts: For each digit, how often it is expected: without and with the constraint.
        edge_posteriors: How likely each edge of the automaton is used at each step, (n, E).
    """

    three_bits: tuple[ThreeBits, ...]
    sizes: tuple[tuple[str, str], ...]
    budgets: tuple[Budget, ...]
    next_token: dict[str, tuple[float, float, float]]
    samples: tuple[Sample, ...]
    best: str
    best_log_weight: float
    digit_counts: dict[str, tuple[float, float]]
    edge_posteriors: Tensor


# -- the models -------------------------------------------------------------------------------


def one_bit_of_three() -> FiniteAutomaton:
    """Strings of three bits with exactly one 1; state (t, k) is t bits read, k of them 1."""
    edges = [(0, 1, {0}), (0, 2, {1}), (1, 3, {0}), (1, 4, {1}), (2, 4, {0}), (3, 5, {1})]
    return FiniteAutomaton.from_edges(
        num_states=6, vocab_size=2, initial=0, accepting={5}, edges=[*edges, (4, 5, {0})]
    )


def _one_bit() -> FiniteAutomaton:
    """Strings of bits, of any length, with exactly one 1."""
    edges = [(0, 0, {0}), (0, 1, {1}), (1, 1, {0})]
    return FiniteAutomaton.from_edges(
        num_states=2, vocab_size=2, initial=0, accepting={1}, edges=edges
    )


def integer_object() -> FiniteAutomaton:
    """The paper's Figure 1: ``{"x": <integer>}``, its end padded with EOS."""
    spelled = [
        *((0, 1, "{"), (1, 2, '"'), (2, 3, "x"), (3, 4, '"'), (4, 5, ":"), (4, 6, ":")),
        *((5, 6, "-"), (6, 7, "0"), (6, 8, _DIGITS[1:])),
        *((7, 9, "}"), (8, 9, "}"), (8, 8, _DIGITS)),
    ]
    edges = [(source, target, _tokens(characters)) for source, target, characters in spelled]
    return FiniteAutomaton.from_edges(
        num_states=10,
        vocab_size=len(CHARACTERS),
        initial=0,
        accepting={9},
        edges=[*edges, (9, 9, [CHARACTERS.index("EOS")])],
    )


def json_model() -> HMM:
    """A hand-made HMM that writes text somewhat like JSON, and then EOS for ever."""
    favourites: dict[str, dict[str, float]] = {
        "open": {"{": 1.0},
        "quote": {'"': 1.0},
        "letter": {"x": 0.7, "y": 0.3},
        "colon": {":": 0.9, ",": 0.1},
        "number": {"-": 0.1, **{digit: 0.9 * _benford(int(digit)) for digit in _DIGITS}},
        "close": {"}": 1.0},
    }
    follows: dict[str, dict[str, float]] = {
        "open": {"quote": 0.8, "number": 0.1, "close": 0.1},
        "quote": {"letter": 0.5, "colon": 0.45, "close": 0.05},
        "letter": {"quote": 0.6, "letter": 0.3, "close": 0.1},
        "colon": {"number": 0.6, "quote": 0.3, "open": 0.1},
        "number": {"number": 0.5, "close": 0.4, "colon": 0.1},
        "close": {"end": 0.8, "colon": 0.2},
        "end": {"end": 1.0},
    }
    hidden = list(follows)
    transition = [[follows[here].get(there, 0.0) for there in hidden] for here in hidden]
    slips = 0.05 / (len(CHARACTERS) - 1)  # any character but EOS, whatever the hidden state
    emission = [
        [0.95 * favourites[here].get(c, 0.0) + slips * (c != "EOS") for c in CHARACTERS]
        for here in favourites
    ]
    emission.append([float(c == "EOS") for c in CHARACTERS])
    initial = [0.8, 0.1, 0.0, 0.0, 0.1, 0.0, 0.0]
    return HMM(*(torch.tensor(x, dtype=torch.float64) for x in (initial, transition, emission)))


def _benford(digit: int) -> float:
    """Small digits are more frequent; sums to one over 0..9."""
    return math.log((digit + 2) / (digit + 1)) / math.log(11)


def _tokens(text: str) -> list[int]:
    return [CHARACTERS.index(character) for character in text]


def _text(tokens: Tensor) -> str:
    return "".join(CHARACTERS[token] for token in tokens.tolist()).replace("EOS", "")


# -- the numbers ------------------------------------------------------------------------------


def locally_constrained(p: CircuitLike, fa: FiniteAutomaton, length: int) -> dict[str, float]:
    """The distribution of locally constrained decoding (LCD, Eq. 1) over digit strings.

    Each token is drawn from p(x_t | x_<t), restricted to prefixes that some string of the language,
    of whatever length, begins with. No lookahead: the number of completions plays no role.
    """
    result = {}
    for tokens in itertools.product(range(fa.vocab_size), repeat=length):
        probability, states = 1.0, fa.start_states
        for t, token in enumerate(tokens):
            prefix = torch.tensor([tokens[:t]], dtype=torch.long)
            scores = p.next_token_log_probs(prefix, length=length)[0].exp().numpy()
            allowed = scores * fa.mask(states)
            probability *= float(allowed[token] / allowed.sum()) if allowed.any() else 0.0
            states = fa.advance(states, token)
            if not probability:
                break
        result["".join(str(token) for token in tokens)] = probability
    return result


def _three_bits() -> tuple[ThreeBits, ...]:
    coin = HMM(*(torch.tensor(x, dtype=torch.float64) for x in ([1.0], [[1.0]], [[0.5, 0.5]])))
    bounded = one_bit_of_three()
    product = condition(coin, bounded)
    local = locally_constrained(coin, bounded, 3)
    unbounded = locally_constrained(coin, _one_bit(), 3)
    rows = []
    for string in local:
        x = torch.tensor([[int(bit) for bit in string]])
        exact = float(product.log_prob(x).exp())
        row = ThreeBits(string, exact, local[string], unbounded[string])
        if any(row[1:]):
            rows.append(row)
    return tuple(rows)


def _budget(hmm: HMM, fa: FiniteAutomaton, length: int) -> Budget:
    product = condition(hmm, fa)
    error = None
    try:
        product.sample(1, length)
    except EmptyLanguageError as reason:
        error = str(reason)
    return Budget(
        length,
        int(fa.partition(length, COUNTING)[0]),
        float(product.log_partition(length)),
        float(kl_from_conditioning(hmm, fa, length)),
        error,
    )


def run(seed: int = 0, num_samples: int = 6) -> DemoResults:
    """Compute everything; the seed decides which strings are drawn.

    >>> [round(row.exact, 4) for row in run().three_bits if row.exact]
    [0.3333, 0.3333, 0.3333]
    """
    hmm, fa = json_model(), integer_object()
    product = condition(hmm, fa)
    unknown = torch.full((1, _LENGTH), -1)
    prefix = torch.tensor([_tokens(_PREFIX)])
    following = [
        circuit.next_token_log_probs(prefix, length=length)[0].exp().tolist()
        for circuit, length in ((hmm, _LENGTH), (product, _TIGHT_LENGTH), (product, _LENGTH))
    ]
    draws = product.sample(num_samples, _LENGTH, generator=torch.Generator().manual_seed(seed))
    best = product.best_path(unknown)
    counts = [circuit.expected_token_counts(unknown)[0].tolist() for circuit in (hmm, product)]
    posteriors = torch.cat(product.unit_posteriors(unknown))  # (n, H * E)
    return DemoResults(
        three_bits=_three_bits(),
        sizes=(
            ("HMM", f"{hmm.num_hidden} hidden states, {hmm.vocab_size} tokens"),
            ("automaton", f"{fa.num_states} states, {fa.num_edges} edges"),
            ("product", f"{hmm.num_hidden} x {fa.num_edges} units, kept as factors"),
            (f"unrolled, n = {_LENGTH}", repr(product.unroll(_LENGTH))),
        ),
        budgets=tuple(_budget(hmm, fa, length) for length in _BUDGETS),
        next_token={c: (a, b, d) for c, a, b, d in zip(CHARACTERS, *following)},
        samples=tuple(
            Sample(_text(tokens), log_probability)
            for tokens, log_probability in zip(draws, product.log_prob(draws).tolist())
        ),
        best=_text(best.tokens[0]),
        best_log_weight=float(best.log_weight[0]),
        digit_counts={
            digit: (counts[0][token], counts[1][token])
            for digit, token in zip(_DIGITS, _tokens(_DIGITS))
        },
        edge_posteriors=posteriors.reshape(_LENGTH, hmm.num_hidden, fa.num_edges).sum(1),
    )


# -- showing them -----------------------------------------------------------------------------


def figure(results: DemoResults) -> Figure:
    """The automaton, its matrices, and how likely each of its edges is at each step."""
    return viz.figure_overview(
        integer_object(), results.edge_posteriors, token_names=list(CHARACTERS)
    )


def _table(*columns: str) -> Table:
    table = Table(*columns[:1], box=None, pad_edge=False, header_style="bold")
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def report(results: DemoResults, console: Console) -> None:
    """Print the results, each step with a sentence of explanation."""

    def say(title: str, sentence: str) -> None:
        console.print(f"\n[bold]{title}[/bold]")
        console.print(sentence, markup=False, highlight=False)

    say(
        "1. Three fair bits, exactly one of them 1",
        "The product knows what is still to come, so all three strings are equally likely, while "
        "masking token by token (LCD) prefers 100, and without a limit on the length even ends "
        "in 000.",
    )
    table = _table("string", "exact p(x | C)", "LCD", "LCD, no limit")
    for row in results.three_bits:
        table.add_row(row.string, *(f"{value:.4f}" for value in row[1:]))
    console.print(table)

    say(
        '2. The automaton of {"x": <integer>} times a small HMM over characters',
        "The product is lazy: it holds its two factors and never writes their product out.",
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, size in results.sizes:
        table.add_row(name, size)
    console.print(table)

    say(
        "3. How likely is the constraint within n tokens?",
        "One backward pass sums over all valid strings; KL(p(.|C) || p) = -log p(C) is how far "
        "the constraint bends the model.",
    )
    table = _table("n", "valid strings", "p(C)", "log p(C)", "KL in nats")
    for budget in results.budgets:
        count = str(budget.num_strings) if budget.num_strings < 1e9 else f"{budget.num_strings:.3e}"
        logs = (f"{value:.4f}" for value in (budget.log_probability, budget.divergence))
        table.add_row(str(budget.length), count, f"{math.exp(budget.log_probability):.6f}", *logs)
    console.print(table)
    for budget in results.budgets:
        if budget.error:
            console.print(f"n = {budget.length}: {budget.error}", markup=False, highlight=False)

    say(
        f"4. The next character after {_PREFIX}",
        f"Given the constraint, impossible characters have exactly zero mass, and within "
        f"{_TIGHT_LENGTH} tokens there is room for one digit, so that no minus sign is possible.",
    )
    table = _table("character", "HMM alone", f"C, n = {_TIGHT_LENGTH}", f"C, n = {_LENGTH}")
    for character, probabilities in results.next_token.items():
        if any(value > 0.01 for value in probabilities):
            table.add_row(character, *(f"{value:.4f}" if value else "0" for value in probabilities))
    console.print(table)

    say(
        f"5. Strings drawn from p(x | C), n = {_LENGTH}",
        "Every draw is valid; the last column is what a JSON parser makes of it.",
    )
    table = _table("string", "log p(x | C)", "parsed")
    for sample in results.samples:
        table.add_row(sample.text, f"{sample.log_probability:.4f}", repr(json.loads(sample.text)))
    console.print(table, highlight=False)
    weight = f"log weight {results.best_log_weight:.4f}"
    line = f"The heaviest single path spells {results.best} ({weight})."
    console.print(line, markup=False, highlight=False)

    say(
        "6. How often is each digit expected?",
        "Expected counts come from the same two passes: without the constraint, and given it.",
    )
    table = _table("digit", "HMM alone", "given C")
    for digit, pair in results.digit_counts.items():
        table.add_row(digit, *(f"{value:.4f}" for value in pair))
    totals = (sum(pair[i] for pair in results.digit_counts.values()) for i in range(2))
    table.add_row("all", *(f"{value:.4f}" for value in totals))
    console.print(table)


def main(out: Path, seed: int = 0, console: Console | None = None) -> DemoResults:
    """Run the demo, print it, and save its picture into the folder ``out``."""
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    results = run(seed)
    report(results, console)
    path = viz.save(figure(results), out / "demo.png")
    line = f"\nThe picture is in {path}."
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    return results

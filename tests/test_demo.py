"""The demo's numbers against references that share no code with the library."""

from __future__ import annotations

import io
import json
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from pcgcd.demo import exact as demo
from pcgcd.demo.exact import CHARACTERS, DemoResults

VALID = re.compile(r'\{"x":-?(0|[1-9][0-9]*)\}')
LENGTH = 16
EOS = CHARACTERS.index("EOS")


@pytest.fixture(scope="module")
def results() -> DemoResults:
    return demo.run(seed=0)


class Reference:
    """p(x) and p(x | C) by plain loops over hidden states and states of a DFA for C.

    The DFA is written by hand for this test; the library's automaton is an NFA.
    """

    START, ACCEPT = 0, 9

    def __init__(self) -> None:
        hmm = demo.json_model()
        self.initial = hmm.initial.numpy()
        self.transition = hmm.transition.numpy()
        self.emission = hmm.emission.numpy()

    def step(self, state: int, character: str) -> int | None:
        if state < 5:
            return state + 1 if character == '{"x":'[state] else None
        if state == 5 and character == "-":
            return 6
        if state in (5, 6) and character == "0":
            return 7
        if (state in (5, 6) and character in "123456789") or (
            state == 8 and character in "0123456789"
        ):
            return 8
        if state in (7, 8) and character == "}":
            return 9
        return 9 if state == 9 and character == "EOS" else None

    def weight(self, tokens: list[int]) -> float:
        """p(x) by the forward algorithm."""
        alpha = self.initial * self.emission[:, tokens[0]]
        for token in tokens[1:]:
            alpha = (alpha @ self.transition) * self.emission[:, token]
        return float(alpha.sum())

    def moves(self) -> list[tuple[int, int, int]]:
        """(state, token, next state) of the DFA."""
        found = []
        for state, (token, character) in product(range(10), enumerate(CHARACTERS)):
            target = self.step(state, character)
            if target is not None:
                found.append((state, token, target))
        return found

    def backward(self, length: int) -> list[np.ndarray]:
        """backward[t][z, s]: the mass of valid ends from step t on, at hidden z and state s."""
        beta = np.zeros((len(self.initial), 10))
        beta[:, self.ACCEPT] = 1.0
        messages = [beta]
        for step in range(length):
            after = messages[-1] if step == 0 else self.transition @ messages[-1]
            beta = np.zeros_like(after)
            for state, token, target in self.moves():
                beta[:, state] += self.emission[:, token] * after[:, target]
            messages.append(beta)
        return messages[::-1]

    def token_counts(self, length: int) -> np.ndarray:
        """The expected number of each token given C."""
        backward = self.backward(length)
        counts = np.zeros(len(CHARACTERS))
        alpha = np.zeros((len(self.initial), 10))
        alpha[:, self.START] = self.initial
        for step in range(length):
            after = (
                backward[step + 1] if step == length - 1 else self.transition @ backward[step + 1]
            )
            reached = np.zeros_like(alpha)
            for state, token, target in self.moves():
                here = alpha[:, state] * self.emission[:, token]
                counts[token] += here @ after[:, target]
                reached[:, target] += here
            alpha = self.transition.T @ reached
        return counts / self.probability(length)

    def probability(self, length: int) -> float:
        """p(C)."""
        return float(self.initial @ self.backward(length)[0][:, self.START])

    def best_log_weight(self, length: int) -> float:
        """The weight of the heaviest path through hidden states and characters."""
        best = np.full((len(self.initial), 10), 0.0)
        best[:, self.ACCEPT] = 1.0
        for step in range(length):
            after = best if step == 0 else (self.transition[:, :, None] * best[None]).max(1)
            best = np.zeros_like(after)
            for state, token, target in self.moves():
                score = self.emission[:, token] * after[:, target]
                best[:, state] = np.maximum(best[:, state], score)
        return math.log(float((self.initial * best[:, self.START]).max()))


def encode(text: str, length: int = LENGTH) -> list[int]:
    tokens = [CHARACTERS.index(character) for character in text]
    return tokens + [EOS] * (length - len(tokens))


def test_one_bit_of_three_is_a_third_each_and_lcd_is_not(results: DemoResults) -> None:
    rows = {row.string: row for row in results.three_bits}
    assert {s: row.exact for s, row in rows.items()} == pytest.approx(
        {"000": 0, "001": 1 / 3, "010": 1 / 3, "100": 1 / 3}
    )
    assert {s: row.local for s, row in rows.items()} == pytest.approx(
        {"000": 0, "001": 1 / 4, "010": 1 / 4, "100": 1 / 2}
    )
    assert {s: row.local_unbounded for s, row in rows.items()} == pytest.approx(
        {"000": 1 / 8, "001": 1 / 8, "010": 1 / 4, "100": 1 / 2}
    )


def test_the_automaton_is_the_papers() -> None:
    fa = demo.integer_object()
    assert (fa.num_states, fa.num_edges) == (10, 13)
    assert fa.source.tolist() == [0, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9]
    assert fa.is_unambiguous
    assert not fa.is_deterministic


def test_the_automaton_accepts_what_the_pattern_matches() -> None:
    fa = demo.integer_object()
    for middle in product("-0123x}", repeat=3):
        text = '{"x":' + "".join(middle)
        for candidate in (text, text + "}"):
            accepted = fa.accepts([CHARACTERS.index(character) for character in candidate])
            assert accepted == (VALID.fullmatch(candidate) is not None)


def test_budgets_agree_with_the_reference(results: DemoResults) -> None:
    reference = Reference()
    feasible = [budget for budget in results.budgets if budget.error is None]
    assert [budget.length for budget in feasible] == [7, 8, 10, 16, 32]
    for budget in feasible:
        digits = budget.length - 6
        assert budget.num_strings == 10**digits + (10 ** (digits - 1) if digits > 1 else 0)
        expected = math.log(reference.probability(budget.length))
        assert budget.log_probability == pytest.approx(expected, rel=1e-9)
        assert budget.divergence == pytest.approx(-expected, rel=1e-9)


def test_the_probability_of_a_short_budget_is_a_sum_over_strings(results: DemoResults) -> None:
    reference = Reference()
    strings = [f'{{"x":{number}}}' for number in range(100)]
    strings += [f'{{"x":-{number}}}' for number in range(10)]
    total = sum(reference.weight(encode(string, 8)) for string in strings)
    (budget,) = (budget for budget in results.budgets if budget.length == 8)
    assert math.exp(budget.log_probability) == pytest.approx(total, rel=1e-9)


def test_an_infeasible_budget_names_the_smallest_that_works(results: DemoResults) -> None:
    (budget,) = (budget for budget in results.budgets if budget.error is not None)
    assert (budget.length, budget.num_strings) == (6, 0)
    assert budget.log_probability == -math.inf
    assert "smallest budget that works is 7" in str(budget.error)


def test_next_token_probabilities_agree_with_enumeration(results: DemoResults) -> None:
    reference = Reference()
    weights = {d: reference.weight(encode(f'{{"x":{d}}}', 7)) for d in "0123456789"}
    tight = {c: weights.get(c, 0.0) / sum(weights.values()) for c in CHARACTERS}
    assert {c: row[1] for c, row in results.next_token.items()} == pytest.approx(tight)
    prefix = encode('{"x":', 5)
    alone = [reference.weight([*prefix, v]) / reference.weight(prefix) for v in range(19)]
    assert [row[0] for row in results.next_token.values()] == pytest.approx(alone)
    impossible = [c for c in CHARACTERS if c not in "-0123456789"]
    assert all(results.next_token[c][1:] == (0.0, 0.0) for c in impossible)
    assert results.next_token["-"][1] == 0.0 < results.next_token["-"][2]
    assert sum(row[2] for row in results.next_token.values()) == pytest.approx(1)


def test_samples_are_valid_json_with_their_exact_probabilities(results: DemoResults) -> None:
    reference = Reference()
    mass = reference.probability(LENGTH)
    assert len(results.samples) == 6
    for sample in demo.run(seed=7, num_samples=50).samples:
        assert VALID.fullmatch(sample.text)
        assert isinstance(json.loads(sample.text)["x"], int)
        expected = math.log(reference.weight(encode(sample.text)) / mass)
        assert sample.log_probability == pytest.approx(expected, rel=1e-9)


def test_the_best_path_has_the_greatest_weight(results: DemoResults) -> None:
    assert VALID.fullmatch(results.best)
    assert results.best_log_weight == pytest.approx(Reference().best_log_weight(LENGTH))


def test_expected_digit_counts_agree_with_the_reference(results: DemoResults) -> None:
    reference = Reference()
    given_c = reference.token_counts(LENGTH)
    hidden, alone = reference.initial, np.zeros(len(CHARACTERS))
    for _ in range(LENGTH):
        alone += hidden @ reference.emission
        hidden = hidden @ reference.transition
    for digit, (without, given) in results.digit_counts.items():
        token = CHARACTERS.index(digit)
        assert without == pytest.approx(alone[token], rel=1e-9)
        assert given == pytest.approx(given_c[token], rel=1e-9)


def test_edge_posteriors_sum_to_one_at_every_step(results: DemoResults) -> None:
    assert results.edge_posteriors.shape == (LENGTH, 13)
    torch.testing.assert_close(
        results.edge_posteriors.sum(1), torch.ones(LENGTH, dtype=torch.float64)
    )


def test_the_seed_decides_the_samples_and_nothing_else(results: DemoResults) -> None:
    again, other = demo.run(seed=0), demo.run(seed=1)
    assert again.samples == results.samples != other.samples
    assert again.budgets[1:] == other.budgets[1:]


def test_the_demo_prints_its_tables_and_writes_into_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    demo.main(Path("out"), seed=0, console=Console(file=printed, width=200))
    assert "0.3333" in printed.getvalue()
    assert "smallest budget that works is 7" in printed.getvalue()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["demo.png", "out"]

"""Language models that are written down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pcgcd.automata import Vocabulary
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import TableLM
from tests.lm.examples import VOCABULARY

SMALL = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
TABLE = {(): [0.5, 0.25, 0.25], (0,): [0.0, 0.0, 1.0], (1, 0): (0.1, 0.2, 0.7)}


def test_a_table_gives_its_rows() -> None:
    lm = TableLM(SMALL, TABLE, default=[0.2, 0.3, 0.5])
    found = lm.log_probs([(1, 0), (), (0,), (2, 2), ()])
    assert found.dtype == torch.float64
    rows = [TABLE[1, 0], TABLE[()], TABLE[0,], [0.2, 0.3, 0.5], TABLE[()]]
    expected = torch.tensor([list(row) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(found.exp(), expected, rtol=1e-15, atol=0)
    assert found[2].tolist() == [-torch.inf, -torch.inf, 0]


def test_a_function_gets_the_whole_prefix() -> None:
    seen: list[tuple[int, ...]] = []

    def row(prefix: tuple[int, ...]) -> np.ndarray:
        seen.append(prefix)
        return np.eye(3)[len(prefix) % 3]

    lm = TableLM(SMALL, row)
    session = lm.start([(2, 1)])
    session.advance([0])
    assert session.log_probs().exp().tolist() == [[1, 0, 0]]
    session.log_probs()
    lm.log_probs([(2, 1, 0)])
    assert seen == [(2, 1, 0)]


def test_no_prefixes_give_no_rows() -> None:
    assert TableLM.random(SMALL).log_probs([]).shape == (0, 3)


def test_random_rows_depend_on_the_seed_and_the_last_tokens() -> None:
    prefixes = [p for n in range(4) for p in itertools.product(range(3), repeat=n)]
    for order in (0, 1, 2, None):
        lm = TableLM.random(VOCABULARY, seed=1, order=order)
        rows = {p: tuple(lm.log_probs([p])[0].tolist()) for p in prefixes}
        context = {p: p if order is None else p[len(p) - min(order, len(p)) :] for p in prefixes}
        for p, q in itertools.combinations(prefixes, 2):
            assert (rows[p] == rows[q]) == (context[p] == context[q])
        again = TableLM.random(VOCABULARY, seed=1, order=order).log_probs(prefixes)
        other = TableLM.random(VOCABULARY, seed=2, order=order).log_probs(prefixes)
        assert torch.equal(again, lm.log_probs(prefixes))
        assert not torch.isclose(other, again).all(-1).any()
        torch.testing.assert_close(again.exp().sum(-1), torch.ones(len(prefixes)).double())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.5], r"expected 3 probabilities after the prefix \(1,\)"),
        ([0.5, 0.6, 0.1], "sum to 1.2"),
        ([-0.5, 1.0, 0.5], "smallest is -0.5"),
        ([float("nan"), 0.5, 0.5], "sum to nan"),
    ],
)
def test_rows_that_are_no_distribution_get_a_clear_error(row: list[float], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        TableLM(SMALL, {(1,): row}).log_probs([(1,)])


def test_other_mistakes_get_a_clear_error() -> None:
    with pytest.raises(InvalidParameterError, match=r"no row for the prefix \(1,\)"):
        TableLM(SMALL, TABLE).log_probs([(1,)])
    with pytest.raises(InvalidParameterError, match="or a function, but list"):
        TableLM(SMALL, [0.5, 0.5, 0])  # type: ignore[arg-type]
    for options in ({"order": -1}, {"concentration": 0}, {"seed": -3}):
        with pytest.raises(InvalidParameterError, match="a random table needs"):
            TableLM.random(SMALL, **options)  # type: ignore[arg-type]
